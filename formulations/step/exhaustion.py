"""Exhaustive searches of the verifier of certificates: no placement beats a claimed bound.

The searches share no code with the solvers, take integers only, and stop at a fixed work limit.
Bounds on one worker come from `priced_sums`, the largest values of requests by number and sum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import InputError

#: Limit on search steps: requests, columns or states visited (about ten seconds).
WORK_LIMIT = 40_000_000
#: Marks table entries of priced sums for which no subset exists.
_NONE = -(1 << 59)


def malformed(field: str, what: str) -> InputError:
    """Return the error of a certificate that cannot be read as a proof, by the field at fault."""
    return InputError(f"certificate.{field}", what, "solve again")


class WorkBudget:
    """A counter of search steps, which raises an error beyond its limit."""

    def __init__(self, limit: int = WORK_LIMIT) -> None:
        self._left = limit

    def spend(self, steps: int = 1) -> None:
        """Add to the number of search steps.

        Raises
        ------
        InputError
            If the limit is exceeded.
        """
        self._left -= steps
        if self._left < 0:
            what = "not re-derived within the limit of work"
            raise InputError("certificate", what, "solve with another method")


@dataclass(frozen=True)
class PricedWorkers:
    """The workers with free slots at one peak and one price vector on the requests.

    Parameters
    ----------
    sizes, values, prices : list of int
        Shape (n,): one entry per request.
    margins, capacity : list of int
        One entry per open worker: room below the peak, and free slots.
    table : IntArray
        ``table[c, x]``: largest value of c requests of sum <= x; hugely negative if none.
    """

    sizes: list[int]
    values: list[int]
    prices: list[int]
    margins: list[int]
    capacity: list[int]
    table: IntArray

    def best(self, worker: int) -> int:
        """Return the largest value of a set of requests that fits this worker."""
        return self._reach(self.capacity[worker], self.margins[worker])

    def _reach(self, count: int, room: int) -> int:
        if room < 0:
            return _NONE
        return int(self.table[count, min(room, self.table.shape[1] - 1)])

    def near_best(self, worker: int, least: int, work: WorkBudget) -> Iterator[tuple[int, int]]:
        """Yield value and bits of each set of requests of value >= ``least`` on a worker."""
        ending = (0, self.margins[worker], 0, len(self.sizes))
        stack = [(self.capacity[worker], *ending)]
        while stack:
            count, value, room, members, before = stack.pop()
            if count == 0:
                yield value, members
                continue
            work.spend(before)
            for i in range(count - 1, before):
                left = room - self.sizes[i]
                worth = value + self.values[i]
                if left >= 0 and worth + self._reach(count - 1, left) >= least:
                    stack.append((count - 1, worth, left, members | 1 << i, i))


class _Column(NamedTuple):
    """A set of requests on one worker: cost, requests as a bit set, and sum of their prices."""

    worker: int
    cost: int
    members: int
    price: int


def has_disjoint_choice(workers: PricedWorkers, budget: int, work: WorkBudget) -> bool:
    """Return whether disjoint subsets of requests, one per worker, cost at most ``budget``.

    The cost of a subset is the worker's best value minus the subset's value; an unused request
    costs its price. The search branches on the worker or request with the fewest subsets.
    """
    columns = []
    for g in range(len(workers.margins)):
        best = workers.best(g)
        for value, members in workers.near_best(g, best - budget, work):
            price = sum(workers.prices[i] for i in _bits(members))
            columns.append(_Column(g, best - value, members, price))
    every = (1 << len(workers.margins)) - 1
    return _choose(columns, workers.prices, every, 0, budget, work)


def _choose(
    columns: list[_Column],
    prices: list[int],
    workers: int,
    used: int,
    budget: int,
    work: WorkBudget,
) -> bool:
    """Return whether the ``workers`` left (bits) have disjoint columns within the budget."""
    left_over = sum(price for i, price in enumerate(prices) if not used >> i & 1)
    if workers.bit_count() <= 1:
        work.spend(len(columns) + len(prices))
        return any(c.cost + left_over - c.price <= budget for c in columns) or (
            workers == 0 and left_over <= budget
        )
    columns, spare = _affordable(columns, prices, workers, used, budget, work)
    if spare < 0:
        return False
    wasted = [i for i, price in enumerate(prices) if price > spare and not used >> i & 1]
    served = [[c for c in columns if c.worker == g] for g in _bits(workers)]
    # Requests in no column are already charged in the spare budget.
    dear = ([c for c in columns if c.members >> i & 1] for i in wasted)
    served += [serving for serving in dear if serving]
    work.spend(len(columns) * len(served) // 8)
    for worker, cost, members, _ in min(served, key=len):
        rest = [
            c
            for c in columns
            if c.worker != worker and not c.members & members and c.cost <= budget - cost
        ]
        if _choose(rest, prices, workers & ~(1 << worker), used | members, budget - cost, work):
            return True
    return False


def _affordable(
    columns: list[_Column],
    prices: list[int],
    workers: int,
    used: int,
    budget: int,
    work: WorkBudget,
) -> tuple[list[_Column], int]:
    """Return the columns within the budget, and the spare budget (negative if exhausted).

    Every other worker costs at least its cheapest column, and a request in no column costs its
    price.
    """
    while True:
        work.spend(len(columns) + len(prices))
        cheapest: dict[int, int] = {}
        covered = used
        for column in columns:
            cheapest[column.worker] = min(column.cost, cheapest.get(column.worker, column.cost))
            covered |= column.members
        if len(cheapest) < workers.bit_count():
            return [], -1
        paid = sum(price for i, price in enumerate(prices) if not covered >> i & 1)
        spare = budget - paid - sum(cheapest.values())
        kept = [c for c in columns if c.cost - cheapest[c.worker] <= spare]
        if spare < 0 or len(kept) == len(columns):
            return kept, spare
        columns = kept


def _bits(word: int) -> Iterator[int]:
    while word:
        yield (word & -word).bit_length() - 1
        word &= word - 1


def placement_beats(
    num_workers: int,
    total_base: int,
    floor: int,
    open_workers: Sequence[tuple[int, int]],
    descending: list[int],
    target: int,
) -> bool:
    """Return whether some placement of a one-dimensional problem beats ``target``.

    Parameters
    ----------
    num_workers, total_base, floor : int
        ``G``, ``Σ b_g`` and the largest base load, of all workers.
    open_workers : sequence of (int, int)
        Load and free slots of each open worker.
    descending : list of int
        Sizes, largest first.
    target : int
        The claim.
    """
    work = WorkBudget()
    start = tuple(sorted(open_workers))
    base = sum(load for load, _ in start)
    admitted = min(len(descending), sum(free for _, free in start))

    def bound(state: tuple[tuple[int, int], ...], left: int, depth: int) -> int:
        """Return a lower bound on the objective of every completion of a partial placement."""
        peak = max([floor, *(load for load, _ in state)])
        total = sum(load for load, _ in state) - base
        room = sum(peak - load for load, free in state if free > 0)
        largest = sum(descending[depth : depth + left])
        return num_workers * peak - total_base - total - min(room, largest)

    reached = {(start, admitted)}
    if bound(start, admitted, 0) >= target:
        return False
    for depth, size in enumerate(descending):
        following = set()
        for state, left in reached:
            work.spend(len(state))
            if left < len(descending) - depth:
                following.add((state, left))
            if left > 0:
                following.update((s, left - 1) for s in _with_request(state, size))
        reached = {s for s in following if bound(*s, depth + 1) < target}
    return bool(reached)


def _with_request(
    state: tuple[tuple[int, int], ...], size: int
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield the states after a worker takes a request of this size; equal workers count once."""
    for k, (load, free) in enumerate(state):
        if free > 0 and (k == 0 or state[k - 1] != state[k]):
            yield tuple(sorted((*state[:k], (load + size, free - 1), *state[k + 1 :])))


#: Less than any sum of values: marks a subset that does not exist.
UNREACHABLE = -(1 << 60)


def priced_sums(sizes: IntArray, values: IntArray, most: int, limit: int) -> IntArray:
    """Return the largest value of c requests whose sizes sum to at most x.

    Parameters
    ----------
    sizes, values : IntArray
        Shape (n,), one per request.
    most, limit : int
        Largest c and x.

    Returns
    -------
    IntArray
        Shape (most + 1, limit + 1); near `UNREACHABLE` if no subset exists.
    """
    best = np.full((most + 1, limit + 1), UNREACHABLE, dtype=np.int64)
    best[0] = 0
    return with_requests(best, sizes, values)


def with_requests(best: IntArray, sizes: IntArray, values: IntArray) -> IntArray:
    """Add requests to a table of the largest value per count (rows) and sum (columns)."""
    for size, value in zip(sizes.tolist(), values.tolist(), strict=True):
        if size < best.shape[1]:
            # Computed in full before it is stored, so each request is used at most once.
            extended = best[:-1, : best.shape[1] - size] + value
            np.maximum(best[1:, size:], extended, out=best[1:, size:])
    return best
