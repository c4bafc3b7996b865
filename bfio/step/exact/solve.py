"""Solve a step problem exactly: bound, construct, search; CP-SAT for the remaining gap."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from bfio.common.kernel_groups import is_worthwhile
from bfio.common.kernels import interpreted
from bfio.step.exact.benefit import with_benefit, without_idle_benefit
from bfio.step.exact.compact import can_be_compact, is_compact, solve_compact
from bfio.step.exact.effort import CALL, Effort, Phase, skipped_phases
from bfio.step.exact.fill import FillProblem, reduce_to_fill
from bfio.step.exact.prepare import prepare, prepare_windows
from bfio.step.exact.result import ExactResult, Seconds
from formulations.backends import backend
from formulations.deadline import OPERATIONS, Deadline, OutOfTime, TimeLimit, checked_work_limit
from formulations.errors import CapabilityError
from formulations.formulation import is_feasible
from formulations.results import BoundKind, Termination, TieRule
from formulations.scalars import integer
from formulations.step.bound import lower_bound
from formulations.step.certificate import Certificate
from formulations.step.check import brute_force, violations
from formulations.step.problem import StepProblem

#: Nodes of the enumeration by default, some tens of milliseconds.
DEFAULT_NODE_LIMIT = 200_000
#: Assignments of a tiny problem, which is enumerated before another solver is asked: 0.2 s.
_TINY = 20_000
#: A tiny problem is enumerated at once where a request adds more than this [tokens], since tables
#: grow with loads.
_LARGE_LOAD = 100_000
#: A step of so few requests times workers, and of so few tokens, is tried in plain
#: Python before kernels are loaded or compiled, with a limit of its own [ticks]; what loaded
#: kernels would save on such a step [s].
_SMALL_CELLS, _SMALL_TOKENS = 400, 20_000
_SMALL_TICKS = 1_000
_SAVED_S = 0.02


def solve_exact(
    problem: StepProblem,
    *,
    time_limit: TimeLimit = None,
    work_limit: int | None = None,
    hint: Sequence[int | None] | None = None,
    fallback: str | None = "cp-sat",
    node_limit: int | None = None,
    skip: Iterable[str] = (),
) -> ExactResult:
    """Solve one step problem, with a proof of optimality.

    Parameters
    ----------
    problem : StepProblem
        The step problem. Problems with a one-dimensional core (`bfio.step.exact.fill`) have a
        special method; all others use `bfio.step.exact.windows`. With benefits, both methods give
        a bound only, and the fallback closes the gap.
    time_limit : float or Deadline, optional
        Wall-clock seconds.
    work_limit : int, optional
        Ticks (`formulations.deadline`).
    hint : sequence of int or None, optional
        A feasible assignment to start from; an infeasible one is ignored.
    fallback : str, optional
        Backend that closes a remaining gap; None leaves the gap. Tiny problems are enumerated
        instead.
    node_limit : int, optional
        Limit on the nodes of the enumeration; 0 skips the enumeration.
    skip : iterable of str, optional
        Phases to skip (`bfio.step.exact.effort.Phase`), for ablation studies.

    Returns
    -------
    ExactResult
        The result is proven unless a limit is reached or there is no fallback. It is
        deterministic, even at the work limit, unless ``stopped_by_time`` is true.

    Raises
    ------
    InputError
        If a limit is negative, or the fallback or a phase is unknown.
    """
    if node_limit is not None:
        integer(node_limit, "node_limit")
    if fallback is not None:
        backend(fallback, "fallback")
    skipped = skipped_phases(skip)
    clock = Deadline.of(time_limit)
    began = time.perf_counter()
    work_limit = checked_work_limit(work_limit)
    problem = without_idle_benefit(problem)
    of_loads = problem.without_benefit()
    core = reduce_to_fill(of_loads)
    start = None
    if hint is not None and is_feasible(hint, lambda each: violations(problem, each)):
        start = tuple(hint)
    nodes = DEFAULT_NODE_LIMIT if node_limit is None else node_limit

    def own_method(effort: Effort, closes: str | None) -> ExactResult:
        if core is None:
            return _windowed(of_loads, start, effort, closes, skipped)
        return _searched(of_loads, core, start, effort, closes, nodes, skipped)

    def solved(effort: Effort) -> ExactResult:
        if problem.num_admitted == 0:
            return _settled(problem)
        if (
            fallback is not None
            and problem.contribution.max(initial=0) > _LARGE_LOAD
            and (tiny := _enumerated(problem, effort)) is not None
        ):
            return tiny
        if problem.benefit is None:
            return own_method(effort, fallback)
        return _beneficial(problem, own_method(effort, None), start, effort, fallback)

    result, compile_s = None, 0.0
    if core is not None and _is_worth_a_try(problem, work_limit):
        effort = Effort(clock, _SMALL_TICKS)
        effort.spend(CALL)
        with interpreted():
            tried = own_method(effort, None)
        result = tried if tried.proven else None
    if result is None:
        reduced = time.perf_counter()
        if problem.num_admitted > 0:
            with clock.stopped():
                if core is None:
                    prepare_windows()
                if core is not None or problem.benefit is not None:
                    prepare()
        compile_s = time.perf_counter() - reduced
        effort = Effort(clock, work_limit)
        effort.spend(CALL)
        result = solved(effort)
    spent = result.seconds
    left = time.perf_counter() - began - compile_s - spent.total
    return replace(
        result,
        # Reading the problem counts as search.
        seconds=replace(spent, search=spent.search + left, compile=compile_s),
        ticks=effort.ticks,
        stopped_by_time=effort.stopped_by_time,
        stopped_by_work=effort.stopped_by_work,
    )


def is_small(problem: StepProblem) -> bool:
    """Return whether plain Python usually solves a step faster than kernels load."""
    return (
        problem.num_requests * problem.num_workers <= _SMALL_CELLS
        and int(problem.base.sum() + problem.contribution.sum()) <= _SMALL_TOKENS
    )


def _is_worth_a_try(problem: StepProblem, work_limit: int | None) -> bool:
    """Return whether a step is so small that plain Python may finish before kernels load."""
    return (
        problem.num_admitted > 0
        and problem.benefit is None
        and is_small(problem)
        and (work_limit is None or work_limit >= _SMALL_TICKS)
        and prepare.cache_info().currsize == 0
        and not is_worthwhile("exact", _SAVED_S)
    )


def _searched(
    problem: StepProblem,
    core: FillProblem,
    start: tuple[int | None, ...] | None,
    effort: Effort,
    fallback: str | None,
    nodes: int,
    skipped: Collection[Phase],
) -> ExactResult:
    """Solve a problem with a one-dimensional core; the fallback closes a gap."""
    from bfio.step.exact.fill_search import FillSearch
    from bfio.step.exact.pack_search import PackSearch

    search = (PackSearch if core.admits_all else FillSearch)(core, effort, skipped)
    own = search.run(start, nodes)

    def compact() -> ExactResult:
        # The peaks of the core are those of its first step that counts.
        peaks = search.open_peaks() if problem.weights[0] > 0 else None
        return solve_compact(problem, own, effort, first_peak=peaks)

    return _closed(problem, own, effort, fallback, compact)


def _windowed(
    problem: StepProblem,
    start: tuple[int | None, ...] | None,
    effort: Effort,
    fallback: str | None,
    skipped: Collection[Phase],
) -> ExactResult:
    """Solve a problem without a one-dimensional core; the fallback closes a gap."""
    from bfio.step.exact.windows.solve import solve_window

    own = solve_window(problem, start, effort, skipped)
    if own is None:
        tiny = None if fallback is None or effort.is_over else _enumerated(problem, effort)
        return _delegated(problem, start, effort, fallback) if tiny is None else tiny
    return _closed(problem, own, effort, fallback)


def _beneficial(
    problem: StepProblem,
    of_loads: ExactResult,
    start: tuple[int | None, ...] | None,
    effort: Effort,
    fallback: str | None,
) -> ExactResult:
    """Solve a problem with benefits from the result without; the fallback closes a gap."""
    own = with_benefit(problem, of_loads, start, effort)
    if own.objective is None or not can_be_compact(problem):
        return _closed(problem, own, effort, fallback)
    compact = partial(solve_compact, problem, own, effort, least_of_loads=of_loads.bound)
    return _closed(problem, own, effort, fallback, compact)


def _closed(
    problem: StepProblem,
    own: ExactResult,
    effort: Effort,
    fallback: str | None,
    compact: Callable[[], ExactResult] | None = None,
) -> ExactResult:
    """Close the gap of our own result: a tiny problem is enumerated, others are delegated.

    If there is a ``compact`` form, CP-SAT solves that.
    """
    if own.proven or own.infeasible or fallback is None or effort.is_over:
        return own
    other = _enumerated(problem, effort)
    if other is None:
        if effort.is_over:
            return own
        effort.clock.found(lambda: replace(own, stopped_by_time=True).to_step_result(problem))
        if compact is not None and fallback == "cp-sat":
            other = compact()
        else:
            other = _delegated(problem, own.assignment, effort, fallback)
    return other if own.objective is None else _merged(own, other)


def _enumerated(problem: StepProblem, effort: Effort) -> ExactResult | None:
    """Enumerate all assignments of a tiny problem; None if too large or out of time."""
    size = (problem.num_workers + 1) ** problem.num_requests
    if size > _TINY:
        return None
    began = time.perf_counter()
    effort.spend(size * CALL // 10)
    try:
        with effort.clock.interrupting():
            best = brute_force(problem)
    except OutOfTime:
        return None
    seconds = Seconds(fallback=time.perf_counter() - began)
    if best is None:
        bound = lower_bound(problem)
        return ExactResult("brute-force", None, None, bound, seconds=seconds, infeasible=True)
    value, assignment = best
    return ExactResult("brute-force", tuple(assignment), value, value, seconds=seconds)


def _settled(problem: StepProblem) -> ExactResult:
    """Return the result of a step that admits no request."""
    assignment = (None,) * problem.num_requests
    if violations(problem, assignment):
        return ExactResult("closed-form", None, None, lower_bound(problem), infeasible=True)
    value = problem.objective_value(assignment)
    return ExactResult(
        method="closed-form",
        assignment=assignment,
        objective=value,
        bound=value,
        certificate=Certificate("shares", value),
        tie_rule=TieRule.LEXICOGRAPHIC,
    )


def _merged(own: ExactResult, other: ExactResult) -> ExactResult:
    """Combine two results: the better assignment, the better bound, the sum of times.

    The fallback may have searched only for objectives below ours. So its bound is valid up to our
    objective, and if it finds nothing, our assignment is optimal.
    """
    assert own.objective is not None
    assert own.bound is not None
    seconds = replace(own.seconds, fallback=other.seconds.fallback)
    bound = max(own.bound, min(own.objective, own.bound if other.bound is None else other.bound))
    # Of equal ones ours stays, whichever the fallback met first.
    if other.objective is None or other.objective >= own.objective:
        other = replace(other, assignment=own.assignment, objective=own.objective)
    # A bound that the fallback has not raised is still ours to certify.
    certificate = own.certificate if bound == own.bound else None
    return replace(other, bound=bound, certificate=certificate, seconds=seconds, nodes=own.nodes)


def _delegated(
    problem: StepProblem,
    start: tuple[int | None, ...] | None,
    effort: Effort,
    fallback: str | None,
) -> ExactResult:
    """Solve a problem without a one-dimensional core by the fallback."""
    from formulations.step.solver import solve

    value = None if start is None else problem.objective_value(start)
    own = ExactResult("closed-form", start, value, lower_bound(problem))
    if own.proven or fallback is None:
        return own
    if fallback == "cp-sat" and is_compact(problem) and problem.num_admitted > 0:
        closed = solve_compact(problem, own, effort)
        return closed if start is None else _merged(own, closed)
    began = time.perf_counter()
    ours = replace(own, stopped_by_time=True).to_step_result(problem)
    # Until the fallback has something better, ours is what is known.
    watched = effort.clock.mapped(
        lambda found: ours if found.objective is None else replace(found, method="exact")
    )
    try:
        found = solve(
            problem,
            backend=fallback,
            time_limit=watched,
            work_limit=effort.ticks_left,
            hint=start,
        )
    except CapabilityError:
        if start is None:
            raise
        # Numbers beyond what the fallback takes: ours is the answer.
        return own
    effort.spend((found.ticks or 0) * OPERATIONS)
    effort.stopped_by_time |= found.termination is Termination.TIME_LIMIT
    effort.stopped_by_work |= found.termination is Termination.WORK_LIMIT
    return ExactResult(
        method=found.method,
        assignment=found.assignment,
        objective=found.objective,
        bound=found.bound if found.bound_kind is BoundKind.INTEGER else own.bound,
        seconds=Seconds(fallback=time.perf_counter() - began),
        tie_rule=found.tie_rule,
        infeasible=found.termination is Termination.INFEASIBLE,
    )
