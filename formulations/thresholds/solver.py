"""Solvers of the threshold and segment programs, and thresholds from a batch limit."""

import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, partial
from math import ceil, floor, isfinite
from typing import Any, ClassVar

from formulations.arrays import FloatArray, integer
from formulations.deadline import Deadline, OutOfTime, TimeLimit
from formulations.errors import CapabilityError, InputError
from formulations.fluid import FluidProblem, RequestClass
from formulations.formulation import Formulation
from formulations.problem_data import member
from formulations.results import ProgramResult, Termination, own_solver
from formulations.scalars import exact_number, plain_number
from formulations.thresholds.buffer import SafetyBuffer, SegmentPlan, all_segments
from formulations.thresholds.check import brute_force, nested_violations, threshold_violations
from formulations.thresholds.conditions import ThresholdProblem, least_thresholds, policy_memory
from formulations.thresholds.problem import NestedProblem, WaitProblem
from formulations.words import Words


@dataclass(frozen=True, kw_only=True)
class ThresholdResult(ProgramResult[Any]):
    """The result of a threshold program; the objective is the memory ``Σ n_i w_i`` [tokens].

    Parameters
    ----------
    thresholds : tuple of int, optional
        Threshold per stage of each class (WAIT) or segment (Nested WAIT); None if infeasible.
    iterations : int
        Rounds of the fixed-point iteration, if that is the method.
    """

    solution_fields: ClassVar[tuple[str, ...]] = ("thresholds",)

    thresholds: tuple[int, ...] | None = None
    iterations: int = 0


@dataclass(frozen=True, kw_only=True)
class SegmentResult(ThresholdResult):
    """The result of the segment program; objective as in `formulations.thresholds.program`.

    Parameters
    ----------
    boundaries : tuple of int, optional
        Last stage of each chosen segment.
    """

    solution_fields = ("thresholds", "boundaries")

    boundaries: tuple[int, ...] | None = None


_BROKEN = {
    "first": "{by} requests too few start for those that arrive during a full batch",
    "drift": "a segment passes on fewer requests than it receives",
    "within": "a full batch takes {by} tokens more than the memory",
}
THRESHOLDS = Words(
    title="thresholds of least memory: WAIT per class, Nested WAIT per prompt length and segment",
    source="fluid paper (arXiv:2504.11320), conditions (9) and (10); it states no program",
    objective="memory of a full batch [tokens]",
    variables={"n": "n(g,i) = threshold per stage of segment i of class or prompt length g"},
    broken=_BROKEN,
)
SEGMENTS = Words(
    title="the segments and thresholds of Nested WAIT of least memory",
    source="fluid paper (arXiv:2504.11320), condition (10) and section 7.2; it states no program",
    objective="memory of a full batch and of the requests between segments [tokens]",
    variables={
        "z": "z(a,b) = 1 if the stages of outputs a to b are one segment",
        "n": "n(a,b) = threshold per stage of the segment of outputs a to b",
    },
    broken=_BROKEN,
)


#: Thresholds of the chosen segments, and the last stage of each.
Choice = tuple[tuple[int, ...], tuple[int, ...]]


class SegmentProgram(Formulation[NestedProblem, Choice, SegmentResult]):
    """The segment program of a `NestedProblem`, whose own boundaries are ignored."""

    result = SegmentResult
    words = SEGMENTS

    def __init__(self, problem: NestedProblem) -> None:
        super().__init__(problem.with_boundaries(problem.group.outputs))
        self.always_feasible = not problem.within_memory and self.problem.load < 1

    @cached_property
    def _finest(self) -> tuple[int, ...] | None:
        """Least thresholds with a boundary at every output."""
        return least_thresholds(self.problem)[0]

    def settled(self, method: str) -> SegmentResult | None:
        """Return the result "infeasible" if the finest segments have no thresholds, else None."""
        if self._finest is not None:
            return None
        return SegmentResult(method=method, termination=Termination.INFEASIBLE)

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.thresholds.program import build_segments

        assert self._finest is not None
        return build_segments(self.problem, batch_and_waiting(self.problem, self._finest))

    def lower_bound(self) -> int:
        """Return the memory of the fluid equilibrium with the finest segments.

        Merging segments only makes requests stay longer, so this bounds every full batch.
        """
        return self.problem.conditions.memory_bound()

    def objective_value(self, solution: Choice) -> int:
        """Return the memory of a full batch and of requests between segments [tokens]."""
        thresholds, boundaries = solution
        return batch_and_waiting(self.problem.with_boundaries(boundaries), thresholds)

    def violations(self, solution: Choice, objective: int | None = None) -> dict[str, int]:
        """Return each violated constraint of a solution and the amount."""
        thresholds, boundaries = solution
        violated = nested_violations(self.problem.with_boundaries(boundaries), thresholds)
        return violated | self._misstated(solution, objective)

    def brute_force(self) -> tuple[int, Choice] | None:
        """Return the least memory over all boundaries; ties go to fewest segments."""
        choices = []
        for candidate in all_segments(self.problem):
            thresholds, _ = least_thresholds(candidate)
            if thresholds is not None and not nested_violations(candidate, thresholds):
                memory = batch_and_waiting(candidate, thresholds)
                ends = candidate.group.ends
                choices.append((memory, len(ends), ends, thresholds))
        if not choices:
            return None
        memory, _, boundaries, thresholds = min(choices)
        return memory, (thresholds, boundaries)

    def solution_at(self, values: FloatArray) -> Choice:
        """Return the segments and thresholds at a point of the standard form."""
        index = self.standard_form.column_index()
        chosen = [(a, b) for a, b in self.model.segments if round(values[index[f"z[{a},{b}]"]])]
        thresholds = tuple(round(values[index[f"n[{a},{b}]"]]) for a, b in chosen)
        return thresholds, tuple(self.problem.group.outputs[b] for _, b in chosen)


def batch_and_waiting(problem: NestedProblem, thresholds: Sequence[int]) -> int:
    """Return (12) without its logarithms: a full batch and waiting requests [tokens]."""
    held = problem.group.chain.held
    waiting = sum(tokens * n for tokens, n in zip(held, thresholds[1:], strict=True))
    return policy_memory(problem.weights, thresholds) + waiting


def solve_segments(
    problem: NestedProblem,
    *,
    method: str = "cp-sat",
    time_limit: TimeLimit = None,
    seed: int = 0,
) -> SegmentResult:
    """Choose segments and thresholds that minimise the memory of full batch and waiting requests.

    Parameters
    ----------
    problem : NestedProblem
        Data; its own boundaries are ignored.
    method : str
        ``cp-sat``, ``highs``, ``pyomo``, ``lp`` or ``brute-force``.
    time_limit : float or Deadline, optional
        Seconds for the backend.
    seed : int
        Random seed of the backend.

    Raises
    ------
    InputError
        If the method is unknown.
    CapabilityError
        If the scaled program exceeds the integer range of a backend.
    """
    return SegmentProgram.solve_by(problem, method, time_limit=time_limit, seed=seed)


Thresholds = tuple[int, ...]


class ThresholdProgram(Formulation[ThresholdProblem, Thresholds, ThresholdResult]):
    """The program of one `ThresholdProblem`."""

    result = ThresholdResult
    words = THRESHOLDS

    def __init__(self, problem: ThresholdProblem) -> None:
        super().__init__(problem)
        # Without the memory limit, every load below 1 has feasible thresholds.
        self.always_feasible = not problem.conditions.within_memory

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.thresholds.program import build

        return build(self.problem)

    def lower_bound(self) -> int:
        """Return the memory of the fluid equilibrium."""
        return self.problem.conditions.memory_bound()

    def objective_value(self, solution: Thresholds) -> int:
        """Return the memory of a full batch [tokens]."""
        return policy_memory(self.problem.weights, solution)

    def violations(self, solution: Thresholds, objective: int | None = None) -> dict[str, int]:
        """Return each violated constraint of a solution and the amount."""
        return threshold_violations(self.problem, solution) | self._misstated(solution, objective)

    def settled(self, method: str) -> ThresholdResult | None:
        """Return the result "infeasible" for a load of 1 or more, else None."""
        if self.problem.load < 1:
            return None
        return ThresholdResult(method=method, termination=Termination.INFEASIBLE)

    def solution_at(self, values: FloatArray) -> Thresholds:
        """Return the thresholds at a point of the standard form."""
        index = self.standard_form.column_index()
        return tuple(round(values[index[f"n[{g},{i}]"]]) for g, i in self.model.segments)

    def found(self, method: str, deadline: Deadline) -> ThresholdResult:
        """Return the result of fixed-point or brute-force, which prove their optimum."""
        began = time.perf_counter()
        try:
            with deadline.interrupting():
                vector, rounds = (
                    least_thresholds(self.problem)
                    if method == "fixed-point"
                    else (brute_force(self.problem), 0)
                )
        except OutOfTime:
            return self._nothing(method, None)
        report: dict[str, Any] = {
            "method": method,
            "seconds": time.perf_counter() - began,
            "solver": own_solver(),
            "proof": "enumeration of all thresholds"
            if method == "brute-force"
            else "iteration from below in rationals, which reaches the least thresholds",
            "iterations": rounds,
        }
        if vector is None or set(self.violations(vector)) == {"memory"}:
            return ThresholdResult(termination=Termination.INFEASIBLE, **report)
        return self.answer(vector, Termination.OPTIMAL, self.objective_value(vector), **report)


def solve(
    problem: ThresholdProblem,
    *,
    method: str = "fixed-point",
    time_limit: TimeLimit = None,
    seed: int = 0,
) -> ThresholdResult:
    """Return the thresholds of least memory.

    Parameters
    ----------
    problem : WaitProblem, NestedProblem or TimeVaryingProblem
        Data.
    method : str
        ``fixed-point`` (least solution by iteration, in rationals), ``brute-force``, or a backend
        for the integer program (constant rates): ``cp-sat``, ``highs``, ``pyomo``,
        ``pyomo:SOLVER``.
    time_limit : float or Deadline, optional
        Wall-clock seconds.
    seed : int
        Random seed of a backend.

    Returns
    -------
    ThresholdResult
        ``INFEASIBLE`` for a load of 1 or more, or if the memory is enforced and too small.

    Raises
    ------
    InputError
        If the method is unknown.
    CapabilityError
        If the scaled program exceeds the integer range of a backend, or is too large to enumerate.
    """
    program = ThresholdProgram(problem)
    clock, names = Deadline.of(time_limit), ("fixed-point", "brute-force")
    own = {name: partial(program.found, name, clock) for name in names}
    return program.solve_by(problem, method, time_limit=clock, seed=seed, own=own)


class BatchRule(StrEnum):
    """How a batch limit B is divided among classes: ``Σ n_j (l'_j + 1) = B`` before rounding."""

    #: ``n_j = B·(λ_j/Σλ)/(l'_j + 1)``, section 6.1: prompts in proportion to rates. ``n_j/λ_j`` is
    #: then smallest for the longest outputs, although (9) has the same bound for all classes.
    PRINTED = "printed"
    #: ``n_j = B·λ_j/Σ λ_i (l'_i + 1)``: ``n_j/λ_j`` is equal for all classes.
    BALANCED = "balanced"


def batch_limit_thresholds(
    classes: Sequence[RequestClass], limit: int, rule: BatchRule = BatchRule.BALANCED
) -> tuple[Fraction, ...]:
    """Return the thresholds of a batch limit by a rule, one per class, not rounded.

    Parameters
    ----------
    classes : sequence of RequestClass
        The arriving classes.
    limit : int
        ``B >= 1`` [prompts].
    rule : BatchRule
        How B is divided.

    Raises
    ------
    InputError
        If the limit is no positive integer.
    """
    size = integer(limit, "limit", minimum=1)
    if member(BatchRule, rule, "rule") is BatchRule.PRINTED:
        total = sum((kind.rate for kind in classes), Fraction(0))
        return tuple(size * kind.rate / total / kind.iterations for kind in classes)
    rates = [kind.rate for kind in classes]
    return _proportional(size, rates, [kind.iterations for kind in classes])


def nested_batch_limit_thresholds(problem: NestedProblem, limit: int) -> tuple[Fraction, ...]:
    """Return ``n_i = B·Λ_i/Σ Λ_k·(stages of segment k)``, thresholds by the ratios of section 6.2.

    These thresholds satisfy (10) only with equality, and after `whole_thresholds` only by chance.
    Queues between segments then have no drift and are unbounded; see
    `corrected_batch_limit_thresholds`.

    Parameters
    ----------
    problem : NestedProblem
        Data.
    limit : int
        ``B >= 1`` [prompts].

    Raises
    ------
    InputError
        If the limit is no positive integer.
    """
    size = integer(limit, "limit", minimum=1)
    stages = [number for chain in problem.conditions.chains for number in chain.stages]
    return _proportional(size, problem.arriving, stages)


def corrected_batch_limit_thresholds(
    problem: NestedProblem, limit: int, slack: object = 0
) -> tuple[int, ...]:
    """Return the largest thresholds within a limit that satisfy the second part of (10) strictly.

    Each n_{i+1} is the least integer above ``P n_i`` and at least ``(1 + slack) P n_i``, but at
    most n_i, since no queue builds up with ``n_{i+1} = n_i``. The first part of (10), a bound on
    the time of a full batch, depends on the worker and is not enforced (`nested_violations`).

    Parameters
    ----------
    problem : NestedProblem
        Data.
    limit : int
        ``B`` [prompts].
    slack : int, float, str or Fraction
        ``>= 0``; larger values shorten the queues between segments.

    Raises
    ------
    InputError
        If no thresholds are within the limit.
    """
    size = integer(limit, "limit", minimum=1)
    factor = 1 + exact_number(slack, "slack")
    stages = problem.group.chain.stages

    def batch(first: int) -> int:
        pairs = zip(_drifting(problem.group.chain.passing, first, factor), stages, strict=True)
        return sum(n * number for n, number in pairs)

    if batch(1) > size:
        raise InputError("limit", f"{size} prompts are too few", f"use {batch(1)} or more")
    # Thresholds and batch size increase with n_1, so bisect over n_1.
    first = bisect_right(range(1, size + 1), size, key=batch)
    return _drifting(problem.group.chain.passing, first, factor)


def _drifting(passing: Sequence[Fraction], first: int, factor: Fraction) -> tuple[int, ...]:
    vector = [first]
    for share in passing:
        passed = share * vector[-1]
        vector.append(max(floor(passed) + 1, min(vector[-1], ceil(factor * passed))))
    return tuple(vector)


def _proportional(
    size: int, rates: Sequence[Fraction], stages: Sequence[int]
) -> tuple[Fraction, ...]:
    total = sum((rate * k for rate, k in zip(rates, stages, strict=True)), Fraction(0))
    return tuple(size * rate / total for rate in rates)


def whole_thresholds(thresholds: Sequence[Fraction]) -> tuple[int, ...]:
    """Return thresholds rounded down, but to at least 1 (the paper states no rounding).

    The limit B is exceeded only if a class would otherwise never start.
    """
    return tuple(max(1, floor(n)) for n in thresholds)


def wait_answer(problem: FluidProblem) -> dict[str, Any]:
    """Return the least thresholds of WAIT, or null with a note on the reason."""
    answer: dict[str, Any] = {}
    note = None
    if len(problem.workers) == 1 and problem.workers[0].d1 * problem.work_rate >= 1:
        note = "the load is 1 or more"
    for name, strict in (("thresholds", False), ("thresholds_strict", True)):
        vector = memory = None
        if len(problem.workers) > 1:
            note = "thresholds are defined for one worker"
        else:
            try:
                result = solve(WaitProblem(problem, strict=strict))
                vector, memory = result.thresholds, result.objective
            except CapabilityError as error:
                # The other parts of the document remain valid.
                note = str(error)
        answer[name] = None if vector is None else list(vector)
        answer[f"{name}_memory"] = memory
        fits = None if memory is None else memory <= problem.workers[0].memory
        answer[f"{name}_fit"] = fits
    return answer | {"thresholds_note": note}


def nested_answer(problem: NestedProblem, plan: SegmentPlan | None = None) -> dict[str, Any]:
    """Return the least thresholds as a JSON document.

    Parameters
    ----------
    problem : NestedProblem
        Data.
    plan : SegmentPlan, optional
        Plan of the problem; without it, the document has no buffers.

    Returns
    -------
    dict
        See docs/fluid.md. Lists of segments concatenate the prompt lengths; ``groups`` has one
        entry per prompt length.

    Raises
    ------
    CapabilityError
        If the iteration does not converge within its limit, see `undecided_answer`.
    """
    problem = problem if plan is None else plan.problem
    result = solve(problem)
    groups = _groups(problem)
    if result.thresholds is not None:
        for row, part in zip(groups, problem.conditions.split(result.thresholds), strict=True):
            row["thresholds"] = list(part)
    memory = result.objective
    answer = _heading(problem, result.termination) | {"policy_memory": memory}
    if result.thresholds is not None:
        answer["thresholds"] = list(result.thresholds)
    if plan is not None:
        answer |= _buffer(plan.buffer)
        memory = plan.memory
        for row, buffer in zip(groups, plan.group_buffers, strict=True):
            row |= {"policy_memory": buffer.policy_memory} | _buffer(buffer)
    fits = None if memory is None else memory <= problem.worker.memory
    return answer | {"fit": fits, "groups": groups}


def undecided_answer(problem: NestedProblem, reason: CapabilityError) -> dict[str, Any]:
    """Return the document of a problem whose thresholds could not be computed, with the reason."""
    heading = _heading(problem, Termination.FAILED) | {"notes": [str(reason)]}
    return heading | {"fit": None, "groups": _groups(problem)}


def _heading(problem: NestedProblem, termination: Termination) -> dict[str, Any]:
    """Return the part of the document that does not need thresholds."""
    return {
        "termination": termination.value,
        "boundaries": [end for group in problem.groups for end in group.ends],
        "thresholds": None,
        "policy_memory": None,
        "load": plain_number(problem.load),
        "notes": [],
    }


def _groups(problem: NestedProblem) -> list[dict[str, Any]]:
    return [
        {"prompt": group.prompt, "boundaries": list(group.ends), "thresholds": None}
        for group in problem.groups
    ]


def _buffer(buffer: SafetyBuffer) -> dict[str, Any]:
    """Return the parts of a buffer; null means unbounded."""
    return {
        "exponents": [theta if isfinite(theta) else None for theta in buffer.exponents],
        "waiting": buffer.waiting,
        "deviation": buffer.deviation,
        "safe_memory": buffer.total,
    }
