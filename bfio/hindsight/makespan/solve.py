"""Solve the hindsight makespan problem: lists, bounds, a search, and CP-SAT on what is left.

Measured on random instances (docs/hindsight-makespan.md), the search proves far more than CP-SAT
wherever a step has few successors, and CP-SAT more than the search where many slots meet free
starts. So the search has the first part of the time, and CP-SAT, from its schedule, the rest.
"""

import time
from dataclasses import replace
from fractions import Fraction
from math import inf

from bfio.hindsight.in_hand import InHand, is_over, seconds_of
from bfio.hindsight.makespan.form import SearchForm, search_form
from bfio.hindsight.makespan.lists import Schedule, best_list
from bfio.hindsight.makespan.prepare import prepare
from bfio.hindsight.makespan.search import StepSearch, is_searchable
from formulations.errors import CapabilityError
from formulations.hindsight_makespan import (
    MakespanObjective,
    MakespanProblem,
    MakespanProgram,
    MakespanResult,
    solve,
)
from formulations.hindsight_makespan.segments import part, segments
from formulations.rationals import MAX_RATIONAL
from formulations.results import BoundKind, Termination, own_solver

#: Widths of successive searches, and most successors of a state.
STAGES = ((100, 5_000), (3_000, 50_000), (100_000, 1_000_000), (1_000_000, 100_000_000))
#: What each bound proves by.
_PROOFS = {
    "bound": "a combinatorial bound, derived in integers",
    "cp-sat": "the bound of CP-SAT, derived in integers",
    "search": "a search to its end, in integers",
}
#: Share of the time limit for the search: where a step has few successors, and where many.
_FEW, _MANY = 0.9, 0.5


def solve_makespan(
    problem: MakespanProblem,
    *,
    method: str = "exact",
    time_limit: float | None = None,
    seed: int = 0,
) -> MakespanResult:
    """Find a schedule of least objective, and the best bound within the limits.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    method : str
        ``exact`` (ours), ``brute-force``, or a backend: ``cp-sat``, ``highs``, ``pyomo``,
        ``pyomo:SOLVER``.
    time_limit : float, optional
        Wall-clock seconds. Without one, ``exact`` runs all its searches but not CP-SAT.
    seed : int
        Random seed of the backends; the search draws nothing.

    Returns
    -------
    MakespanResult
        Of ``exact``: always a schedule and a bound derived in integers, the same in each run
        unless the time limit strikes.

    Raises
    ------
    InputError
        If the method is unknown or the time limit negative.
    CapabilityError
        If the problem is too large for a backend or for enumeration.
    """
    limit = seconds_of(time_limit)
    return MakespanProgram.solve_by(
        problem,
        method,
        time_limit=time_limit,
        seed=seed,
        own={"exact": lambda: _exact(problem, limit, seed)},
    )


def _exact(problem: MakespanProblem, limit: float, seed: int) -> MakespanResult:
    if limit > 0:
        # Loading or compiling kernels is no part of the solve.
        prepare()
    began = time.perf_counter()
    free = problem.objective is MakespanObjective.WALL_CLOCK and not problem.work_conserving
    split = [list(range(problem.num_requests))] if free else segments(problem)
    starts, workers = [0] * problem.num_requests, [0] * problem.num_requests
    hands = []
    for done, members in enumerate(each for each in split if each):
        # What a part leaves over helps the later ones.
        left = max(0.0, began + limit - time.perf_counter()) / (len(split) - done)
        hand = _solved_part(part(problem, members), left, seed)
        hands.append(hand)
        for i, start, worker in zip(members, *hand.schedule, strict=True):
            starts[i], workers[i] = start, worker
    return _result(problem, (tuple(starts), tuple(workers)), hands, limit, began)


def _result(
    problem: MakespanProblem,
    schedule: Schedule,
    hands: list[InHand[Schedule]],
    limit: float,
    began: float,
) -> MakespanResult:
    seconds = time.perf_counter() - began
    late = seconds >= limit
    proofs = sorted({hand.proof for hand in hands})
    return MakespanProgram(problem).answer(
        schedule,
        Termination.TIME_LIMIT if late else Termination.FEASIBLE,
        sum(hand.bound for hand in hands),
        method="exact",
        seconds=seconds,
        solver=own_solver(
            proofs=proofs, parts=len(hands), states=sum(hand.states for hand in hands)
        ),
        proof=" and ".join(_PROOFS[proof] for proof in proofs),
    )


def _solved_part(problem: MakespanProblem, limit: float, seed: int) -> InHand[Schedule]:
    began = time.perf_counter()
    form = search_form(problem)
    objective, schedule = best_list(problem)
    hand = InHand(objective, schedule, form.objective(form.bound()), "bound")
    if hand.is_closed:
        return hand
    if is_searchable(form, form.cost(objective)):
        _search(form, hand, began + _search_share(form) * limit)
    if not hand.is_closed and limit < inf:
        _close_with_cp_sat(form, hand, began + limit, seed)
    return hand


def _search_share(form: SearchForm) -> float:
    """Return the share of the search; free starts in many slots are what CP-SAT does better."""
    crowded = form.slots > 1 and form.lanes > 2
    return _MANY if crowded and not form.conserving else _FEW


def _search(form: SearchForm, hand: InHand[Schedule], deadline: float) -> None:
    """Search wider and wider."""
    search = StepSearch(form)
    for width, most in STAGES:
        if hand.is_closed or is_over(deadline):
            return
        result = search.run(form.cost(hand.objective), width, most, deadline)
        hand.states += result.states
        if result.cost is not None:
            schedule = form.schedule(result.starts, result.lanes)
            hand.improve(form.objective(result.cost), schedule)
        hand.raise_bound(form.objective(result.bound), "search")


def _close_with_cp_sat(
    form: SearchForm, hand: InHand[Schedule], deadline: float, seed: int
) -> None:
    """Let CP-SAT go on from the schedule, with small costs in place of exact times."""
    problem = form.problem
    if max(form.per_step, form.per_token) > MAX_RATIONAL:
        return
    if problem.objective is MakespanObjective.WALL_CLOCK:
        times = Fraction(form.per_step), Fraction(form.per_token)
        problem = replace(problem, step_overhead=times[0], token_time=times[1])
    left = deadline - time.perf_counter()
    if left <= 0:
        return
    try:
        result = solve(problem, backend="cp-sat", time_limit=left, hint=hand.schedule, seed=seed)
    except CapabilityError:
        return
    unit = form.unit if problem.objective is MakespanObjective.WALL_CLOCK else 1
    objective = result.objective
    if objective is not None and not result.violations and objective * unit < hand.objective:
        hand.improve(objective * unit, result.required_solution())
    if result.bound is not None and result.bound_kind is BoundKind.INTEGER:
        hand.raise_bound(result.bound * unit, "cp-sat")
