"""Check a report against the rows of its study before any row is computed."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bfio.studies.matching import admits
from bfio.studies.report_plan import Figure, Table
from formulations.errors import InputError, use_one_of

if TYPE_CHECKING:
    from bfio.studies.study import Grid, Study

#: Values of an argument that an error lists.
_MAX_LISTED = 12


def check_names(study: "Study") -> None:
    """Refuse tables and figures that name an argument which no row has, at either size.

    Raises
    ------
    InputError
        With the title, the name, and the nearest argument there is.
    """
    known = sorted({*study.axes(), *study.fixed, *study.smoke.fixed})
    plans: list[Table | Figure] = [*study.report.tables, *study.report.figures]
    for asked in plans:
        for field, name in asked.arguments():
            if name not in known:
                raise InputError(
                    f"{asked.place}: {field}",
                    f"no row has an argument {name!r}",
                    use_one_of(name, known),
                )


def check_baselines(study: "Study") -> None:
    """Refuse a table whose baseline is in no row of the study.

    Raises
    ------
    InputError
        With the title, the argument, and the values it takes.
    """
    for table in study.report.tables:
        if table.baseline:
            _check_baseline(study, table)


def _check_baseline(study: "Study", table: Table) -> None:
    names = {**table.baseline, **table.where}
    # A grid is a product: if each argument has a fitting value, one cell has them all.
    if any(all(_fitting(study, grid, table, name) for name in names) for grid in study.grids):
        return
    for name, wanted in table.baseline.items():
        if not any(_fitting(study, grid, table, name) for grid in study.grids):
            values = [v for grid in study.grids for v in _taken(study, grid, name)]
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


def _fitting(study: "Study", grid: "Grid", table: Table, name: str) -> list[Any]:
    """Return the values of an argument in a grid that both baseline and where admit."""
    wanted = [entries[name] for entries in (table.baseline, table.where) if name in entries]
    return [v for v in _taken(study, grid, name) if all(admits(choice, v) for choice in wanted)]


def _taken(study: "Study", grid: "Grid", name: str) -> Sequence[Any]:
    return grid.axes.get(name) or [study.fixed.get(name)]


def _listed(values: Sequence[Any]) -> str:
    def words() -> Iterator[str]:
        yield from (repr(value) for value in values[:_MAX_LISTED])
        if len(values) > _MAX_LISTED:
            yield f"… {values[-1]!r}"

    return ", ".join(words())
