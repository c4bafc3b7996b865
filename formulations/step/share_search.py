"""What shares and prices leave open, searched in full: a plain search behind a certificate."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from formulations.arrays import IntArray
from formulations.step.check import plain_objective, violations
from formulations.step.exhaustion import WorkBudget
from formulations.step.share_bound import REACHABLE, Mode, PricedRound


@dataclass(frozen=True)
class _Column:
    """A set of requests of a worker: what it costs above the bound, and what it adds."""

    worker: int
    cost: int
    members: tuple[int, ...]
    bits: int
    times: IntArray
    worth: int


def beats(made: PricedRound, modes: list[Mode], least: dict[int, int], budget: int) -> bool:
    """Whether disjoint sets, one per worker, beat the claim that left this budget.

    Parameters
    ----------
    made : PricedRound
        Shares and prices of the last round.
    modes : list of Mode
        What they leave.
    least : dict of int to int
        Least cost of each worker.
    budget : int
        Most that all sets may cost above these together.

    Raises
    ------
    InputError
        If the work exceeds its limit.
    """
    work = WorkBudget()
    columns = [column for mode in modes for column in _near_best(made, mode, least, budget, work)]
    return _Search(made, len(least), work).choose(columns, {}, 0, budget)


def _near_best(
    made: PricedRound, mode: Mode, least: dict[int, int], budget: int, work: WorkBudget
) -> Iterator[_Column]:
    """Yield all sets of a mode within the budget."""
    costs = made.costs(mode)
    table = made.table(mode.worker)
    values = made.values(mode.worker).tolist()
    best = table[mode.count, mode.low : mode.high + 1]
    above = costs - np.where(best > REACHABLE, best, -(1 << 61)) - least[mode.worker]
    for x in np.flatnonzero(above <= budget).tolist():
        limit = int(costs[x]) - least[mode.worker] - budget
        for value, members in _sets(made, table, values, mode.count, mode.low + x, limit, work):
            yield _column(made, mode, int(costs[x]) - value - least[mode.worker], members)


def _sets(
    made: PricedRound,
    table: IntArray,
    values: list[int],
    count: int,
    total: int,
    least: int,
    work: WorkBudget,
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the sets of common requests of this number and sum, of value ``least`` at least."""
    windows = made.windows
    sizes, common = windows.sizes.tolist(), windows.common.tolist()
    stack: list[tuple[int, int, int, tuple[int, ...], int]] = [(count, total, 0, (), len(sizes))]
    while stack:
        left, room, value, members, before = stack.pop()
        if left == 0:
            if room == 0 and value >= least:
                yield value, members
            continue
        work.spend(before)
        for i in range(left - 1, before):
            rest = room - sizes[i]
            worth = value + values[i]
            if rest >= 0 and worth + int(table[left - 1, rest]) >= least:
                stack.append((left - 1, rest, worth, (*members, common[i]), i))


def _column(made: PricedRound, mode: Mode, cost: int, members: tuple[int, ...]) -> _Column:
    windows = made.windows
    taken = (*mode.own, *members)
    added = windows.problem.contribution[list(taken)].sum(axis=0)
    loads = windows.problem.base[mode.worker] + added
    tau = int(windows.problem.time_weights[mode.worker])
    return _Column(
        mode.worker,
        cost,
        taken,
        sum(1 << i for i in taken),
        windows.times(mode.worker, loads),
        tau * int((windows.total_weights * added).sum()),
    )


@dataclass
class _Search:
    """Serve the worker with the fewest sets first."""

    made: PricedRound
    num_workers: int
    work: WorkBudget

    def choose(
        self, columns: list[_Column], chosen: dict[int, _Column], used: int, budget: int
    ) -> bool:
        """Whether these columns complete a choice that beats the claim."""
        if len(chosen) == self.num_workers:
            # What it costs by its peaks is soon told, and hardly ever below the claim.
            return self._least(chosen, {}) < self.made.claim and self._beats(chosen)
        by_worker: dict[int, list[_Column]] = {}
        for column in columns:
            by_worker.setdefault(column.worker, []).append(column)
        self.work.spend(len(columns) + 1)
        if len(chosen) + len(by_worker) < self.num_workers:
            return False
        if sum(min(c.cost for c in row) for row in by_worker.values()) > budget:
            return False
        if self._least(chosen, by_worker) >= self.made.claim:
            return False
        for column in min(by_worker.values(), key=len):
            left = budget - column.cost
            rest = [
                c
                for c in columns
                if c.worker != column.worker and not c.bits & column.bits and c.cost <= left
            ]
            self.work.spend(len(columns))
            if self.choose(rest, chosen | {column.worker: column}, used | column.bits, left):
                return True
        return False

    def _least(self, chosen: dict[int, _Column], rest: dict[int, list[_Column]]) -> int:
        """Bound by the peaks of the chosen ones and the largest total of the rest."""
        peaks = self.made.floors
        for column in chosen.values():
            peaks = np.maximum(peaks, column.times)
        worth = sum(c.worth for c in chosen.values())
        worth += sum(max(c.worth for c in row) for row in rest.values())
        return self.made.paid(peaks) - worth

    def _beats(self, chosen: dict[int, _Column]) -> bool:
        problem = self.made.windows.problem
        assignment: list[int | None] = [None] * problem.num_requests
        for column in chosen.values():
            for i in column.members:
                assignment[i] = column.worker
        loads = problem.loads(assignment).tolist()
        return (
            not violations(problem, assignment)
            and plain_objective(problem, loads) < self.made.claim
        )
