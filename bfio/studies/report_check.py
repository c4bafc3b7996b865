"""Check a report against the rows of its study before any row is computed."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bfio.studies import kinds
from bfio.studies.matching import admits
from bfio.studies.report_plan import ReportPlan, Table
from bfio.studies.row import Row
from bfio.studies.row_kind import MEASURED
from formulations.errors import InputError, did_you_mean, use_one_of

#: Values of an argument that an error lists.
_MAX_LISTED = 12


def check_names(report: ReportPlan, names: Collection[str]) -> None:
    """Refuse tables and figures that name an argument which no row has.

    Parameters
    ----------
    report : ReportPlan
        The tables and figures.
    names : collection of str
        Arguments of rows, at either size.

    Raises
    ------
    InputError
        With the title, the name, and the nearest argument there is.
    """
    for asked in report.plans:
        for field, name in asked.arguments():
            if name not in names:
                what, remedy = f"no row has an argument {name!r}", use_one_of(name, sorted(names))
                raise InputError(f"{asked.place}: {field}", what, remedy)


def check_values(report: ReportPlan, computes: str) -> None:
    """Refuse tables and figures that name a value which rows of a built-in kind never have.

    What rows of users' own kinds hold is not known before one is computed; see `check_present`.

    Raises
    ------
    InputError
        With the title, the name, and the nearest value there is.
    """
    if computes not in kinds.names():
        return
    kind = kinds.find(computes)
    asked = [(f"{table.place}: values", name) for table in report.tables for name in table.values]
    asked += [(f"{figure.place}: y", figure.y) for figure in report.figures]
    for place, name in asked:
        if not kind.describe(name).text:
            close = did_you_mean(name, kind.value_names())
            remedy = f"{close}`bfio study kinds {computes}` shows the values"
            raise InputError(place, f"rows of kind {computes} have no value {name!r}", remedy)


def check_present(place: str, names: Sequence[str], rows: Sequence[Row]) -> None:
    """Refuse values that none of the computed rows has and of which their kind says nothing.

    Raises
    ------
    InputError
        With the name and the nearest one that rows have.
    """
    if not rows:
        return
    held = {name for row in rows for name in (*row.values, *row.timings, *row.series)}
    measured = {entry.name for entry in MEASURED}
    for name in names:
        known = name in held or name in measured
        if not known and not kinds.describe(rows[0].task.computes, name).text:
            remedy = use_one_of(name, sorted(held))
            raise InputError(place, f"no row that is done has a value {name!r}", remedy)


def check_conditions(report: ReportPlan, values: Mapping[str, Sequence[Any]]) -> None:
    """Refuse a table or figure of rows that there are not.

    Parameters
    ----------
    report : ReportPlan
        The tables and figures.
    values : mapping
        Values that rows have of each argument, at either size.

    Raises
    ------
    InputError
        With the title, the argument, and the values it takes.
    """
    for plan in report.plans:
        for name, wanted in plan.where.items():
            known = values.get(name, [])
            choices = wanted if isinstance(wanted, list | tuple) else [wanted]
            absent = [choice for choice in choices if not any(admits(choice, v) for v in known)]
            # Of words each is to be there; of numbers, such as seeds, a list may hold more.
            slips = [choice for choice in absent if isinstance(choice, str)]
            if slips or len(absent) == len(choices):
                wrong = (slips or absent)[0]
                what = f"no row has {name} = {wrong!r}"
                raise InputError(f"{plan.place}: where", what, _nearest(wrong, known))


def _nearest(wanted: Any, values: Sequence[Any]) -> str:
    """Return the remedy for a value that an argument does not take."""
    words = [value for value in values if isinstance(value, str) and value != wanted]
    close = did_you_mean(wanted, words) if isinstance(wanted, str) else ""
    known = list(dict.fromkeys(values))
    listed = [repr(value) for value in known[:_MAX_LISTED]]
    if len(known) > _MAX_LISTED:
        listed.append(f"… {known[-1]!r}")
    return f"{close}use one of {', '.join(listed)}"


def check_baselines(report: ReportPlan, grids: Sequence[Mapping[str, Sequence[Any]]]) -> None:
    """Refuse a table whose baseline is in no row of the study.

    Parameters
    ----------
    report : ReportPlan
        The tables.
    grids : sequence of mapping
        Values of each argument that rows of a grid have, fixed ones included.

    Raises
    ------
    InputError
        With the title, the argument, and the values it takes.
    """
    for table in report.tables:
        names = {**table.baseline, **table.where} if table.baseline else {}
        # A grid is a product: if each argument has a fitting value, one cell has them all.
        if any(all(_fitting(grid, table, name) for name in names) for grid in grids):
            continue
        place = f"{table.place}: baseline"
        for name, wanted in table.baseline.items():
            if not any(_fitting(grid, table, name) for grid in grids):
                values = [value for grid in grids for value in grid.get(name, [None])]
                what = f"no row of the table has {name} = {wanted!r}"
                raise InputError(place, what, _nearest(wanted, values))
        what = f"no row has {' and '.join(f'{n} = {v!r}' for n, v in names.items())}"
        raise InputError(place, what, "name values that occur together in one grid")


def _fitting(grid: Mapping[str, Sequence[Any]], table: Table, name: str) -> list[Any]:
    """Return the values of an argument in a grid that both baseline and where admit."""
    wanted = [entries[name] for entries in (table.baseline, table.where) if name in entries]
    taken = grid.get(name, [None])
    return [value for value in taken if all(admits(choice, value) for choice in wanted)]
