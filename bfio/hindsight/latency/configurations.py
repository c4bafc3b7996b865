"""Cells of requests, sets of cells that fit together, and their maximum price.

All three conventions use the same kernel: a request holds ``s + age`` tokens at ages 0..d-1. That
is convention B. A(s, o) is B(s, o + 1), and C(s, o) is B(s + 1, o) one round later, so both have
the same feasible starts as their image (spec kv_cache, section 1.6; tested).

A request that holds m tokens now and has r rounds left after this one is the cell (m, r); its peak
is m + r. Whether requests fit together from now on depends only on their cells.

The dearest (maximum-price) set of cells that fit together is found by dynamic programming. The
cells of a set are taken in the order of their ends, the latest first. Suppose the cell (m, r) is
added to c requests that hold S tokens now. The new request is the first to finish, r rounds from
now. No request ends before, so the c + 1 requests hold ``S + m + (c + 1) r`` tokens at that round.
The set can run without later starts iff this never exceeds M. So the state (S, c) is sufficient
for the next cell.

A cell is taken at most as often as there are requests that can be at it. One request may still be
taken at two of its cells. This is a relaxation, so the value remains an upper bound on the price
of every feasible set of the round.

Tables have the shape (requests, tokens), so that the inner loops run over contiguous memory.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.hindsight_latency import Convention, LatencyProblem


class NormalForm(NamedTuple):
    """Requests in convention B, sorted so that identical ones are adjacent; passed to kernels.

    Parameters
    ----------
    memory : int
        ``M`` [tokens].
    prompt, duration, arrival : IntArray
        Shape (n,): tokens at age 0, number of occupied rounds, first possible start.
    order : IntArray
        Shape (n,): index of each request in the problem.
    constant : int
        Total latency minus the sum of starts.
    origin : int
        Round of the problem that corresponds to round 0: the first arrival.
    """

    memory: int
    prompt: IntArray
    duration: IntArray
    arrival: IntArray
    order: IntArray
    constant: int
    origin: int

    @property
    def num_requests(self) -> int:
        """``n``."""
        return len(self.order)

    @property
    def peak(self) -> IntArray:
        """Tokens at the last occupied round, shape (n,)."""
        return self.prompt + self.duration - 1

    def starts(self, sorted_starts: IntArray) -> tuple[int, ...]:
        """Return the starts in the order of the problem's requests."""
        starts = np.empty(self.num_requests, dtype=np.int64)
        starts[self.order] = sorted_starts + self.origin
        return tuple(int(start) for start in starts)


def normal_form(problem: LatencyProblem) -> NormalForm:
    """Convert a problem of any convention."""
    prompt = problem.prompt + (problem.convention is Convention.HALF_OPEN)
    duration = problem.output + (problem.convention is Convention.CLOSED)
    order = np.lexsort((problem.arrival, duration, prompt)).astype(np.int64)
    origin = min(problem.arrival.tolist(), default=0)
    arrival = problem.arrival[order] - origin
    return NormalForm(
        memory=problem.memory,
        prompt=prompt[order].astype(np.int64),
        duration=duration[order].astype(np.int64),
        arrival=arrival,
        order=order,
        constant=sum(problem.output.tolist()) - sum(arrival.tolist()),
        origin=origin,
    )


class Cells(NamedTuple):
    """All possible cells of requests, those with the latest end first; passed to kernels.

    Parameters
    ----------
    tokens, left : IntArray
        Shape (c,): m and r of each cell.
    copies : IntArray
        Shape (c,): number of requests that can be at the cell and fit there together.
    of_age : IntArray
        Shape (n, longest duration): cell of each request by age, -1 beyond its end.
    memory, smallest : int
        ``M`` and the minimum prompt [tokens].
    """

    tokens: IntArray
    left: IntArray
    copies: IntArray
    of_age: IntArray
    memory: int
    smallest: int


def build_cells(form: NormalForm) -> Cells:
    """Return all cells of a problem."""
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
    """Starts and cells that are not excluded yet.

    Parameters
    ----------
    starts : BoolArray
        Shape (n, rounds + 1): whether a request may start at k; the last column represents all
        starts from the last priced round on.
    cells : BoolArray
        Shape (rounds, c): whether a request with an open start can be at the cell in a round.
    """

    starts: BoolArray
    cells: BoolArray


def open_windows(form: NormalForm, cells: Cells, starts: BoolArray) -> Windows:
    """Return the windows for the given open starts."""
    rounds = starts.shape[1] - 1
    open_cells = np.zeros((rounds, len(cells.tokens)), dtype=np.bool_)
    for i, duration in enumerate(form.duration.tolist()):
        for age in range(min(duration, rounds)):
            open_cells[age:, cells.of_age[i, age]] |= starts[i, : rounds - age]
    return Windows(starts, open_cells)


def arrival_windows(form: NormalForm, cells: Cells, rounds: int) -> Windows:
    """Return the windows that only exclude starts before arrivals."""
    starts = np.arange(rounds + 1)[None, :] >= form.arrival[:, None]
    starts[:, rounds] = True
    return open_windows(form, cells, starts)


#: Weight of the empty set; keeps products within the range of doubles.
_EMPTY = 1e-200
#: Cells with a weight below exp of this are omitted from the soft value.
_NEGLIGIBLE = -20.0
#: Price of infeasible sets: far below 0, also after real prices are added.
UNREACHABLE = -(1 << 60)


def table_size(cells: Cells) -> int:
    """Return the number of entries of a table."""
    return (cells.memory // cells.smallest + 2) * (cells.memory + 1)


@compilable
def most_others(cell: int, cells: Cells) -> int:
    """Return the maximum number of requests to which a cell can be added; -1 if it never fits."""
    room = cells.memory - cells.tokens[cell] - cells.left[cell]
    return room // (cells.smallest + cells.left[cell]) if room >= 0 else -1


@compilable
def span(cell: int, count: int, cells: Cells) -> tuple[int, int]:
    """Return the range of tokens that ``count`` requests may hold when a cell is added to them."""
    left = cells.left[cell]
    return count * cells.smallest, cells.memory - (count + 1) * left - cells.tokens[cell] + 1


@compilable(allocates=True)
def empty_sets(cells: Cells) -> IntArray:
    """Return the table that contains only the empty set, at price 0."""
    room = (cells.memory // cells.smallest + 2, cells.memory + 1)
    value = np.full(room, UNREACHABLE, np.int64)
    value[0, 0] = 0
    return value


@compilable
def offer(price: int, cell: int, cells: Cells, value: IntArray) -> None:
    """Add a copy of a cell to every set where it fits and increases the price."""
    if price <= 0:
        return
    m = cells.tokens[cell]
    for c in range(most_others(cell, cells), -1, -1):
        low, high = span(cell, c, cells)
        source, target = value[c, low:high], value[c + 1, low + m : high + m]
        for s in range(len(source)):
            target[s] = max(target[s], source[s] + price)


@entry_point
def dearest(price: IntArray, cells: Cells) -> int:
    """Return the maximum total price of a set of cells that fit together, in integers."""
    value = empty_sets(cells)
    for cell in range(len(price)):
        for _ in range(cells.copies[cell] if price[cell] > 0 else 0):
            offer(price[cell], cell, cells, value)
    return value.max()  # type: ignore[no-any-return]


@compilable(allocates=True)
def around(price: IntArray, cells: Cells, before: IntArray, after: IntArray) -> int:
    """Fill the best sets before each cell, and the best sets that can follow its first copy.

    ``before`` and ``after`` have shape (c, requests, tokens). Returns the maximum price of a set.
    """
    value = empty_sets(cells)
    for cell in range(len(price)):
        _copy_table(before[cell], value)
        for _ in range(cells.copies[cell] if price[cell] > 0 else 0):
            offer(price[cell], cell, cells, value)
    behind = np.zeros(value.shape, np.int64)
    for cell in range(len(price) - 1, -1, -1):
        for _ in range(cells.copies[cell] - 1 if price[cell] > 0 else 0):
            _precede(price[cell], cell, cells, behind)
        _copy_table(after[cell], behind)
        if price[cell] > 0:
            _precede(price[cell], cell, cells, behind)
    return value.max()  # type: ignore[no-any-return]


@compilable
def _copy_table(target: IntArray, values: IntArray) -> None:
    for c in range(len(values)):
        copy_to(target[c], values[c])


@compilable
def _precede(price: int, cell: int, cells: Cells, behind: IntArray) -> None:
    """Insert a copy of a cell before the sets that follow."""
    m = cells.tokens[cell]
    for c in range(most_others(cell, cells) + 1):
        low, high = span(cell, c, cells)
        source, target = behind[c + 1, low + m : high + m], behind[c, low:high]
        for s in range(len(source)):
            target[s] = max(target[s], source[s] + price)


@compilable
def best_with(price: int, cell: int, cells: Cells, before: IntArray, after: IntArray) -> int:
    """Return the maximum price of a set that contains a cell; negative if there is none.

    ``before`` holds the sets to which it is added, ``after`` the cells that may follow it.
    """
    best, m = UNREACHABLE, cells.tokens[cell]
    for c in range(most_others(cell, cells) + 1):
        low, high = span(cell, c, cells)
        source, rest = before[c, low:high], after[c + 1, low + m : high + m]
        for s in range(len(source)):
            best = max(best, source[s] + rest[s])
    return best + price


@entry_point
def losses(
    price: IntArray, cells: Cells, before: IntArray, after: IntArray, loss: IntArray
) -> None:
    """Fill the difference of the maximum price and the maximum price with a given cell.

    ``loss`` has shape (c,); ``before`` and ``after`` are work arrays.
    """
    best = around(price, cells, before, after)
    for cell in range(len(price)):
        loss[cell] = best - best_with(price[cell], cell, cells, before[cell], after[cell])


@compilable(allocates=True)
def soft_dearest(
    price: FloatArray,
    cells: Cells,
    open_cells: BoolArray,
    temperature: float,
    stages: FloatArray,
    expected: FloatArray,
) -> float:
    """Return ``T log Σ exp(price of a set / T)`` over sets that fit; fill the expected counts.

    The derivative of the value with respect to a cell's price is the expected number of the cell
    in a set drawn with these weights: ``expected``, shape (c,). It is computed by forward sums and
    a backward sweep.
    """
    used = np.zeros(len(stages), np.int64)
    count = 0
    for cell in range(len(price)):
        expected[cell] = 0.0
        if open_cells[cell] and price[cell] > _NEGLIGIBLE * temperature:
            for _ in range(cells.copies[cell]):
                used[count] = cell
                count += 1
    work = np.zeros(stages.shape[1:])
    work[0, 0] = _EMPTY
    for j in range(count):
        m = cells.tokens[used[j]]
        weight = math.exp(price[used[j]] / temperature)
        for c in range(most_others(used[j], cells), -1, -1):
            low, high = span(used[j], c, cells)
            source, target = work[c, low:high], work[c + 1, low + m : high + m]
            stage = stages[j, c]
            for s in range(len(source)):
                stage[s] = source[s]
                target[s] += weight * source[s]
    total = work.sum()
    work[:] = 1.0 / total
    mean = np.zeros(cells.memory + 1)
    for j in range(count - 1, -1, -1):
        m = cells.tokens[used[j]]
        weight = math.exp(price[used[j]] / temperature)
        mean[:] = 0.0
        for c in range(most_others(used[j], cells) + 1):
            low, high = span(used[j], c, cells)
            target, source = work[c, low:high], work[c + 1, low + m : high + m]
            stage = stages[j, c]
            # Sums by position instead of a single sum, so that the loops vectorise.
            for s in range(len(source)):
                extra = weight * source[s]
                target[s] += extra
                mean[s] += stage[s] * extra
        expected[used[j]] += mean.sum()
    return temperature * (math.log(total) - math.log(_EMPTY))
