"""How many segments, and where: plans with their memory, and the best of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from formulations.backends import Limits, ModelProgram, backend, run_backend
from formulations.errors import CapabilityError, InputError
from formulations.results import Termination
from formulations.thresholds.buffer import LogArgument, SafetyBuffer, safety_buffer
from formulations.thresholds.cheapest import cheapest_thresholds
from formulations.thresholds.check import nested_violations
from formulations.thresholds.least import least_thresholds, memory_bound
from formulations.thresholds.nested_problem import NestedProblem
from formulations.thresholds.result import SegmentResult
from formulations.thresholds.wait_problem import policy_memory
from formulations.trust import is_proven, trusted_bound, trusted_termination

#: Most sets of boundaries that are enumerated.
_MAX_CHOICES = 2**16


@dataclass(frozen=True)
class SegmentPlan:
    """Segments, their least thresholds and the memory they need.

    Parameters
    ----------
    boundaries, thresholds : tuple of int
        Last stage, and threshold per stage, of each segment.
    buffer : SafetyBuffer
        The memory of (12) and its parts.
    """

    boundaries: tuple[int, ...]
    thresholds: tuple[int, ...]
    buffer: SafetyBuffer

    @property
    def num_segments(self) -> int:
        """``L``."""
        return len(self.boundaries)

    @property
    def memory(self) -> int | None:
        """Memory that suffices with the asked probability [tokens]; None if none does."""
        return self.buffer.total


def plan(
    problem: NestedProblem,
    *,
    horizon: object,
    probability: object,
    argument: LogArgument = LogArgument.PROOF,
    raised: bool = False,
) -> SegmentPlan | None:
    """Return the plan of a problem's own segments; None if the load is 1 or more with them.

    Parameters
    ----------
    problem : NestedProblem
        Data.
    horizon, probability, argument
        See `safety_buffer`.
    raised : bool
        Whether thresholds may exceed the least ones where that saves memory, see
        `cheapest_thresholds`.
    """
    if raised:
        thresholds = cheapest_thresholds(
            problem, horizon=horizon, probability=probability, argument=argument
        )
    else:
        thresholds, _ = least_thresholds(problem)
    if thresholds is None:
        return None
    buffer = safety_buffer(
        problem, thresholds, horizon=horizon, probability=probability, argument=argument
    )
    return SegmentPlan(problem.ends, thresholds, buffer)


def equal_boundaries(outputs: Sequence[int], num_segments: int) -> tuple[int, ...]:
    """Return the boundaries of L segments of ``m/L`` classes each (section 7.2).

    Raises
    ------
    InputError
        If L does not divide m.
    """
    m = len(outputs)
    if not 1 <= num_segments <= m or m % num_segments:
        raise InputError(
            "segments",
            f"{num_segments} do not divide {m} output lengths evenly",
            "use a divisor, or give boundaries",
        )
    width = m // num_segments
    return tuple(outputs[width - 1 :: width])


def equal_plans(
    problem: NestedProblem,
    counts: Iterable[int],
    *,
    horizon: object,
    probability: object,
    argument: LogArgument = LogArgument.PROOF,
) -> dict[int, SegmentPlan | None]:
    """Return the plan of every number of equal segments: the U-shape of figures 16 to 18."""
    return {
        count: plan(
            problem.with_boundaries(equal_boundaries(problem.outputs, count)),
            horizon=horizon,
            probability=probability,
            argument=argument,
        )
        for count in counts
    }


def all_boundaries(outputs: Sequence[int]) -> list[tuple[int, ...]]:
    """Return every choice of boundaries among the output lengths; the last always is one.

    Raises
    ------
    CapabilityError
        If there are too many.
    """
    inner = outputs[:-1]
    if (choices := 2 ** len(inner)) > _MAX_CHOICES:
        raise CapabilityError(
            "outputs", f"{choices} choices of boundaries", "merge some, or use solve_segments"
        )
    sizes = range(len(inner) + 1)
    return [(*chosen, outputs[-1]) for size in sizes for chosen in combinations(inner, size)]


def best_plan(
    problem: NestedProblem,
    *,
    horizon: object,
    probability: object,
    argument: LogArgument = LogArgument.PROOF,
    raised: bool = False,
) -> SegmentPlan | None:
    """Return the plan of least memory (12) over all boundaries; see `plan` for the parameters.

    Of equal plans the one with fewer segments. None if no choice of segments is stable with a
    bounded buffer.

    Raises
    ------
    CapabilityError
        If there are too many choices to enumerate.
    """
    plans = (
        plan(
            problem.with_boundaries(boundaries),
            horizon=horizon,
            probability=probability,
            argument=argument,
            raised=raised,
        )
        for boundaries in all_boundaries(problem.outputs)
    )
    known = [(p.memory, p) for p in plans if p is not None and p.memory is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def batch_and_waiting(problem: NestedProblem, thresholds: Sequence[int]) -> int:
    """Return the first two terms of (12), the objective of the segment program [tokens]."""
    held = (problem.prompt + end for end in problem.ends[:-1])
    waiting = sum(tokens * n for tokens, n in zip(held, thresholds[1:], strict=True))
    return policy_memory(problem.weights, thresholds) + waiting


def solve_segments(
    problem: NestedProblem,
    *,
    method: str = "cp-sat",
    time_limit: float | None = None,
    seed: int = 0,
) -> SegmentResult:
    """Choose segments and thresholds of least full batch and waiting requests.

    Parameters
    ----------
    problem : NestedProblem
        Data; its own boundaries play no part.
    method : str
        ``cp-sat``, ``highs``, ``pyomo`` or ``brute-force``.
    time_limit : float, optional
        Seconds for the backend.
    seed : int
        Random seed of the backend.

    Raises
    ------
    InputError
        If the method is unknown.
    CapabilityError
        If the scaled program leaves the integers a backend can hold.
    """
    finest = problem.with_boundaries(problem.outputs)
    thresholds, _ = least_thresholds(finest)
    if thresholds is None:
        return SegmentResult(method=method, termination=Termination.INFEASIBLE)
    if method == "brute-force":
        return _enumerated(problem)
    return _solved(finest, method, Limits(time_limit, seed), batch_and_waiting(finest, thresholds))


def _enumerated(problem: NestedProblem) -> SegmentResult:
    choices = []
    for boundaries in all_boundaries(problem.outputs):
        candidate = problem.with_boundaries(boundaries)
        thresholds, _ = least_thresholds(candidate)
        if thresholds is not None and not nested_violations(candidate, thresholds):
            memory = batch_and_waiting(candidate, thresholds)
            choices.append((memory, len(boundaries), boundaries, thresholds))
    if not choices:
        return SegmentResult(method="brute-force", termination=Termination.INFEASIBLE)
    memory, _, boundaries, thresholds = min(choices)
    return SegmentResult(
        method="brute-force",
        termination=Termination.OPTIMAL,
        objective=memory,
        bound=memory,
        thresholds=thresholds,
        boundaries=boundaries,
    )


def _solved(finest: NestedProblem, method: str, limits: Limits, most: int) -> SegmentResult:
    from formulations.thresholds.segment_program import build

    program, outcome, compile_seconds = run_backend(
        backend(method),
        lambda: ModelProgram(build(finest, most)),
        limits,
        lambda program: None,
    )
    boundaries = thresholds = objective = None
    found: dict[str, int] = {}
    if outcome.values is not None:
        index = program.standard_form.column_index()
        values = {name: round(outcome.values[j]) for name, j in index.items()}
        chosen = [(a, b) for a, b in program.model.segments if values[f"z[{a},{b}]"]]
        boundaries = tuple(finest.outputs[b] for _, b in chosen)
        thresholds = tuple(values[f"n[{a},{b}]"] for a, b in chosen)
        candidate = finest.with_boundaries(boundaries)
        objective = batch_and_waiting(candidate, thresholds)
        found = nested_violations(candidate, thresholds)
    # Merging segments only makes requests stay longer, so the finest ones bound the full batch.
    bound, kind = trusted_bound(outcome, memory_bound(finest), objective)
    infeasible = outcome.termination is Termination.INFEASIBLE
    return SegmentResult(
        method=method,
        termination=trusted_termination(
            outcome.termination,
            proven=is_proven(objective, bound, kind),
            broken=bool(found),
            always_feasible=not finest.within_memory,
        ),
        objective=objective,
        bound=None if infeasible else bound,
        bound_kind=kind,
        thresholds=thresholds,
        boundaries=boundaries,
        violations=found,
        seconds=outcome.seconds,
        compile_seconds=compile_seconds,
        solver=outcome.details,
    )
