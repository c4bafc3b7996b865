"""Read a study from a TOML file, or load one from a Python module."""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bfio.studies.kinds import present_name
from bfio.studies.report_plan import Figure, FigureKind, ReportPlan, Shown, Statistic, Table
from bfio.studies.row import Limits, Value
from bfio.studies.study import Grid, Smoke, Study
from formulations.arrays import integer
from formulations.errors import InputError, kind_of, naming, use_one_of
from formulations.named_objects import load_object
from formulations.problem_data import member

_TOP = ("name", "question", "computes", "data", "fixed", "grid", "limits", "smoke", "report")
_MAX_RANGE = 100_000
_Section = TypeVar("_Section", Limits, Table, Figure)
_Word = TypeVar("_Word", bound=StrEnum)
_T = TypeVar("_T")


def find_study(name: str) -> Study:
    """Return the study of a TOML file or of the variable ``module:NAME``.

    Raises
    ------
    InputError
        If it cannot be read or is not a study.
    """
    if name.endswith(".toml") or ":" not in name:
        return read_study(Path(name))
    loaded = load_object(name, "study")
    if not isinstance(loaded, Study):
        what = f"{kind_of(loaded)}, not a study"
        raise InputError(name, what, "name a bfio.studies.study.Study")
    return loaded


def read_study(path: Path) -> Study:
    """Read a study from a TOML file; see ``docs/studies.md``.

    Raises
    ------
    InputError
        If the file cannot be read or is not a valid study.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        raise InputError(str(path), what, "name a study file (TOML)") from None
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), f"is not valid TOML: {error}", "see docs/studies.md") from None
    with naming(str(path)):
        return _study(document, path)


def _study(document: Mapping[str, Any], path: Path) -> Study:
    _known(document, _TOP, "")
    for name in ("name", "question", "computes", "grid"):
        if name not in document:
            form = "[[grid]]" if name == "grid" else f'{name} = "..."'
            raise InputError(name, "missing", f"write {form}")
    smoke = _mapping(document.get("smoke", {}), "smoke")
    _known(smoke, ("fixed", "grid"), "smoke.")
    fixed, folder = _fixed(document.get("fixed", {}), "fixed"), path.parent
    grids = _list(document["grid"], "grid", "[[grid]]")
    return Study(
        name=_text(document["name"], "name"),
        question=_text(document["question"], "question").strip(),
        computes=_text(document["computes"], "computes"),
        grids=tuple(Grid(_axes(grid, f"grid[{i}]")) for i, grid in enumerate(grids)),
        fixed=fixed,
        limits=_section(Limits, document.get("limits", {}), "limits", {}),
        report=_report(document.get("report", {}), partial(present_name, document["computes"])),
        smoke=Smoke(
            _fixed(smoke.get("fixed", {}), "smoke.fixed"),
            _axes(_mapping(smoke.get("grid", {}), "smoke.grid"), "smoke.grid"),
        ),
        folder=folder / _text(document.get("data", "."), "data"),
        home=folder,
        file=str(path),
    )


def _report(entries: Any, present: Callable[[str], str]) -> ReportPlan:
    """Read the planned tables and figures; former names of values are replaced by current ones."""
    report = _mapping(entries, "report")
    _known(report, ("tables", "figures"), "report.")

    def sections(name: str, kind: type[_Section], words: Mapping[str, Any]) -> list[_Section]:
        found = _list(report.get(name, []), f"report.{name}", f"[[report.{name}]]")
        return [_section(kind, e, f"report.{name}[{i}]", words) for i, e in enumerate(found)]

    tables = [
        replace(
            table,
            values=tuple(map(present, table.values)),
            ratios=tuple(map(present, table.ratios)),
            published=tuple({present(n): v for n, v in p.items()} for p in table.published),
            labels={present(name): text for name, text in table.labels.items()},
        )
        for table in sections("tables", Table, _TABLE_READERS)
    ]
    figures = [
        replace(figure, y=present(figure.y))
        for figure in sections("figures", Figure, _FIGURE_READERS)
    ]
    return ReportPlan(tuple(tables), tuple(figures))


def _each(entries: Any, where: str, read: Callable[[Any, str], _T]) -> dict[str, _T]:
    return {name: read(e, f"{where}.{name}") for name, e in _mapping(entries, where).items()}


def _fixed(entries: Any, where: str) -> dict[str, Value]:
    return _each(entries, where, _value)


def _axes(entries: Any, where: str) -> dict[str, list[Value]]:
    return _each(entries, where, _axis)


def _conditions(entries: Any, where: str) -> dict[str, Value | list[Value]]:
    """Read conditions on rows: for each argument a value, or a list of accepted values."""
    return _each(entries, where, _condition)


def _condition(wanted: Any, where: str) -> Value | list[Value]:
    if wanted == []:
        raise InputError(where, "the condition has no values", "give at least one")
    return _axis(wanted, where) if isinstance(wanted, list) else _value(wanted, where)


def _axis(values: Any, where: str) -> list[Value]:
    """Read the values of an axis: a list, one value, or ``{from = 0, count = 10, step = 1}``."""
    if isinstance(values, dict):
        return _range(values, where)
    if not isinstance(values, list):
        return [_value(values, where)]
    return [_value(value, f"{where}[{i}]") for i, value in enumerate(values)]


def _range(entries: Mapping[str, Any], where: str) -> list[Value]:
    _known(entries, ("from", "count", "step"), f"{where}.")
    if "count" not in entries:
        raise InputError(f"{where}.count", "missing", "write { from = 0, count = 10 }")
    count = integer(entries["count"], f"{where}.count", minimum=1, maximum=_MAX_RANGE)
    first = integer(entries.get("from", 0), f"{where}.from", minimum=-(10**12))
    step = integer(entries.get("step", 1), f"{where}.step", minimum=-(10**9))
    if step == 0:
        raise InputError(f"{where}.step", "0 repeats one value", "give another step, or one value")
    return [first + i * step for i in range(count)]


def _value(value: Any, where: str) -> Value:
    if not isinstance(value, str | int | float | bool):
        raise InputError(where, _kind(value), "use text, a number, or true or false")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(where, f"{value}", "use a finite number")
    return value


def _section(
    kind: type[_Section], entries: Any, where: str, words: Mapping[str, Callable[[Any, str], Any]]
) -> _Section:
    """Read the fields of a section, each by the reader of its name or declared type."""
    given = _mapping(entries, where)
    defaults = [field.name for field in fields(kind)]
    _known(given, defaults, f"{where}.")
    values = {}
    for name, value in given.items():
        read = words[name] if name in words else _READERS[kind.__annotations__[name]]
        values[name] = read(value, f"{where}.{name}")
    try:
        return kind(**values)
    except TypeError:
        # The dataclass has required fields without a value.
        missing = [name for name in ("title", "kind", "y", "rows", "values") if name in defaults]
        absent = ", ".join(name for name in missing if name not in given)
        raise InputError(where, f"{absent} is missing", "add it") from None


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(where, f"{value!r} is not a number", "write a number")
    try:
        return float(value)
    except OverflowError:
        digits = len(str(abs(value)))
        raise InputError(where, f"a number of {digits} digits", "write a smaller one") from None


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(where, f"{value!r} is neither true nor false", "write true or false")
    return value


def _texts(value: Any, where: str) -> tuple[str, ...]:
    entries = _list(value, where, '["..."]')
    return tuple(_text(entry, f"{where}[{i}]") for i, entry in enumerate(entries))


def _tables(value: Any, where: str) -> tuple[Mapping[str, Value], ...]:
    entries = _list(value, where, "[{ NAME = value }]")
    return tuple(_fixed(entry, f"{where}[{i}]") for i, entry in enumerate(entries))


def _word(kind: type[_Word]) -> Callable[[Any, str], _Word]:
    return lambda value, where: member(kind, _text(value, where), where)


def _known(entries: Mapping[str, Any], names: Sequence[str], prefix: str) -> None:
    for name in entries:
        if name not in names:
            raise InputError(f"{prefix}{name}", "unknown", use_one_of(name, names))


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        # An entry of a list has no heading of its own.
        form = "{ NAME = value }" if "[" in where else f"[{where}]"
        raise InputError(where, f"{_kind(value)}, not a table", f"write {form}")
    return value


def _list(value: Any, where: str, form: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(where, f"{_kind(value)}, not a list", f"write {form}")
    return value


def _kind(value: Any) -> str:
    """Return the TOML name of the type of a value."""
    return _KINDS.get(type(value)) or kind_of(value)


_KINDS = {
    dict: "a table",
    list: "a list",
    str: "text",
    int: "an integer",
    bool: "true or false",
}


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        what = "is empty" if value == "" else f"{value!r} is not a string"
        raise InputError(where, what, 'write "..."')
    return value


_TABLE_READERS = {"statistic": _word(Statistic), "show": _word(Shown), "where": _conditions}
_FIGURE_READERS = {"kind": _word(FigureKind), "where": _conditions}
#: Readers of all other fields of a section, by declared type.
_READERS: Mapping[Any, Callable[[Any, str], Any]] = {
    str: _text,
    int: integer,
    float: _number,
    bool: _flag,
    Sequence[str]: _texts,
    Mapping[str, Any]: _fixed,
    Sequence[Mapping[str, Any]]: _tables,
}
