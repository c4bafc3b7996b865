"""A study: a question, what each row computes, and the grid of arguments it is computed for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TypeAlias

from bfio.studies.canonical import canonical
from bfio.studies.limits import Limits
from bfio.studies.report_plan import ReportPlan
from formulations.errors import InputError

#: What an argument of a row may be.
Value: TypeAlias = str | int | float | bool | None
Arguments: TypeAlias = Mapping[str, Value]

#: Rows of one study at most: beyond it a grid is a slip of the pen.
MAX_ROWS = 1_000_000


@dataclass(frozen=True)
class Grid:
    """A product: every combination of one value per argument.

    Parameters
    ----------
    axes : mapping of str to sequence of values
        Values of each argument, in the order they run; the last argument varies fastest.
    """

    axes: Mapping[str, Sequence[Value]]

    def __post_init__(self) -> None:
        for name, values in self.axes.items():
            if not values:
                raise InputError(f"grid.{name}", "no value", "give at least one")

    def cells(self) -> Iterator[dict[str, Value]]:
        """Yield the combinations, in order."""
        for values in product(*self.axes.values()):
            yield dict(zip(self.axes, values, strict=True))


@dataclass(frozen=True)
class Smoke:
    """The small size of a study: arguments and axes that take the place of the full ones."""

    fixed: Mapping[str, Value] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Value]] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Everything that decides which rows there are and how they are reported.

    Parameters
    ----------
    name : str
        Names the store and the report: letters, digits, ``-`` and ``_``.
    question : str
        What the study is to answer; the head of the report.
    computes : str
        A built-in kind of row (`bfio.studies.row_kinds`) or ``module:function`` of one's own.
    grids : sequence of Grid
        The rows are those of all grids, in order; a row that occurs twice counts once.
    fixed : mapping
        Arguments that all rows share.
    limits : Limits
        What one row may take.
    report : ReportPlan
        Tables and figures.
    smoke : Smoke
        The small size.
    folder : Path
        Where relative file names in arguments start.
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

    def __post_init__(self) -> None:
        if not self.name or not self.name.replace("-", "").replace("_", "").isalnum():
            raise InputError(
                "name", f"{self.name!r} is no name", "use letters, digits, - and _ only"
            )
        if not self.grids:
            raise InputError("grid", "none given", "write at least one [[grid]]")
        for grid in self.grids:
            for name in grid.axes:
                if name in self.fixed:
                    raise InputError(
                        f"grid.{name}", "the argument is fixed as well", "remove one of the two"
                    )

    def rows(self) -> list[dict[str, Value]]:
        """Return the arguments of every row, in the order they are planned.

        Raises
        ------
        InputError
            If there are more than a million.
        """
        seen: dict[str, dict[str, Value]] = {}
        for grid in self.grids:
            for cell in grid.cells():
                arguments = {**self.fixed, **cell}
                seen.setdefault(canonical(arguments), arguments)
                if len(seen) > MAX_ROWS:
                    raise InputError("grid", f"more than {MAX_ROWS:,} rows", "take fewer values")
        return list(seen.values())

    def small(self) -> "Study":
        """Return the study at its smoke size; its rows are other rows than the full ones."""
        grids = [
            Grid({name: self.smoke.grid.get(name, values) for name, values in grid.axes.items()})
            for grid in self.grids
        ]
        return replace(self, grids=grids, fixed={**self.fixed, **self.smoke.fixed})

    def with_seed(self, first: int) -> "Study":
        """Return the study with ``first`` added to every argument called ``seed``."""
        if first == 0:
            return self
        grids = [
            Grid({name: _shifted(name, values, first) for name, values in grid.axes.items()})
            for grid in self.grids
        ]
        fixed = {name: _shifted(name, [value], first)[0] for name, value in self.fixed.items()}
        return replace(self, grids=grids, fixed=fixed)

    def axes(self) -> list[str]:
        """Return the names of the arguments that vary, in the order of the grids."""
        return list(dict.fromkeys(name for grid in self.grids for name in grid.axes))


def _shifted(name: str, values: Sequence[Value], first: int) -> Sequence[Value]:
    if name != "seed":
        return values
    return [value + first if isinstance(value, int) else value for value in values]
