"""Tables of a study as Markdown, and the small CSV table of results that they are built from.

The records of a study's tables, one per line and value, are small enough to commit next to the
study's README. The tables in that README stand between the marks ``<!-- table NAME -->`` and
``<!-- end -->``. They are regenerated from the records, without the store of rows.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bfio.common.statistics import CONFIDENCE
from bfio.common.text import TextTable
from bfio.studies.kinds import heading, present_name, with_unit
from bfio.studies.report.files import csv_text, write_text
from bfio.studies.report.statistics import Estimate, Interval, median_rank
from bfio.studies.report.tables import build, exponent_heading, ratio_heading
from bfio.studies.report.traced import decimals_of, written
from bfio.studies.report_plan import Shown, Statistic, Table
from bfio.studies.results import Results
from bfio.studies.row import DASH, Value, label
from bfio.studies.row_kind import MEASURED_PART, STEADY
from bfio.studies.study import Study
from formulations.errors import InputError, use_one_of

#: One line of the small table of results: text by column name, empty where there is no entry.
Record = Mapping[str, str]

#: The table with row counts and provenance.
ROWS = "rows"
#: The value name of a table's record that holds its settings.
SETTINGS = "settings"
_DIGITS = 8
#: Marks of cells that need caution: the column with the count of rows, and the reason.
_MARKS = {
    "†": ("rows_unproven", "an optimum is unproven"),
    "‡": ("rows_clocked", "a time limit stopped a solve; numbers may differ between machines"),
}

_BLOCK = re.compile(r"(<!-- table (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def records_csv(results: Results) -> str:
    """Return the numbers of a study's tables as CSV, one line per number, eight digits.

    The table `ROWS` comes first, with row counts and provenance. Then the named tables follow, or
    all tables if none has a name.

    Raises
    ------
    InputError
        If the baseline of a table is ambiguous.
    """
    records: list[Mapping[str, Value]] = list(_rows(results))
    for plan in kept_tables(results.study):
        view = build(plan, results)
        records.append({"table": plan.key, "value": SETTINGS, "words": view.settings})
        records += [{"table": plan.key, **record} for record in view.records]
    names = dict.fromkeys(name for record in records for name in record if name != "coverage")
    # Arguments first, including those that occur only in later tables.
    columns = sorted(names, key=lambda name: name != "table" and not name.startswith("argument."))
    values = [[record.get(name) for name in columns] for record in records]
    lines = [[f"{v:.{_DIGITS}g}" if isinstance(v, float) else v for v in line] for line in values]
    return csv_text(columns, lines).decode()


def _rows(results: Results) -> Iterator[Mapping[str, Value]]:
    """Yield the counts of rows and of proven optima, and the provenance of the rows."""
    done = results.done
    counts = {
        "planned": len(results.tasks),
        "done": len(done),
        "rows_unproven": results.unproven_rows,
        "solves": sum(row.solves for row in done),
        "unproven": sum(row.unproven for row in done),
        "cpu_s": round(sum(row.cpu_s for row in done)),
    }
    made_by = [row.environment for row in done]
    origin = {
        "commit": {
            f"{str(e.get('commit'))[:7]}{' with changes' if e.get('dirty') else ''}"
            for e in made_by
        },
        # All planned rows have the same code version: it is part of their keys.
        "code": {task.code for task in results.tasks},
        "processor": {str(e.get("machine", {}).get("processor")) for e in made_by},
        "date": {max((row.finished_at[:10] for row in done), default="")},
    }
    for name, count in counts.items():
        yield {"table": ROWS, "value": name, "estimate": count}
    for name, words in origin.items():
        yield {"table": ROWS, "value": name, "words": ", ".join(sorted(words))}


def parsed_records(text: str) -> list[Record]:
    """Parse the records of a results file (CSV) written by `records_csv`."""
    return list(csv.DictReader(io.StringIO(text)))


def read_records(path: Path) -> list[Record]:
    """Read a results file (CSV) written by `records_csv`.

    Raises
    ------
    InputError
        If the file cannot be read, or has no rows or other columns.
    """
    remedy = "name an output file of `bfio study report --format csv`"
    try:
        records = parsed_records(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read ({error})", remedy) from None
    if not records:
        raise InputError(str(path), "has no rows", remedy)
    for name in ("table", "value"):
        if any(record.get(name) is None for record in records):
            raise InputError(str(path), f"column {name!r} is missing", remedy)
    return records


def markdown_tables(study: Study, records: Sequence[Record]) -> dict[str, str]:
    """Return each table of a study as Markdown, by the name in its marks."""
    return {name: table.markdown() for name, table in text_tables(study, records).items()}


def text_tables(study: Study, records: Sequence[Record]) -> dict[str, TextTable]:
    """Return each table of a study as text cells, by the name in its marks."""
    present = [{**r, "value": present_name(study.computes, r["value"])} for r in records]
    return {
        plan.key: _table(plan, [r for r in present if r["table"] == plan.key], study.computes)
        for plan in kept_tables(study)
    }


def kept_tables(study: Study) -> list[Table]:
    """Return the tables that are kept as records: those with names, or all if none has a name."""
    return [plan for plan in study.report.tables if plan.name] or list(study.report.tables)


def filled(text: str, tables: Mapping[str, str], where: str, *, strict: bool = True) -> str:
    """Return a text whose marked tables are regenerated.

    Parameters
    ----------
    text : str
        The text, e.g. of a README.
    tables : mapping of str to str
        Tables by name.
    where : str
        Name of the text in error messages.
    strict : bool
        Whether an unknown marked name is an error. Otherwise its table stays unchanged.

    Raises
    ------
    InputError
        If a marked name is unknown.
    """

    def block(found: re.Match[str]) -> str:
        name = found[2]
        if name in tables:
            return f"{found[1]}{tables[name]}{found[3]}"
        if strict:
            raise InputError(f"{where}: table {name}", "unknown", use_one_of(name, tables))
        return found[0]

    return _BLOCK.sub(block, text)


def marked_tables(text: str) -> list[str]:
    """Return the names of the tables marked in a text."""
    return [name for _, name, _ in _BLOCK.findall(text)]


def write_markdown(tables: Mapping[str, str], path: Path) -> None:
    """Write tables into a file: between its marks if there are any, otherwise as the whole file.

    Raises
    ------
    InputError
        If it cannot be read or written, or has marks for other tables only.
    """
    try:
        old = path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        remedy = "name a text file, or a new file"
        raise InputError(str(path), f"cannot be read ({error})", remedy) from None
    names = marked_tables(old)
    if names and not set(names) & set(tables):
        what = "no <!-- table NAME --> has a known name"
        raise InputError(str(path), what, use_one_of(names[0], tables))
    write_text(path, filled(old, tables, str(path), strict=False) if names else whole(tables))


def whole(tables: Mapping[str, str]) -> str:
    """Return all tables as one text, each below a heading with its name."""
    return "\n".join(f"### {name}\n\n{text}" for name, text in tables.items())


def _table(plan: Table, records: Sequence[Record], computes: str) -> TextTable:
    heads = [name for name in plan.rows if name != plan.across]
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    columns: dict[str, None] = {}
    numbers = [record for record in records if record["value"] != SETTINGS]
    settings = [r["words"] for r in records if r["value"] == SETTINGS]
    settings += _basis(plan, numbers)
    baseline = {f"argument.{name}": label(value) for name, value in plan.baseline.items()}
    for record in numbers:
        if plan.show is Shown.RATIO and baseline.items() <= record.items():
            continue
        labels = [_labelled(plan, record.get(f"argument.{name}")) for name in heads]
        source = record.get("source") or ""
        if source and labels:
            labels[-1] += f" ({source})"
        line = lines.setdefault((*labels, source), {})
        for column, text in _cells(plan, record, computes):
            columns.setdefault(column)
            line[column] = text
    body = [
        [*labels, *(line.get(column, "") for column in columns)]
        for (*labels, _), line in lines.items()
    ]
    headings = [*(_labelled(plan, name) for name in heads), *columns]
    # Not capitalised: it may begin with the name of an argument or a trace.
    above = "; ".join(settings)
    notes = tuple(_footnotes(plan, numbers))
    return TextTable(plan.title, headings, body, above, len(heads), notes)


def _basis(plan: Table, records: Sequence[Record]) -> Iterator[str]:
    """Yield the part of each run that all numbers cover, if there is one, and interval levels."""
    for prefix in (MEASURED_PART, STEADY):
        if records and all(record["value"].startswith(prefix) for record in records):
            yield f"{prefix[:-1]} part of each run"
    values, ratios = plan.show is not Shown.RATIO, plan.show is not Shown.VALUE
    ends = [(values and r.get("lower")) or (ratios and r.get("ratio_lower")) for r in records]
    if not any(ends):
        return
    least = level = round(100 * CONFIDENCE)
    if plan.statistic is Statistic.MEDIAN:
        for record in records:
            if record.get("lower"):
                rows = int(record["rows_done"]) - int(record.get("undefined") or 0)
                least = min(least, int(100 * median_rank(rows)[1]))
    covers = f"{level} % intervals" if least == level else f"intervals of {least} % or more"
    yield f"in brackets {covers}"


def _labelled(plan: Table, text: str | None) -> str:
    return str(plan.labels.get(text or "", text or DASH))


def _cells(plan: Table, record: Record, computes: str) -> Iterator[tuple[str, str]]:
    """Yield the column heading and the text of each number in a record."""
    value = record["value"]
    is_labelled = value in plan.labels
    name = _labelled(plan, value) if is_labelled else with_unit(computes, value)
    if plan.against and not is_labelled:
        name = exponent_heading(heading(computes, value), plan.against)
    if plan.show is not Shown.RATIO:
        yield _heading(plan, record, name), _value_text(record)
    is_divided = plan.show is not Shown.VALUE and record["value"] in plan.divided
    if is_divided and record.get("source") in (None, ""):
        divided = name if is_labelled else heading(computes, value)
        baseline = [_labelled(plan, label(entry)) for entry in plan.baseline.values()]
        # The baseline has no ratio to itself.
        text = _estimated(record, "ratio", "ratio_lower", "ratio_upper")
        told = _marked(record, text) if record.get("ratio") else ""
        yield _heading(plan, record, ratio_heading(divided, baseline)), told


def _heading(plan: Table, record: Record, name: str) -> str:
    if not plan.across:
        return name
    place = _labelled(plan, record.get(f"argument.{plan.across}"))
    is_only = len(plan.values) == 1 and (plan.show is not Shown.ALL or not plan.baseline)
    return place if is_only else f"{place}: {name}"


def _value_text(record: Record) -> str:
    if record.get("words"):
        return _marked(record, record["words"])
    if record.get("source"):
        return record["estimate"]
    text = _estimated(record, "estimate", "lower", "upper")
    planned, done = record.get("rows_planned"), record.get("rows_done")
    return _marked(record, text if planned == done else f"{text} [{done} of {planned} rows]")


def _marked(record: Record, text: str) -> str:
    marks = "".join(mark for mark, (count, _) in _MARKS.items() if record.get(count))
    return f"{text} {marks}" if marks else text


def _footnotes(plan: Table, records: Sequence[Record]) -> Iterator[str]:
    """Yield the meaning of each footnote mark, with the number of marked rows."""
    for mark, (count, meaning) in _MARKS.items():
        of_lines = {
            tuple(record.get(f"argument.{name}") for name in plan.rows): record
            for record in records
            if record.get(count)
        }.values()
        if of_lines:
            marked, done = (sum(int(r[name]) for r in of_lines) for name in (count, "rows_done"))
            yield f"{mark} Rows in which {meaning}: {marked} of {done}."


def _estimated(record: Record, *names: str) -> str:
    value, lower, upper = (_number(record.get(name)) for name in names)
    if value is None:
        return DASH
    if lower is None or upper is None:
        why = record.get("no_interval" if names[0] == "estimate" else "no_ratio_interval")
        return f"{written(value)} ({why})" if why else written(value)
    decimals = decimals_of(Estimate(value, Interval(float(lower), float(upper)), 2))
    ends = f"{written(lower, decimals)} to {written(upper, decimals)}"
    return f"{written(value, decimals)} ({ends})"


def _number(text: str | None) -> int | float | None:
    with suppress(ValueError):
        return int(text) if text else None
    with suppress(ValueError):
        return float(text or "")
    return None
