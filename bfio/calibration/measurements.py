"""Measured steps: durations, and loads of the workers.

`read_steps` reads measured steps from CSV or JSON Lines, one row per step, plain or compressed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.files import file_path
from bfio.decode.cluster import MAX_TIME_S, MIN_TIME_S
from bfio.workloads.tables import Table, open_table
from bfio.workloads.trace_format import shown
from formulations.arrays import MAX_TOKENS, BoolArray, FloatArray
from formulations.errors import InputError, did_you_mean
from formulations.scalars import integer

if TYPE_CHECKING:
    from bfio.decode.run import Run

_REMEDY = "correct or leave out the step"


class Rule(NamedTuple):
    """Minimum and maximum of a measured quantity, and the rule as a text."""

    least: float
    most: float
    words: str


DURATION = Rule(MIN_TIME_S, MAX_TIME_S, f"a duration is > 0 and at most {MAX_TIME_S:g} s")
LOAD = Rule(0.0, float(MAX_TOKENS), f"a load is >= 0 and at most {MAX_TOKENS:g} tokens")


@dataclass(frozen=True)
class MeasuredSteps:
    """K measured steps in the order of measurement.

    Parameters
    ----------
    duration_s : FloatArray
        Shape (K,): duration of each step, > 0 [s].
    max_load : FloatArray
        Shape (K,): load of the most loaded worker [tokens].
    mean_load : FloatArray, optional
        Shape (K,): mean load of the workers [tokens]; None if unknown.
    loads : FloatArray, optional
        Shape (K, G): load of each worker [tokens]; None if only the peak is known.

    Raises
    ------
    InputError
        If there are no steps, a duration is not positive, a load is negative, or every step has
        the same peak.
    """

    duration_s: FloatArray
    max_load: FloatArray
    mean_load: FloatArray | None = None
    loads: FloatArray | None = None

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        if len(self.duration_s) == 0:
            raise InputError("steps", "no step is given", "measure steps")
        _check("duration_s", self.duration_s, DURATION)
        for name in ("max_load", "mean_load", "loads"):
            column = getattr(self, name)
            if column is not None:
                _check(name, column, LOAD)
        if self.mean_load is not None:
            # A mean written with few digits may slightly exceed an equal peak.
            above = np.flatnonzero(self.mean_load > self.max_load * 1.000001)
            if len(above):
                mean, peak = self.mean_load[above[0]], self.max_load[above[0]]
                what = f"{mean:g} exceeds the peak load of {peak:g}"
                raise InputError(f"mean_load[{above[0]}]", what, _REMEDY)
        if np.ptp(self.max_load) == 0:
            what = f"every step has a peak of {self.max_load[0]:g} tokens"
            remedy = "measure other loads to separate overhead and time per token"
            raise InputError("max_load", what, remedy)

    @classmethod
    def from_loads(cls, duration_s: FloatArray, loads: FloatArray) -> MeasuredSteps:
        """Return measured steps with the load of every worker, shape (K, G)."""
        return cls(duration_s, loads.max(axis=1, initial=0), loads.mean(axis=1), loads)

    @classmethod
    def from_run(cls, run: Run) -> MeasuredSteps:
        """Return the steps of a simulated run as measured steps.

        Raises
        ------
        InputError
            If workers had token budgets: then durations also depend on the batches.
        """
        if run.chunks is not None:
            what = "step durations depend on token budgets, not only on loads"
            raise InputError("token_budget", what, "use a run without token budgets")
        if run.loads is not None:
            return cls.from_loads(run.duration_s, run.loads.astype(np.float64))
        mean = run.total_load / run.cluster.workers
        return cls(run.duration_s, run.max_load.astype(np.float64), mean)

    @property
    def workers(self) -> int | None:
        """``G``, if the load of each worker is known."""
        return None if self.loads is None else self.loads.shape[1]

    def __len__(self) -> int:
        return len(self.duration_s)


def keeps(rule: Rule, column: FloatArray) -> BoolArray:
    """Return which entries satisfy a rule; NaN does not."""
    return (column >= rule.least) & (column <= rule.most)


def _check(name: str, column: FloatArray, rule: Rule) -> None:
    """Raise an error for the first entry that violates a rule."""
    bad = np.argwhere(~keeps(rule, column))
    if len(bad):
        place = tuple(int(k) for k in bad[0])
        where = f"{name}[{', '.join(map(str, place))}]"
        raise InputError(where, f"{column[place]:g}, but {rule.words}", _REMEDY)


#: Column names of durations, in order of preference.
DURATIONS = ("duration_s", "duration")
_LOAD = re.compile(r"load_(0|[1-9][0-9]{0,5})")


def read_steps(
    path: str | Path, *, workers: int | None = None, duration: str | None = None
) -> MeasuredSteps:
    """Read measured steps from a CSV or JSON Lines file.

    Parameters
    ----------
    path : str or Path
        A file with a header. Columns: ``duration_s`` [s]; ``load_0``, ``load_1``, ... [tokens], or
        ``max_load`` with ``mean_load`` or ``total_load``. Other columns are ignored.
    workers : int, optional
        ``G``, needed to compute the mean load from ``total_load``.
    duration : str, optional
        Name of the column of durations; by default the first of `DURATIONS` that exists.

    Raises
    ------
    InputError
        If a column is missing, a cell is not a finite number, a duration is not positive or a load
        is negative; the message names file, line and column.
    """
    path = file_path(path)
    if workers is not None:
        integer(workers, "workers", minimum=1)
    with open_table(path) as table:
        names = _columns(table.header, path, duration)
        lines, cells = _read(table, names, path)
    columns = dict(zip(names, cells.T, strict=True))
    durations = cells[:, 0]
    _check_cells(cells, lines, names, path)
    if "max_load" not in columns:
        if workers not in (None, len(names) - 1):
            what = f"has the loads of {len(names) - 1} workers, not of {workers}"
            raise InputError(str(path), what, "omit workers")
        return MeasuredSteps.from_loads(durations, cells[:, 1:])
    return MeasuredSteps(durations, columns["max_load"], _mean(columns, workers, path))


def _columns(header: Sequence[str], path: Path, duration: str | None) -> list[str]:
    """Return the columns to read: the duration, then the loads."""
    wanted = DURATIONS if duration is None else (duration,)
    found = [name for name in wanted if name in header]
    if not found:
        raise _missing(path, wanted[0], header)
    loads = {int(match[1]): name for name in header if (match := _LOAD.fullmatch(name))}
    if loads:
        absent = next((g for g in range(max(loads)) if g not in loads), None)
        if absent is not None:
            raise _missing(path, f"load_{absent}", header)
        return [found[0], *(loads[g] for g in sorted(loads))]
    if "max_load" not in header:
        raise _missing(path, "max_load", header)
    means = [name for name in ("mean_load", "total_load") if name in header]
    return [found[0], "max_load", *means[:1]]


def _missing(path: Path, name: str, header: Sequence[str]) -> InputError:
    what = f"no column {name!r} among {', '.join(map(shown, header[:8]))}"
    more = ", ..." if len(header) > 8 else ""
    remedy = f"{did_you_mean(name, header)}give duration_s and load_0, load_1, ... or max_load"
    return InputError(str(path), what + more, remedy)


def _read(table: Table, names: Sequence[str], path: Path) -> tuple[list[int], FloatArray]:
    """Return the line number of each row and its cells, shape (K, columns)."""
    rows = list(_rows(table, names, path))
    if not rows:
        raise InputError(str(path), "has no row below the header", "give measured steps")
    lines, cells = zip(*rows, strict=True)
    return list(lines), np.array(cells, dtype=np.float64)


def _rows(table: Table, names: Sequence[str], path: Path) -> Iterator[tuple[int, list[float]]]:
    for line, row in table.records:
        if isinstance(row, InputError):
            where = f"{path} line {line} {row.where}".rstrip()
            raise InputError(where, row.what, "correct the row")
        cells = []
        for name in names:
            cell = row.get(name)
            try:
                if isinstance(cell, bool) or not isinstance(cell, str | int | float):
                    raise ValueError
                cells.append(float(cell))
            except (ValueError, OverflowError):
                where = f"{path} line {line} column {name!r}"
                what = f"{shown(cell)} is not a number"
                raise InputError(where, what, "correct or leave out the row") from None
        yield line, cells


def _check_cells(
    cells: FloatArray, lines: Sequence[int], names: Sequence[str], path: Path
) -> None:
    """Raise an error for the first cell that is not a valid duration or load."""
    right = np.column_stack([keeps(DURATION, cells[:, 0]), keeps(LOAD, cells[:, 1:])])
    bad = np.argwhere(~right)
    if len(bad):
        row, column = bad[0].tolist()
        rule = DURATION if column == 0 else LOAD
        where = f"{path} line {lines[row]} column {names[column]!r}"
        what = f"{cells[row, column]:g}, but {rule.words}"
        raise InputError(where, what, "correct or leave out the row")


def _mean(columns: dict[str, FloatArray], workers: int | None, path: Path) -> FloatArray | None:
    if "mean_load" in columns:
        if workers is not None:
            what = "has the mean load, so the number of workers has no effect"
            raise InputError(str(path), what, "omit workers")
        return columns["mean_load"]
    if "total_load" not in columns:
        return None
    if workers is None:
        what = "total_load needs the number of workers"
        raise InputError(str(path), what, "add workers=G")
    return columns["total_load"] / workers
