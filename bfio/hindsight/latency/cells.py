"""Cells: what one request can be at one round, as far as the others must know.

A request that holds m tokens now and has r rounds left after this one is the cell (m, r); its
peak is m + r. Whether requests fit together from now on depends on their cells alone.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bfio.hindsight.latency.normal_form import NormalForm
from formulations.arrays import BoolArray, IntArray


class Cells(NamedTuple):
    """All cells some request can be, latest to finish first; kernels take them as they are.

    Parameters
    ----------
    tokens, left : IntArray
        Shape (c,): m and r of each cell.
    copies : IntArray
        Shape (c,): how many requests can be the cell and would fit there together.
    of_age : IntArray
        Shape (n, longest duration): cell of each request by age, -1 beyond its end.
    memory, smallest : int
        ``M`` and the least prompt [tokens].
    """

    tokens: IntArray
    left: IntArray
    copies: IntArray
    of_age: IntArray
    memory: int
    smallest: int


def build_cells(form: NormalForm) -> Cells:
    """Return the cells of a problem."""
    requests = zip(form.prompt.tolist(), form.duration.tolist(), strict=True)
    paths = [[(d - 1 - age, prompt + age) for age in range(d)] for prompt, d in requests]
    ordered = sorted({cell for path in paths for cell in path}, reverse=True)
    index = {cell: c for c, cell in enumerate(ordered)}
    of_age = np.full((len(paths), max(map(len, paths), default=0)), -1, dtype=np.int64)
    for i, path in enumerate(paths):
        of_age[i, : len(path)] = [index[cell] for cell in path]
    requests_at = Counter(cell for path in paths for cell in path)
    return Cells(
        tokens=np.array([m for _, m in ordered], dtype=np.int64),
        left=np.array([r for r, _ in ordered], dtype=np.int64),
        copies=np.array(
            [min(requests_at[r, m], form.memory // (m + r)) for r, m in ordered], dtype=np.int64
        ),
        of_age=of_age,
        memory=form.memory,
        smallest=int(form.prompt.min(initial=1)),
    )


@dataclass(frozen=True)
class Windows:
    """Which starts and cells are still open.

    Parameters
    ----------
    starts : BoolArray
        Shape (n, rounds + 1): whether a request may start at k; the last column stands for all
        starts from the last priced round on.
    cells : BoolArray
        Shape (rounds, c): whether some open start makes a request the cell at a round.
    """

    starts: BoolArray
    cells: BoolArray


def open_windows(form: NormalForm, cells: Cells, starts: BoolArray) -> Windows:
    """Derive the open cells from the open starts."""
    rounds = starts.shape[1] - 1
    open_cells = np.zeros((rounds, len(cells.tokens)), dtype=np.bool_)
    for i, duration in enumerate(form.duration.tolist()):
        for age in range(min(duration, rounds)):
            open_cells[age:, cells.of_age[i, age]] |= starts[i, : rounds - age]
    return Windows(starts, open_cells)


def arrival_windows(form: NormalForm, cells: Cells, rounds: int) -> Windows:
    """Return the windows that arrivals alone leave open."""
    starts = np.arange(rounds + 1)[None, :] >= form.arrival[:, None]
    starts[:, rounds] = True
    return open_windows(form, cells, starts)
