"""Thresholds and memory of WAIT and Nested WAIT for a load: parts of ``bfio fluid``'s output."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from formulations.errors import CapabilityError
from formulations.fluid import FluidProblem
from formulations.rationals import plain_number
from formulations.results import Termination
from formulations.thresholds.buffer import SafetyBuffer
from formulations.thresholds.problem import NestedProblem, WaitProblem
from formulations.thresholds.segments import SegmentPlan
from formulations.thresholds.solver import solve


def wait_answer(problem: FluidProblem) -> dict[str, Any]:
    """Return the least thresholds of WAIT, or null with a note on the reason."""
    answer: dict[str, Any] = {}
    note = None
    if len(problem.workers) == 1 and problem.workers[0].d1 * problem.work_rate >= 1:
        note = "the load is 1 or more"
    for name, strict in (("thresholds", False), ("thresholds_strict", True)):
        vector = memory = None
        if len(problem.workers) > 1:
            note = "they are those of one worker"
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
        "exponents": _finite(buffer.exponents),
        "waiting": buffer.waiting,
        "deviation": buffer.deviation,
        "safe_memory": buffer.total,
    }


def _finite(values: Sequence[float]) -> list[float | None]:
    return [value if isfinite(value) else None for value in values]
