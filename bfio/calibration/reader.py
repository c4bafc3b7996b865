"""Read measured steps: one row per step, of CSV or JSON Lines, packed or not."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bfio.calibration.measurements import DURATION, LOAD, MeasuredSteps, keeps
from bfio.workloads.decimals import shown
from bfio.workloads.tables import Table, open_table
from formulations.arrays import FloatArray
from formulations.errors import InputError, did_you_mean
from formulations.scalars import integer

#: Names under which durations are looked for, the first found is taken.
DURATIONS = ("duration_s", "duration")
_LOAD = re.compile(r"load_(0|[1-9][0-9]{0,5})")


def read_steps(
    path: str | Path, *, workers: int | None = None, duration: str | None = None
) -> MeasuredSteps:
    """Read measured steps.

    Parameters
    ----------
    path : str or Path
        A file with a header. Columns: ``duration_s`` [s]; ``load_0``, ``load_1``, ... [tokens], or
        ``max_load`` with ``mean_load`` or ``total_load``. Others are not looked at.
    workers : int, optional
        ``G``, to make the mean of a total.
    duration : str, optional
        Another name of the column of durations.

    Raises
    ------
    InputError
        Naming file, line and column if one is missing, a cell is no finite number, a duration is
        not positive or a load negative.
    """
    path = Path(path)
    if workers is not None:
        integer(workers, "workers", minimum=1)
    with open_table(path) as table:
        names = _columns(table.header, path, duration)
        lines, cells = _read(table, names, path)
    columns = dict(zip(names, cells.T, strict=True))
    durations = cells[:, 0]
    _check(cells, lines, names, path)
    if "max_load" not in columns:
        if workers not in (None, len(names) - 1):
            what = f"has the loads of {len(names) - 1} workers, and {workers} are asked for"
            raise InputError(str(path), what, "leave out --workers")
        return MeasuredSteps.from_loads(durations, cells[:, 1:])
    return MeasuredSteps(durations, columns["max_load"], _mean(columns, workers, path))


def _columns(header: Sequence[str], path: Path, duration: str | None) -> list[str]:
    """Return the columns to read: the duration, then loads."""
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
    """Return the line of each row and its cells, shape (K, columns)."""
    rows = list(_rows(table, names, path))
    if not rows:
        raise InputError(str(path), "no row below the header", "give measured steps")
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
                what = f"{shown(cell)} is no number"
                raise InputError(where, what, "correct or leave out the row") from None
        yield line, cells


def _check(cells: FloatArray, lines: Sequence[int], names: Sequence[str], path: Path) -> None:
    """Name the first cell that is no duration, or no load."""
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
        return columns["mean_load"]
    if "total_load" not in columns:
        return None
    if workers is None:
        what = "total_load is the sum over workers whose number is not known"
        raise InputError(str(path), what, "add --workers G")
    return columns["total_load"] / workers
