"""Check a report against the rows of its study before any row is computed."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from bfio.studies.matching import admits
from bfio.studies.report_plan import Figure, ReportPlan, Table
from formulations.errors import InputError, use_one_of

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
    known = sorted(names)
    plans: list[Table | Figure] = [*report.tables, *report.figures]
    for asked in plans:
        for field, name in asked.arguments():
            if name not in known:
                raise InputError(
                    f"{asked.place}: {field}",
                    f"no row has an argument {name!r}",
                    use_one_of(name, known),
                )


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
        if table.baseline:
            _check_baseline(table, grids)


def _check_baseline(table: Table, grids: Sequence[Mapping[str, Sequence[Any]]]) -> None:
    names = {**table.baseline, **table.where}
    # A grid is a product: if each argument has a fitting value, one cell has them all.
    if any(all(_fitting(grid, table, name) for name in names) for grid in grids):
        return
    for name, wanted in table.baseline.items():
        if not any(_fitting(grid, table, name) for grid in grids):
            values = [value for grid in grids for value in grid.get(name, [None])]
            raise InputError(
                f"{table.place}: baseline",
                f"no row of the table has {name} = {wanted!r}",
                f"use one of {_listed(list(dict.fromkeys(values)))}",
            )
    raise InputError(
        f"{table.place}: baseline",
        f"no row has {' and '.join(f'{n} = {v!r}' for n, v in names.items())}",
        "name values that occur together in one grid",
    )


def _fitting(grid: Mapping[str, Sequence[Any]], table: Table, name: str) -> list[Any]:
    """Return the values of an argument in a grid that both baseline and where admit."""
    wanted = [entries[name] for entries in (table.baseline, table.where) if name in entries]
    taken = grid.get(name, [None])
    return [value for value in taken if all(admits(choice, value) for choice in wanted)]


def _listed(values: Sequence[Any]) -> str:
    def words() -> Iterator[str]:
        yield from (repr(value) for value in values[:_MAX_LISTED])
        if len(values) > _MAX_LISTED:
            yield f"… {values[-1]!r}"

    return ", ".join(words())
