"""Build the tables of a report: statistics with intervals, ratios, published figures."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bfio.studies.kinds import describe, heading
from bfio.studies.report.selection import (
    Baseline,
    Group,
    Pairing,
    Ratio,
    distinct,
    estimate_of,
    fitted,
    grouped,
    keys_of,
    num_repeated,
    pair,
    ratio,
    value_of,
    varying,
)
from bfio.studies.report.statistics import as_number
from bfio.studies.report.traced import (
    EMPTY,
    Body,
    Cell,
    Column,
    DataTable,
    Line,
    Phrase,
    Traced,
    counted,
    estimated,
    origin,
    traced,
    traced_share,
    written,
)
from bfio.studies.report_plan import Statistic, Table, check_present
from bfio.studies.results import SEED_CHANGES_NOTHING, Results, study_remarks, study_settings
from bfio.studies.row import DASH, Row, Task, Value, fulfils, identity, label

#: Largest number of distinct words listed in a cell.
_MAX_WORDS = 6
_NOT_VALUES = "source"


@dataclass(frozen=True)
class TableView:
    """A table as shown on the report page.

    Parameters
    ----------
    plan : Table
        The planned table.
    data : DataTable
        The lines and columns.
    notes : sequence of Phrase
        Remarks below the table.
    records : sequence of mapping
        The numbers with all digits, one record per line and value, for a CSV file.
    settings : str
        The settings of its rows in one line.
    """

    plan: Table
    data: DataTable
    notes: Sequence[Phrase]
    records: Sequence[Mapping[str, Value]]
    settings: str = ""


@dataclass(frozen=True)
class _Entry:
    """One table line: its planned rows, its successful rows, and ratios to a baseline."""

    plan: Table
    group: Group[Task]
    done: Sequence[Row]
    pairing: Pairing | None
    ratios: Mapping[str, Ratio]
    records: list[dict[str, Value]] = field(default_factory=list)


def build(plan: Table, results: Results) -> TableView:
    """Build a report table from the results of a study.

    Raises
    ------
    InputError
        If its baseline is ambiguous, or no row has one of its values.
    """
    check_present(f"{plan.place}: values", plan.values, results.done)
    tasks = [task for task in results.tasks if fulfils(task.arguments, plan.where)]
    baseline = Baseline(tasks, plan.baseline, plan.title) if plan.baseline else None
    groups = _ordered(grouped(tasks, plan.rows))
    entries = [_entry(plan, group, results, baseline) for group in groups]
    divided = _divided(plan, entries)
    columns = _columns(plan, divided, results.study.computes)
    data = DataTable(columns, [Body(list(_lines(plan, entries, divided)))])
    records = [record for entry in entries for record in entry.records]
    records += [record for published in plan.published for record in _records_of(plan, published)]
    settings = study_settings(results, tasks) if tasks else ""
    return TableView(plan, data, list(_notes(plan, entries)), records, settings)


def _entry(plan: Table, group: Group[Task], results: Results, baseline: Baseline | None) -> _Entry:
    rows = results.rows
    done = [rows[t.key] for t in group.items if t.key in rows and rows[t.key].is_done]
    pairing, ratios = None, {}
    is_baseline = all(fulfils(t.arguments, plan.baseline) for t in group.items)
    if baseline is not None and not is_baseline:
        pairing = pair(group.items, rows, baseline)
        ratios = {name: ratio(pairing, name) for name in plan.divided}
    return _Entry(plan, group, done, pairing, ratios)


def _ordered(groups: Sequence[Group[Task]]) -> list[Group[Task]]:
    """Sort table lines by their arguments, each argument's values in plan order."""
    places: list[dict[Hashable, int]] = [{} for _ in groups[0].values] if groups else []
    for group in groups:
        for place, value in zip(places, group.values, strict=True):
            place.setdefault(identity(value), len(place))

    def place_of(group: Group[Task]) -> list[int]:
        return [p[identity(value)] for p, value in zip(places, group.values, strict=True)]

    return sorted(groups, key=place_of)


def _divided(plan: Table, entries: Sequence[_Entry]) -> list[str]:
    """Return the values that have a ratio to the baseline in at least one table line."""
    return [
        name
        for name in plan.divided
        if any(name in e.ratios and e.ratios[name].estimate.value is not None for e in entries)
    ]


def _columns(plan: Table, divided: Sequence[str], computes: str) -> list[Column]:
    columns = [Column(name, is_number=False) for name in plan.rows] + [Column("rows")]
    for name in plan.values:
        shown = heading(computes, name)
        if plan.against:
            columns.append(Column(exponent_heading(shown, plan.against)))
            continue
        columns.append(Column(shown, describe(computes, name).unit))
        if name in divided:
            columns.append(Column(ratio_heading(shown, map(label, plan.baseline.values()))))
    return columns


def ratio_heading(value: str, baseline: Iterable[str]) -> str:
    """Return the heading of the ratio of a value to that of the baseline."""
    return f"{value} / that of {', '.join(baseline)}"


def exponent_heading(value: str, against: str) -> str:
    """Return the heading of the power-law exponents of a value, which have no unit."""
    return f"{value}: exponent in {against}"


def _lines(plan: Table, entries: Sequence[_Entry], divided: Sequence[str]) -> Iterator[Line]:
    """Yield a table line per group, each followed by the published figures of that group."""
    below: dict[int, list[Line]] = {}
    for published in plan.published:
        about = [
            index
            for index, entry in enumerate(entries)
            if all(
                name not in published or identity(published[name]) == identity(value)
                for name, value in zip(plan.rows, entry.group.values, strict=True)
            )
        ]
        # A figure that fits no line, or several, goes below the last line.
        place = about[0] if len(about) == 1 else len(entries)
        below.setdefault(place, []).append(_published_line(plan, published, divided))
    for index, entry in enumerate(entries):
        yield Line(list(_cells(entry, divided)))
        yield from below.get(index, [])
    yield from below.get(len(entries), [])


def _cells(entry: _Entry, divided: Sequence[str]) -> Iterator[Cell]:
    for value in entry.group.values:
        yield ((label(value),),)
    yield _rows_cell(entry)
    for name in entry.plan.values:
        record = _record(entry, name)
        yield _value_cell(entry, name, record)
        if name in divided:
            yield _ratio_cell(entry, name, record)
        entry.records.append(record)


def _record(entry: _Entry, name: str) -> dict[str, Value]:
    plan = entry.plan
    record: dict[str, Value] = {
        f"argument.{argument}": value
        for argument, value in zip(plan.rows, entry.group.values, strict=True)
    }
    record |= {"value": name, "statistic": plan.statistic_name}
    record |= {"rows_planned": len(entry.group.items), "rows_done": len(entry.done)}
    if unproven := sum(row.unproven > 0 for row in entry.done):
        record["rows_unproven"] = unproven
    if clocked := sum(row.stopped_by_clock for row in entry.done):
        record["rows_clocked"] = clocked
    return record


def _rows_cell(entry: _Entry) -> Cell:
    """Return the row count of a table line, with its missing, repeated or unproven rows."""
    lines: list[Phrase] = [(counted(keys_of(entry.done), "done"),)]
    if len(entry.done) < len(entry.group.items):
        lines.append(("of\u00a0", counted(keys_of(entry.group.items), "planned"), "\u00a0planned"))
    if repeated := num_repeated(entry.done):
        lines.append((f"{repeated}\u00a0repeated",))
    if unproven := keys_of(row for row in entry.done if row.unproven):
        lines.append((counted(unproven, "unproven"), "\u00a0unproven"))
    if stopped := keys_of(row for row in entry.done if row.stopped_by_clock):
        lines.append((counted(stopped, "stopped-by-clock"), "\u00a0by\u00a0the\u00a0clock"))
    return lines


def _value_cell(entry: _Entry, name: str, record: dict[str, Value]) -> Cell:
    rows = distinct(entry.done, name)
    values = [value_of(row, name) for row in rows]
    if any(isinstance(value, str) for value in values):
        cell = _words(rows, name)
        record["words"] = ", ".join(f"{word}{number.text}" for word, number in cell)
        return cell
    against = entry.plan.against
    fit = fitted(entry.done, against, name, entry.plan.beside) if against else None
    if fit is not None:
        estimate, marks = fit.exponent(), origin(keys_of(fit.used), name, x=against)
    else:
        estimate = estimate_of(entry.done, name, entry.plan.statistic)
        marks = origin(keys_of(rows), name)
    record["estimate"], record["undefined"] = estimate.value, estimate.undefined
    if estimate.why_none:
        record["no_interval"] = estimate.why_none
    if estimate.interval is not None:
        record["lower"], record["upper"] = estimate.interval.lower, estimate.interval.upper
        record["coverage"] = estimate.interval.coverage
    lines: list[Phrase] = list(estimated(estimate, entry.plan.statistic_name, marks))
    if fit is not None and fit.refused:
        lines.append((counted(keys_of(fit.refused), name, "not-positive"), " not positive"))
    elif estimate.undefined:
        undefined = traced(estimate.undefined, "undefined", marks)
        lines.append((undefined, " of ", counted(keys_of(rows), "done"), " undefined"))
    return lines


def _words(rows: Sequence[Row], name: str) -> list[tuple[str, Traced]]:
    """Return the number of rows for each text value."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        value = value_of(row, name)
        groups.setdefault(DASH if value is None else str(value), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    lines = [
        (f"{word} ", counted(keys_of(found), name, "word", word=word))
        for word, found in ordered[:_MAX_WORDS]
    ]
    if len(ordered) > _MAX_WORDS:
        rest = [row for _, found in ordered[_MAX_WORDS:] for row in found]
        lines.append(("others ", counted(keys_of(rest), name, "words")))
    return lines


def _ratio_cell(entry: _Entry, name: str, record: dict[str, Value]) -> Cell:
    if entry.pairing is None:
        return (("baseline",),)

    def marks(pairs: Sequence[tuple[Row, Row]]) -> Mapping[str, str]:
        ours, theirs = (keys_of(pair[side] for pair in pairs) for side in (0, 1))
        return origin(ours, name, baseline_keys=theirs)

    found = entry.ratios[name]
    estimate, pairs = found.estimate, len(found.pairs)
    record["ratio"], record["pairs"] = estimate.value, pairs
    if estimate.why_none:
        record["no_ratio_interval"] = estimate.why_none
    if estimate.interval is not None:
        ends = estimate.interval.lower, estimate.interval.upper
        record["ratio_lower"], record["ratio_upper"] = ends
    own = marks(found.pairs)
    lines: list[Phrase] = list(estimated(estimate, "ratio", own))
    lines.append((traced(pairs, "pairs", own), " pair" if pairs == 1 else " pairs"))
    if incomplete := keys_of(entry.pairing.incomplete):
        count = counted(incomplete, name, "pairs-incomplete", baseline_keys="")
        lines.append((count, " incomplete"))
    if found.unusable:
        refused = traced(len(found.unusable), "pairs-not-positive", marks(found.unusable))
        lines.append((refused, " not positive or undefined"))
    return lines


def _published_line(plan: Table, published: Mapping[str, Any], divided: Sequence[str]) -> Line:
    source = str(published.get(_NOT_VALUES, "published"))
    cells: list[Cell] = [
        ((label(published[name]) if name in published else "",),) for name in plan.rows
    ]
    cells[-1] = (*cells[-1], (source,))
    cells.append((("published",),))
    for name in plan.values:
        value = published.get(name)
        number = as_number(value)
        # Keep the number as printed in the paper. Rounding would misquote it.
        text = written(number) if isinstance(number, int) else str(value)
        cells.append(EMPTY if value is None else ((text,),))
        if name in divided:
            cells.append((("",),))
    return Line(cells, is_published=True)


def _records_of(plan: Table, published: Mapping[str, Any]) -> Iterator[dict[str, Value]]:
    arguments = {f"argument.{name}": published.get(name) for name in plan.rows}
    for name in plan.values:
        if name in published:
            yield {
                **arguments,
                "value": name,
                "statistic": "published",
                "estimate": published[name],
                "source": str(published.get(_NOT_VALUES, "published")),
            }


def _notes(plan: Table, entries: Sequence[_Entry]) -> Iterator[Phrase]:
    if not entries:
        yield ("No planned row matches.",)
        return
    averaged = varying([t for e in entries for t in e.group.items], plan.rows)
    over = f" Each line combines rows that differ in {', '.join(averaged)}." if averaged else ""
    method = f"{_EXPONENTS} of {plan.against}." if plan.against else _METHODS[plan.statistic]
    yield (f"{method}{over}",)
    for remark in study_remarks([task for entry in entries for task in entry.group.items]):
        yield (remark,)
    if any(num_repeated(entry.done) for entry in entries):
        yield (f"Rows that differ only in the seed count once: {SEED_CHANGES_NOTHING}.",)
    if plan.statistic is Statistic.MEDIAN:
        yield from _coverages(plan, entries)
    if plan.baseline:
        equal = ", ".join(f"{name} = {label(value)}" for name, value in plan.baseline.items())
        yield (
            f"Ratios to {equal}: geometric mean over pairs of rows that are equal in all their"
            " other arguments, with a 95 % Student-t interval on logarithms; a pair is incomplete"
            " if one of its rows is not done, or not planned.",
        )
    for name in plan.values:
        if name in plan.divided and name not in _divided(plan, entries):
            yield (f"No ratio of {name}: no pair of successful rows has two positive values.",)
        if all(value_of(row, name) is None for entry in entries for row in entry.done):
            yield (f"No successful row has a value {name}.",)


_EXPONENTS = (
    "Exponents by least squares in the logarithms of all rows, below them 95 % Student-t "
    "intervals: powers"
)
_METHODS = {
    Statistic.MEAN: (
        "Mean, below it its 95 % Student-t interval (of logarithms for what is 0 or more, of log "
        "odds for shares); none where all rows are equal."
    ),
    Statistic.MEDIAN: (
        "Median, below it the interval between two order statistics; none if they are equal."
    ),
    Statistic.MINIMUM: "Smallest value.",
    Statistic.P95: "The 95th percentile, one of the observed values.",
    Statistic.P99: "The 99th percentile, one of the observed values.",
    Statistic.MAXIMUM: "Largest value.",
    Statistic.SUM: "Sum.",
}


def _coverages(plan: Table, entries: Sequence[_Entry]) -> Iterator[Phrase]:
    """Yield the actual coverage of median intervals, by number of values."""
    seen: dict[int, Phrase] = {}
    for entry in entries:
        for name in plan.values:
            rows = distinct(entry.done, name)
            estimate = estimate_of(rows, name, Statistic.MEDIAN)
            if estimate.interval is None or estimate.count in seen:
                continue
            marks = origin(keys_of(rows), name)
            share = traced_share(estimate.interval.coverage, "coverage-percent", marks)
            number = traced(estimate.count, "defined", marks)
            seen[estimate.count] = (share, " % with ", number, " rows")
    if seen:
        phrase: list[str | Any] = ["Its actual coverage: "]
        for place, count in enumerate(sorted(seen)):
            phrase += [", " if place else "", *seen[count]]
        yield [*phrase, "."]
