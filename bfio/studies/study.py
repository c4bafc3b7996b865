"""Define a study: its question, its row kind, and the grid of arguments of its rows."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from bfio.studies.report_plan import (
    ReportPlan,
    check_baselines,
    check_conditions,
    check_names,
)
from bfio.studies.row import Limits, Value, canonical
from formulations.errors import InputError

Arguments: TypeAlias = Mapping[str, Value]

#: Largest number of rows of one study. More is taken to be a mistake in the grid.
MAX_ROWS = 1_000_000


@dataclass(frozen=True)
class Grid:
    """A Cartesian product: every combination of one value per argument.

    Parameters
    ----------
    axes : mapping of str to sequence of values
        Values of each argument, in order. The last argument varies fastest.
    """

    axes: Mapping[str, Sequence[Value]]

    def __post_init__(self) -> None:
        _check_values(self.axes, "grid")

    def count_rows(self) -> int:
        """Return the number of distinct argument combinations."""
        return math.prod(len(set(map(canonical, values))) for values in self.axes.values())

    def cells(self) -> Iterator[dict[str, Value]]:
        """Yield the argument combinations in order."""
        for values in product(*self.axes.values()):
            yield dict(zip(self.axes, values, strict=True))


@dataclass(frozen=True)
class Smoke:
    """The small size of a study: arguments and axes that replace those of the full size."""

    fixed: Mapping[str, Value] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Value]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_values(self.grid, "smoke.grid")


def _check_values(axes: Mapping[str, Sequence[Value]], place: str) -> None:
    for name, values in axes.items():
        if not values:
            raise InputError(f"{place}.{name}", "the axis has no values", "give at least one")


@dataclass(frozen=True)
class Study:
    """A study: its rows and their report.

    Parameters
    ----------
    name : str
        Name of the store and the report: letters, digits, ``-`` and ``_``.
    question : str
        The question that the study answers; the head of the report.
    computes : str
        A built-in kind of row (`bfio.studies.row_kinds`), or a user's own ``module:function`` or
        ``FILE.py:function``.
    grids : sequence of Grid
        The rows are those of all grids, in order. A row that occurs twice counts once.
    fixed : mapping
        Arguments that all rows share.
    limits : Limits
        Limits of one row.
    report : ReportPlan
        Tables and figures.
    smoke : Smoke
        The small size.
    folder : Path
        Base folder of relative file names in arguments.
    home : Path
        Folder of the study file, searched first for users' own modules and files.
    file : str
        Name of the study file, which errors of rows begin with; by default the name.
    is_small : bool
        Whether this is the small size (see `small`) or part of a study that was already checked.

    Raises
    ------
    InputError
        If a size has more than a million rows, or the report or the small size names arguments or
        values that no row has. This check comes before any row is computed.
    """

    name: str
    question: str
    computes: str
    grids: Sequence[Grid]
    fixed: Arguments = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    report: ReportPlan = field(default_factory=ReportPlan)
    smoke: Smoke = field(default_factory=Smoke)
    folder: Path = field(default_factory=Path.cwd)
    home: Path = field(default_factory=Path.cwd)
    file: str = ""
    is_small: bool = False

    def __post_init__(self) -> None:
        """Validate the study, including the report and the small size."""
        if not self.name or not self.name.replace("-", "").replace("_", "").isalnum():
            what = f"{self.name!r} is not a valid name"
            raise InputError("name", what, "use letters, digits, - and _ only")
        if not self.grids:
            raise InputError("grid", "no grid is given", "write at least one [[grid]]")
        axes = self.axes()
        for name in axes:
            if name in self.fixed:
                what = "the argument is fixed as well"
                raise InputError(f"grid.{name}", what, "remove one of the two")
        for name in self.smoke.grid:
            if name not in axes:
                fixed = "write it in [smoke.fixed], or " if name in self.fixed else ""
                remedy = f"{fixed}use one of {', '.join(axes)}"
                raise InputError(f"smoke.grid.{name}", "no grid has this axis", remedy)
        for name in self.smoke.fixed:
            if name in axes:
                what = "the argument is an axis of a grid"
                raise InputError(f"smoke.fixed.{name}", what, "write it in [smoke.grid]")
        # A cell in several grids counts once, so only listing the rows gives their number.
        if sum(math.prod(map(len, grid.axes.values())) for grid in self.grids) > MAX_ROWS:
            self.rows()
        if self.is_small:
            return
        check_names(self.report, {*axes, *self.fixed, *self.smoke.fixed})
        # The small size, or a part, may lack the baseline or an argument of a table. It must still
        # be a valid study.
        fixed_axes = {name: [value] for name, value in self.fixed.items()}
        small_axes = {name: [value] for name, value in self.smoke.fixed.items()}
        values: dict[str, list[Value]] = {}
        grids = [grid.axes for grid in self.grids]
        for own in (fixed_axes, small_axes, *grids, self.smoke.grid):
            for name, entries in own.items():
                values.setdefault(name, []).extend(entries)
        check_conditions(self.report, values)
        check_baselines(self.report, [{**fixed_axes, **grid} for grid in grids])
        self.small()

    def rows(self) -> list[dict[str, Value]]:
        """Return the arguments of every row, in planned order.

        Raises
        ------
        InputError
            If there are more than a million.
        """
        place = "grid at smoke size" if self.is_small else "grid"
        too_many = InputError(place, f"more than {MAX_ROWS:,} rows", "take fewer values")
        if any(grid.count_rows() > MAX_ROWS for grid in self.grids):
            raise too_many
        seen: dict[str, dict[str, Value]] = {}
        for grid in self.grids:
            for cell in grid.cells():
                arguments = {**self.fixed, **cell}
                seen.setdefault(canonical(arguments), arguments)
                if len(seen) > MAX_ROWS:
                    raise too_many
        return list(seen.values())

    def small(self) -> "Study":
        """Return the study at its small size. Its rows differ from the full ones."""
        grids = [
            Grid({name: self.smoke.grid.get(name, values) for name, values in grid.axes.items()})
            for grid in self.grids
        ]
        fixed = {**self.fixed, **self.smoke.fixed}
        return replace(self, grids=grids, fixed=fixed, is_small=True)

    def part(self, rows: Iterable[Mapping[str, Value]], **changes: Any) -> "Study":
        """Return the study of some rows; it may lack the baseline of a table, as a small one."""
        grids = [Grid({name: [value] for name, value in row.items()}) for row in rows]
        return replace(self, grids=grids, fixed={}, smoke=Smoke(), is_small=True, **changes)

    def with_seed(self, first: int) -> "Study":
        """Return the study with ``first`` added to all values of the argument ``seed``.

        The seeds of the small size, tables and figures are shifted too.
        """
        if first == 0:
            return self

        def moved(plan: Any, *names: str) -> Any:
            return replace(plan, **{name: _shifted(getattr(plan, name), first) for name in names})

        tables = [moved(table, "baseline", "where") for table in self.report.tables]
        figures = [moved(figure, "where") for figure in self.report.figures]
        return replace(
            self,
            grids=[moved(grid, "axes") for grid in self.grids],
            fixed=_shifted(self.fixed, first),
            smoke=moved(self.smoke, "fixed", "grid"),
            report=ReportPlan(tables, figures),
        )

    def axes(self) -> list[str]:
        """Names of the arguments that are axes, in the order of the grids."""
        return list(dict.fromkeys(name for grid in self.grids for name in grid.axes))


def _shifted(entries: Mapping[str, Any], first: int) -> dict[str, Any]:
    """Return arguments, or lists of their values, with ``first`` added to the seed."""
    moved = dict(entries)
    if "seed" in moved:
        seeds = moved["seed"]
        is_list = isinstance(seeds, Sequence) and not isinstance(seeds, str)
        each = [s + first if isinstance(s, int) else s for s in (seeds if is_list else [seeds])]
        moved["seed"] = each if is_list else each[0]
    return moved
