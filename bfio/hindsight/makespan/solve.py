"""Solve the hindsight makespan problem by first schedules, bounds, a search, and CP-SAT.

On random instances (docs/hindsight-makespan.md) the search proves far more optima than CP-SAT
where a step has few successors. CP-SAT proves more with many slots and free starts. So the search
gets the first part of the time, and CP-SAT continues from its schedule.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from math import inf
from operator import itemgetter

import numpy as np

from bfio.common.kernel_groups import ensure_compiled
from bfio.hindsight.in_hand import InHand
from bfio.hindsight.makespan.filling import filled, takes_insertions
from bfio.hindsight.makespan.search import SearchForm, StepSearch, is_searchable, search_form
from bfio.hindsight.makespan.states import rehash
from formulations.deadline import FIRST_GRACE_S, UNLIMITED, Deadline, OutOfTime, TimeLimit
from formulations.errors import CapabilityError
from formulations.hindsight_makespan import (
    MakespanObjective,
    MakespanProblem,
    MakespanProgram,
    MakespanResult,
    list_schedule,
    objective_value,
    solve,
)
from formulations.hindsight_makespan.bound import part, segments
from formulations.hindsight_makespan.check import better_than
from formulations.results import BoundKind, Termination, own_solver
from formulations.scalars import MAX_RATIONAL

Schedule = tuple[tuple[int, ...], tuple[int, ...]]
#: Called with each improved schedule.
Tell = Callable[[InHand[Schedule]], None]


def best_list(problem: MakespanProblem) -> tuple[int, Schedule]:
    """Return the best list schedule and its objective.

    The orders are: arrival; longest output first, which shortens the drain; shortest output
    first, which is best for latency; highest peak first; most work first.
    """
    rows = list(zip(problem.prompt.tolist(), problem.output.tolist(), strict=True))
    num = range(problem.num_requests)
    orders = (
        list(num),
        sorted(num, key=lambda i: -rows[i][1]),
        sorted(num, key=lambda i: rows[i][1]),
        sorted(num, key=lambda i: -sum(rows[i])),
        sorted(num, key=lambda i: -rows[i][1] * (2 * rows[i][0] + rows[i][1] - 1)),
    )
    schedules = (list_schedule(problem, order) for order in orders)
    found = [(objective_value(problem, *schedule), schedule) for schedule in schedules]
    return min(found, key=itemgetter(0))


@cache
def prepare() -> None:
    """Compile all kernels, or load them from Numba's cache; once per process."""
    ensure_compiled("makespan")
    values = np.arange(1, 6)
    for objective in (MakespanObjective.WALL_CLOCK, MakespanObjective.LATENCY):
        problem = MakespanProblem(2, 2, values - 1, values, values, objective=objective)
        form = search_form(problem)
        if takes_insertions(form):
            list(filled(form, UNLIMITED))
        search = StepSearch(form)
        # Above every optimum, so that the bound does not end the search immediately.
        known = 2 * form.cost(best_list(problem)[0])
        search.run(known, width=10, most_successors=100)
        # Only large searches call this kernel.
        rehash(search.begin(known, width=10, most_successors=100)[1])


#: Width of each search, and its maximum number of successors of a state.
STAGES = ((100, 5_000), (3_000, 50_000), (100_000, 1_000_000), (1_000_000, 100_000_000))
#: Description of the proof for each kind of bound.
_PROOFS = {
    "bound": "a combinatorial bound, derived in integers",
    "cp-sat": "the bound of CP-SAT, derived in integers",
    "enumeration": "enumeration of all schedules",
    "search": "a search to its end, in integers",
}
#: A part with few requests is enumerated if the search does not solve it. `_TRIED` placements of
#: a request take about 0.3 s.
_FEW_REQUESTS, _TRIED = 6, 30_000
#: Share of the time limit for the search: with few, and with many successors per step.
_FEW, _MANY = 0.9, 0.5


def solve_makespan(
    problem: MakespanProblem,
    *,
    method: str = "exact",
    time_limit: TimeLimit = None,
    seed: int = 0,
) -> MakespanResult:
    """Find a schedule with minimum objective, and the best bound within the limits.

    Parameters
    ----------
    problem : MakespanProblem
        Data of the problem.
    method : str
        ``exact`` (own method), ``brute-force``, or a backend: ``cp-sat``, ``highs``, ``pyomo``,
        ``pyomo:SOLVER``.
    time_limit : float or Deadline, optional
        Time limit in wall-clock seconds. Without one, ``exact`` runs all its searches but not
        CP-SAT.
    seed : int
        Random seed of the backends; the search is deterministic.

    Returns
    -------
    MakespanResult
        For ``exact``: a schedule and a bound derived in integers, deterministic unless the time
        limit is reached. Neither exists if the limit is reached before the first list schedule.

    Raises
    ------
    InputError
        If the method is unknown or the time limit is negative.
    CapabilityError
        If the problem is too large for a backend or for enumeration.
    """
    deadline = Deadline.of(time_limit)
    return MakespanProgram.solve_by(
        problem,
        method,
        time_limit=deadline,
        seed=seed,
        own={"exact": lambda: _exact(problem, deadline, seed)},
    )


def list_interval(problem: MakespanProblem) -> MakespanResult:
    """Return the best first schedule and the combinatorial bound, without a time limit.

    First schedules are list schedules and, where idling is free, insertions (`filling`). There is
    no search. `solve_makespan` with a time limit of 0 may return a weaker schedule or bound.
    """
    prepare()
    return _Solve(MakespanProgram(problem), UNLIMITED, seed=0, searches=False).result()


def _exact(problem: MakespanProblem, deadline: Deadline, seed: int) -> MakespanResult:
    if deadline.seconds > 0:
        # The time for loading or compiling kernels does not count.
        with deadline.stopped():
            prepare()
    return _Solve(MakespanProgram(problem), deadline, seed).result()


@dataclass
class _Solve:
    """A solve and its incumbent: first a list schedule, then improvements part by part."""

    program: MakespanProgram
    deadline: Deadline
    seed: int
    searches: bool = True
    starts: list[int] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    bound: int | None = None
    hands: list[InHand[Schedule]] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    def result(self) -> MakespanResult:
        """Solve the parts one after the other."""
        problem = self.program.problem
        try:
            self._begin(problem)
            with self.deadline.interrupting():
                parts = _parts(problem)
            for done, members in enumerate(parts):
                # Later parts share the time that earlier parts did not use.
                share = self.deadline.share(1 / (len(parts) - done))
                self._solve_part(members, share, alone=len(parts) == 1)
        except OutOfTime:
            return self._answer(late=True)
        self.bound = sum(hand.bound for hand in self.hands)
        return self._answer(late=self.deadline.is_over)

    def _begin(self, problem: MakespanProblem) -> None:
        """If there is a time limit, compute a first schedule and bound of the whole problem."""
        if self.deadline.at == inf and not self.deadline.is_watched:
            self.starts, self.workers = [0] * problem.num_requests, [0] * problem.num_requests
            return
        with self.deadline.interrupting(FIRST_GRACE_S):
            starts, workers = list_schedule(problem)
        self.starts, self.workers = list(starts), list(workers)
        self._tell()
        with self.deadline.interrupting(FIRST_GRACE_S):
            self.bound = self.program.lower_bound()
        self._tell()

    def _solve_part(self, members: list[int], share: Deadline, *, alone: bool) -> None:
        """Solve a part, and put each improved schedule into the result."""

        def take(hand: InHand[Schedule]) -> None:
            for i, start, worker in zip(members, *hand.schedule, strict=True):
                self.starts[i], self.workers[i] = start, worker
            if alone:
                self.bound = hand.bound
            self._tell()

        problem = part(self.program.problem, members)
        self.hands.append(_solved_part(problem, share, self.seed, take, self.searches))
        take(self.hands[-1])

    def _tell(self) -> None:
        self.deadline.found(lambda: self._answer(late=True))

    def _answer(self, *, late: bool) -> MakespanResult:
        known = bool(self.starts) or self.program.problem.num_requests == 0
        proofs = sorted({hand.proof for hand in self.hands})
        known_by = " and ".join(_PROOFS[proof] for proof in proofs or ["bound"])
        states = sum(hand.states for hand in self.hands)
        return self.program.answer(
            (tuple(self.starts), tuple(self.workers)) if known else None,
            Termination.TIME_LIMIT if late else Termination.FEASIBLE,
            self.bound,
            method="exact",
            seconds=time.perf_counter() - self.began,
            solver=own_solver(proofs=proofs, parts=len(self.hands), states=states),
            proof=None if self.bound is None else known_by,
        )


def _parts(problem: MakespanProblem) -> list[list[int]]:
    """Return the requests of each part of the problem that can be solved independently."""
    free = problem.objective is MakespanObjective.WALL_CLOCK and not problem.work_conserving
    split = [list(range(problem.num_requests))] if free else segments(problem)
    return [members for members in split if members]


def _solved_part(
    problem: MakespanProblem, deadline: Deadline, seed: int, tell: Tell, searches: bool
) -> InHand[Schedule]:
    began, limit = time.perf_counter(), deadline.left
    with deadline.interrupting():
        form = search_form(problem)
        objective, schedule = best_list(problem)
        hand = InHand(objective, schedule, form.objective(form.bound()), "bound")
    if takes_insertions(form) and not hand.is_closed:
        _fill(form, hand, deadline, tell)
    if hand.is_closed or not searches:
        return hand
    if is_searchable(form, form.cost(hand.objective)):
        # CP-SAT gets more of the time if idling is free on many slots.
        crowded = form.slots > 1 and form.data.lanes > 2 and not form.data.conserving
        _search(form, hand, began + (_MANY if crowded else _FEW) * limit, tell)
    if not hand.is_closed and problem.num_requests <= _FEW_REQUESTS:
        # The incumbent is kept if there are too many schedules or no time is left.
        with suppress(CapabilityError, OutOfTime), deadline.interrupting():
            _enumerate(form, hand)
    if not hand.is_closed and limit < inf:
        _close_with_cp_sat(form, hand, deadline, seed)
    return hand


def _fill(form: SearchForm, hand: InHand[Schedule], deadline: Deadline, tell: Tell) -> None:
    """Insert the requests where they cost least, in several orders."""
    for objective, schedule in filled(form, deadline):
        if objective < hand.objective:
            hand.improve(objective, schedule)
            tell(hand)
        if hand.is_closed:
            return


def _search(form: SearchForm, hand: InHand[Schedule], deadline: float, tell: Tell) -> None:
    """Search with increasing widths."""
    search = StepSearch(form)
    for width, most in STAGES:
        if hand.is_closed or time.perf_counter() >= deadline:
            return
        result = search.run(form.cost(hand.objective), width, most, deadline)
        hand.states += result.states
        if result.cost is not None:
            schedule = form.schedule(result.starts, result.lanes)
            hand.improve(form.objective(result.cost), schedule)
        hand.raise_bound(form.objective(result.bound), "search")
        tell(hand)


def _enumerate(form: SearchForm, hand: InHand[Schedule]) -> None:
    """Enumerate all schedules that are better than the incumbent."""
    best = better_than(form.problem, hand.objective, _TRIED)
    if best is not None:
        objective, starts, workers = best
        hand.improve(objective, (tuple(starts), tuple(workers)))
    hand.raise_bound(hand.objective, "enumeration")


def _close_with_cp_sat(
    form: SearchForm, hand: InHand[Schedule], deadline: Deadline, seed: int
) -> None:
    """Continue with CP-SAT from the incumbent, with the reduced integer costs as times."""
    problem, per_step, per_token = form.problem, form.data.per_step, form.data.per_token
    if max(per_step, per_token) > MAX_RATIONAL:
        return
    if problem.objective is MakespanObjective.WALL_CLOCK:
        problem = replace(
            problem, step_overhead=Fraction(per_step), token_time=Fraction(per_token)
        )
    if deadline.is_over:
        return
    start = hand.schedule
    try:
        result = solve(problem, backend="cp-sat", time_limit=deadline, hint=start, seed=seed)
    except CapabilityError:
        return
    unit = form.unit if problem.objective is MakespanObjective.WALL_CLOCK else 1
    objective = result.objective
    if objective is not None and not result.violations and objective * unit < hand.objective:
        hand.improve(objective * unit, result.required_solution())
    if result.bound is not None and result.bound_kind is BoundKind.INTEGER:
        hand.raise_bound(result.bound * unit, "cp-sat")
