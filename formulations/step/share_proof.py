"""The verifier of certificates by shares, which reads only problem data and certificate.

Bounds are those of `formulations.step.share_bound`.

Each round shrinks the boxes (ranges of sums of common sizes): a sum stays if its cost exceeds the
worker's minimum by at most the distance of the claim from the bound. Floors rise in the next
round. A claim is proven if the bound of a round reaches it, or a worker has no mode left, or no
disjoint choice of the remaining sets beats it.

If the certificate asks for a search, the remaining sets are searched exhaustively (`beats`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from formulations.arrays import BoolArray, IntArray
from formulations.errors import InputError
from formulations.step.bound import lower_bound
from formulations.step.check import plain_objective, violations
from formulations.step.exhaustion import WorkBudget, malformed
from formulations.step.problem import StepProblem
from formulations.step.share_bound import (
    MAX_VALUE,
    REACHABLE,
    Mode,
    PricedRound,
    Share,
    ShareRound,
    Windows,
    largest_objective,
)


@dataclass(frozen=True)
class _Column:
    """A set of requests on a worker: cost above the worker's minimum, times and weight."""

    worker: int
    cost: int
    members: tuple[int, ...]
    bits: int
    times: IntArray
    worth: int


def beats(made: PricedRound, modes: list[Mode], least: dict[int, int], budget: int) -> bool:
    """Return whether disjoint sets of requests, one per worker, beat the claim.

    Parameters
    ----------
    made : PricedRound
        Shares and prices of the last round.
    modes : list of Mode
        The remaining modes.
    least : dict of int to int
        Least cost of each worker.
    budget : int
        Limit on the total cost of all sets above these minima.

    Raises
    ------
    InputError
        If the work exceeds its limit.
    """
    work = WorkBudget()
    columns = [column for mode in modes for column in _near_best(made, mode, least, budget, work)]
    problem = made.windows.problem

    def least_objective(chosen: dict[int, _Column], rest: dict[int, list[_Column]]) -> int:
        """Return a lower bound on the objective of all completions of the chosen sets."""
        peaks = made.floors
        for column in chosen.values():
            peaks = np.maximum(peaks, column.times)
        worth = sum(c.worth for c in chosen.values())
        worth += sum(max(c.worth for c in row) for row in rest.values())
        return made.paid(peaks) - worth

    def is_better(chosen: dict[int, _Column]) -> bool:
        assignment: list[int | None] = [None] * problem.num_requests
        for column in chosen.values():
            for i in column.members:
                assignment[i] = column.worker
        loads = problem.loads(assignment).tolist()
        return not violations(problem, assignment) and plain_objective(problem, loads) < made.claim

    def choose(columns: list[_Column], chosen: dict[int, _Column], budget: int) -> bool:
        """Return whether some of these columns complete a choice that beats the claim.

        The search branches on the worker with the fewest sets.
        """
        if len(chosen) == len(least):
            # The bound by peaks is cheap and rarely below the claim, so it is checked first.
            return least_objective(chosen, {}) < made.claim and is_better(chosen)
        by_worker: dict[int, list[_Column]] = {}
        for column in columns:
            by_worker.setdefault(column.worker, []).append(column)
        work.spend(len(columns) + 1)
        if len(chosen) + len(by_worker) < len(least):
            return False
        if sum(min(c.cost for c in row) for row in by_worker.values()) > budget:
            return False
        if least_objective(chosen, by_worker) >= made.claim:
            return False
        for column in min(by_worker.values(), key=len):
            left = budget - column.cost
            rest = [
                c
                for c in columns
                if c.worker != column.worker and not c.bits & column.bits and c.cost <= left
            ]
            work.spend(len(columns))
            if choose(rest, chosen | {column.worker: column}, left):
                return True
        return False

    return choose(columns, {}, budget)


def _near_best(
    made: PricedRound, mode: Mode, least: dict[int, int], budget: int, work: WorkBudget
) -> Iterator[_Column]:
    """Yield all sets of requests of a mode whose cost is within the budget."""
    windows, problem = made.windows, made.windows.problem
    costs = made.costs(mode)
    table = made.table(mode.worker)
    values = made.values(mode.worker).tolist()
    best = table[mode.count, mode.low : mode.high + 1]
    above = costs - np.where(best > REACHABLE, best, -(1 << 61)) - least[mode.worker]
    for x in np.flatnonzero(above <= budget).tolist():
        limit = int(costs[x]) - least[mode.worker] - budget
        for value, members in _sets(made, table, values, mode.count, mode.low + x, limit, work):
            taken = (*mode.own, *members)
            added = problem.contribution[list(taken)].sum(axis=0)
            yield _Column(
                mode.worker,
                int(costs[x]) - value - least[mode.worker],
                taken,
                sum(1 << i for i in taken),
                windows.times(mode.worker, problem.base[mode.worker] + added),
                int(problem.time_weights[mode.worker])
                * int((windows.total_weights * added).sum()),
            )


def _sets(
    made: PricedRound,
    table: IntArray,
    values: list[int],
    count: int,
    total: int,
    least: int,
    work: WorkBudget,
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the sets of common requests of given count and sum and value >= ``least``."""
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


#: Larger than any cost.
_NEVER = 1 << 61
#: Largest number of table cells.
_MAX_CELLS = 1 << 27


#: A case: number of rounds, then worker, step and level of its split; worker -1 for no split.
#: In the next case, the load of this worker at this step is at most the level. The second case,
#: with the load above the level, follows after all descendants of the first.
CaseRow = tuple[int, int, int, int]


def proves_by_shares(
    problem: StepProblem,
    rounds: tuple[ShareRound, ...],
    cases: tuple[CaseRow, ...],
    scale: int,
    claim: int,
    *,
    search: bool,
) -> bool:
    """Return whether rounds of shares prove ``claim`` as a lower bound on the objective.

    Parameters
    ----------
    problem : StepProblem
        Data.
    rounds : tuple of ShareRound
        Rounds of each case, in order. Each starts from the boxes left by the earlier rounds of its
        case and of the enclosing cases.
    cases : tuple of CaseRow
        In depth-first order.
    scale : int
        Units of shares and prices per unit of the objective.
    claim : int
        The bound to prove.
    search : bool
        Whether to search the sets that remain after the last round of a case.

    Raises
    ------
    InputError
        If a round is malformed or the work exceeds its limit.
    """
    if problem.num_admitted == 0:
        return claim <= problem.objective_value((None,) * problem.num_requests)
    if claim <= lower_bound(problem):
        return True
    windows = Windows.of(problem)
    _check_magnitude(problem, scale)
    _check_cases(problem, rounds, cases)
    workers = set(np.flatnonzero(problem.capacity > 0).tolist())
    proof = _Proof(windows, workers, scale, claim, search, iter(rounds), iter(cases))
    return proof.closes(windows.narrowed(windows.modes(), claim))


def _check_cases(
    problem: StepProblem, rounds: tuple[ShareRound, ...], cases: tuple[CaseRow, ...]
) -> None:
    """Raise unless the cases form a binary tree that uses every round."""
    open_cases = 1
    for number, worker, step, _ in cases:
        if number < 0 or worker >= problem.num_workers or not 0 <= step < problem.num_steps:
            raise malformed("cases", "a case names an unknown worker or step")
        if open_cases == 0:
            break
        open_cases += 1 if worker >= 0 else -1
    else:
        if open_cases == 0 and sum(number for number, *_ in cases) == len(rounds):
            return
    raise malformed("cases", "not a binary tree that uses every round")


@dataclass
class _Proof:
    """A verification in progress, which reads rounds and cases in depth-first order."""

    windows: Windows
    workers: set[int]
    scale: int
    claim: int
    search: bool
    rounds: Iterator[ShareRound]
    cases: Iterator[CaseRow]

    def closes(self, modes: list[Mode]) -> bool:
        """Return whether the rounds close all cases, starting from these modes."""
        # Stack of the modes of each pending case, the next one last. None marks a case inside a
        # closed one: its rows are read only to reach the cases after it.
        waiting: list[list[Mode] | None] = [modes]
        while waiting:
            left = waiting.pop()
            number, worker, step, level = next(self.cases)
            rounds = [next(self.rounds) for _ in range(number)]
            if left is None:
                waiting += [None, None] if worker >= 0 else []
                continue
            closed, left = self._bounded(left, rounds, search=self.search and worker < 0)
            if worker < 0 and not closed:
                return False
            if worker >= 0:
                above = None if closed else _part(left, worker, step, level, high=True)
                below = None if closed else _part(left, worker, step, level, high=False)
                waiting += [above, below]
        return True

    def _bounded(
        self, modes: list[Mode], rounds: list[ShareRound], *, search: bool
    ) -> tuple[bool, list[Mode]]:
        """Apply rounds to modes; return whether they close the case, and the remaining modes."""
        for k, given in enumerate(rounds):
            _check_round(self.windows, given, self.scale)
            if not self.workers <= {m.worker for m in modes}:
                return True, modes
            made = _priced(self.windows, self.scale, given, modes, self.claim)
            least, budget = _shrink(made, modes, self.workers)
            if budget < 0:
                return True, modes
            modes = [m for m in modes if m.low <= m.high]
            if search and k == len(rounds) - 1 and self.workers <= {m.worker for m in modes}:
                return not beats(made, modes, least, budget), modes
        return not self.workers <= {m.worker for m in modes}, modes


def _part(modes: list[Mode], worker: int, step: int, level: int, *, high: bool) -> list[Mode]:
    """Return copies of modes in which one worker's load is above, or at most, a level."""
    copies = [m.part(step, level, high=high) if m.worker == worker else m.copy() for m in modes]
    return [m for m in copies if m.low <= m.high]


def _priced(
    windows: Windows, scale: int, given: ShareRound, modes: list[Mode], claim: int
) -> PricedRound:
    reach = max((m.high for m in modes), default=0)
    most = int(windows.problem.capacity.max(initial=0))
    if (most + 1) * (reach + 1) > _MAX_CELLS:
        raise InputError(
            "certificate", "its tables are too large to verify", "solve with another method"
        )
    return PricedRound(windows, scale, given, windows.floors(modes), claim, reach)


def _shrink(made: PricedRound, modes: list[Mode], workers: set[int]) -> tuple[dict[int, int], int]:
    """Shrink each mode's range of sums to the budget; return least costs and budget left."""
    costs: list[IntArray] = []
    least = dict.fromkeys(workers, _NEVER)
    for mode in modes:
        values = made.table(mode.worker)[mode.count, mode.low : mode.high + 1]
        paid = np.where(values > REACHABLE, made.costs(mode) - values, _NEVER)
        costs.append(paid)
        least[mode.worker] = min(least[mode.worker], int(paid.min()))
    if max(least.values(), default=0) >= _NEVER:
        return least, -1
    bound = made.constant() + sum(least.values())
    # Objectives are integers: below the claim means at most the claim less one.
    budget = made.scale * (made.claim - 1) - bound
    if budget >= 0:
        for mode, paid in zip(modes, costs, strict=True):
            _keep(mode, paid - least[mode.worker] <= budget)
    return least, budget


def _keep(mode: Mode, wanted: BoolArray) -> None:
    """Shrink a mode's range of sums to that from the first to the last wanted sum."""
    places = np.flatnonzero(wanted)
    if len(places) == 0:
        mode.low, mode.high = 1, 0
    else:
        mode.low, mode.high = mode.low + int(places[0]), mode.low + int(places[-1])


def _check_magnitude(problem: StepProblem, scale: int) -> None:
    if scale < 1:
        raise malformed("price_scale", "below 1")
    if scale * largest_objective(problem) > MAX_VALUE:
        raise malformed("price_scale", "too large for 64-bit sums")


def _check_round(windows: Windows, given: ShareRound, scale: int) -> None:
    problem = windows.problem
    if len(given.prices) != problem.num_requests:
        raise malformed("shares", "not one price per request")
    total = sum(map(abs, given.prices)) + abs(given.admit_price) * problem.num_requests
    if total > MAX_VALUE:
        raise malformed("shares", "prices too large for 64-bit sums")
    admits_all = problem.num_admitted == problem.num_requests
    required = problem.required
    for i, price in enumerate(given.prices):
        free = admits_all or (required is not None and bool(required[i]))
        if price < 0 and not free:
            raise malformed("shares", f"price {price} of request {i} below 0")
    _check_shares(windows.pays, problem.num_workers, given.shares, scale)


def _check_shares(pays: IntArray, num_workers: int, shares: tuple[Share, ...], scale: int) -> None:
    """Raise if shares at some level sum to more than the objective's weight of the peak."""
    changes: dict[int, list[tuple[int, int]]] = {}
    for step, worker, above, to, weight in shares:
        if not (0 <= step < len(pays) and 0 <= worker < num_workers and weight >= 0):
            raise malformed("shares", "a share has an unknown step or worker, or is negative")
        if max(abs(above), abs(to)) > 2 * MAX_VALUE:
            raise malformed("shares", "levels too large for 64-bit sums")
        if to > above:
            changes.setdefault(step, []).extend([(above, weight), (to, -weight)])
    for step, events in changes.items():
        held = 0
        # At one level, shares that end (negative weights) are processed before those that begin.
        for _, weight in sorted(events):
            held += weight
            if held > scale * int(pays[step]):
                raise malformed("shares", f"shares of step {step} exceed the weight of its peak")
