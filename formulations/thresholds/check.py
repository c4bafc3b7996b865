"""The checkers of thresholds, and a brute-force oracle, independent of the solvers.

`certified_memory` derives a lower bound on the memory from the conditions alone. The conditions
bound each entry from below by a function that increases in all entries
(`formulations.thresholds.conditions`). Applied to a vector below every solution, they give another
vector below every solution. Iteration from the all-ones vector ends at the least solution. Unlike
`least_thresholds`, which is tested against it, this iteration skips no step.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import ceil, floor, prod

from formulations.errors import CapabilityError, InputError
from formulations.thresholds.conditions import ThresholdProblem, policy_memory
from formulations.thresholds.problem import (
    NestedProblem,
    PromptGroup,
    TimeVaryingProblem,
    WaitProblem,
)

#: Largest number of rounds; loads near 1 need many.
_MAX_ROUNDS = 200_000
#: Largest number of vectors that are enumerated.
_MAX_VECTORS = 2_000_000


def certified_memory(problem: ThresholdProblem) -> int:
    """Return the least memory of all feasible thresholds [tokens].

    Raises
    ------
    InputError
        If the load is 1 or more (no thresholds are feasible) or too close to 1.
    """
    conditions = problem.conditions
    if problem.load >= 1:
        raise InputError("load", "1 or more: no thresholds are feasible", "lower the rates")
    vector = (1,) * len(problem.weights)
    for _ in range(_MAX_ROUNDS):
        following = conditions.next_vector(vector)
        if following == vector:
            return policy_memory(problem.weights, vector)
        vector = following
    raise InputError("load", f"too close to 1 for {_MAX_ROUNDS:,} rounds", "lower the rates")


def threshold_violations(problem: ThresholdProblem, thresholds: Sequence[int]) -> dict[str, int]:
    """Return each violated constraint of any threshold problem and the amount."""
    if isinstance(problem, WaitProblem):
        return wait_violations(problem, thresholds)
    if isinstance(problem, NestedProblem):
        return nested_violations(problem, thresholds)
    assert isinstance(problem, TimeVaryingProblem)
    return time_varying_violations(problem, thresholds)


def wait_violations(problem: WaitProblem, thresholds: Sequence[int]) -> dict[str, int]:
    """Return each violated constraint of the WAIT program and the amount.

    Returns
    -------
    dict of str to int
        Empty for a solution. ``served[j]`` is the amount by which the threshold of class j is too
        small for (9), ``memory`` the excess [tokens], ``thresholds[j]`` an entry that is not a
        positive integer.
    """
    if violated := _shape(thresholds, len(problem.fluid.classes)):
        return violated
    classes, worker = problem.fluid.classes, problem.fluid.workers[0]
    memory = sum(
        n * ((kind.output + 1) * kind.prompt + _sum_to(kind.output))
        for n, kind in zip(thresholds, classes, strict=True)
    )
    time = worker.d0 + worker.d1 * memory
    for j, (n, kind) in enumerate(zip(thresholds, classes, strict=True)):
        _require(violated, f"served[{j}]", n, kind.rate * time, strict=problem.strict)
    if problem.within_memory and memory > worker.memory:
        violated["memory"] = memory - worker.memory
    return violated


def nested_violations(problem: NestedProblem, thresholds: Sequence[int]) -> dict[str, int]:
    """Return each violated constraint of the Nested WAIT program and the amount.

    Returns
    -------
    dict of str to int
        Empty for a solution. ``first`` and ``drift[i]`` are the amounts by which the threshold of
        segment 1, or i = 2..L, is too small for (10), prefixed with ``groups[g].`` if there are
        several prompt lengths; ``memory`` is the excess [tokens].
    """
    if violated := _shape(thresholds, sum(len(group.ends) for group in problem.groups)):
        return violated
    parts, start = [], 0
    for group in problem.groups:
        parts.append(thresholds[start : start + len(group.ends)])
        start += len(group.ends)
    memory = sum(_full(g, part) for g, part in zip(problem.groups, parts, strict=True))
    time = problem.worker.d0 + problem.worker.d1 * memory
    for g, (group, part) in enumerate(zip(problem.groups, parts, strict=True)):
        place = f"groups[{g}]." if len(parts) > 1 else ""
        reached = [_rate_from(group, entry) for entry in group.entries]
        _require(violated, f"{place}first", part[0], reached[0] * time, strict=problem.strict)
        for i in range(1, len(part)):
            needed = part[i - 1] * reached[i] / reached[i - 1]
            _require(violated, f"{place}drift[{i + 1}]", part[i], needed, strict=problem.strict)
    if problem.within_memory and memory > problem.worker.memory:
        violated["memory"] = memory - problem.worker.memory
    return violated


def time_varying_violations(
    problem: TimeVaryingProblem, thresholds: Sequence[int]
) -> dict[str, int]:
    """Return each violated part of (13) and the amount, named as by `nested_violations`.

    For sinusoidal rates, upper bounds replace the suprema of (13), see `VaryingRates`.
    """
    group, profile = problem.group, problem.profile
    if violated := _shape(thresholds, len(group.ends)):
        return violated
    memory = _full(group, thresholds)
    time = problem.worker.d0 + problem.worker.d1 * memory
    most = profile.largest_window(range(len(group.outputs)), time)
    _require(violated, "first", thresholds[0], most, strict=True)
    for i in range(1, len(thresholds)):
        here = [j for j, o in enumerate(group.outputs) if group.entries[i - 1] <= o]
        later = [j for j in here if group.outputs[j] > group.ends[i - 1]]
        share = profile.largest_share(later, [j for j in here if j not in later])
        _require(
            violated, f"drift[{i + 1}]", thresholds[i], thresholds[i - 1] * share, strict=True
        )
    if problem.within_memory and memory > problem.worker.memory:
        violated["memory"] = memory - problem.worker.memory
    return violated


def _full(group: PromptGroup, thresholds: Sequence[int]) -> int:
    """Return the tokens of one prompt length in a full batch."""
    return sum(
        n * ((end - entry + 1) * group.prompt + _sum_to(end) - _sum_to(entry - 1))
        for n, entry, end in zip(thresholds, group.entries, group.ends, strict=True)
    )


def _rate_from(group: PromptGroup, entry: int) -> Fraction:
    """Return the rate of the requests that reach stage ``entry`` [1/s]."""
    rates = zip(group.outputs, group.rates, strict=True)
    return sum((rate for output, rate in rates if output >= entry), Fraction(0))


def _require(
    violated: dict[str, int], name: str, value: int, bound: Fraction, *, strict: bool
) -> None:
    needed = floor(bound) + 1 if strict else ceil(bound)
    if value < needed:
        violated[name] = needed - value


def _shape(thresholds: Sequence[int], length: int) -> dict[str, int]:
    if len(thresholds) != length:
        return {"thresholds": abs(len(thresholds) - length)}
    return {f"thresholds[{j}]": 1 for j, n in enumerate(thresholds) if type(n) is not int or n < 1}


def _sum_to(last: int) -> int:
    """Return ``0 + 1 + ... + last``; 0 for last = -1."""
    return last * (last + 1) // 2


def brute_force(problem: ThresholdProblem) -> tuple[int, ...] | None:
    """Return the thresholds of least memory by enumeration; None if infeasible.

    The enumerated vectors are those up to one known solution, componentwise.

    Raises
    ------
    CapabilityError
        If there are too many vectors.
    """
    if problem.load >= 1:
        return None
    upper = problem.conditions.upper_vector()
    if prod(upper) > _MAX_VECTORS:
        raise CapabilityError(
            "thresholds", f"more than {_MAX_VECTORS:,} vectors to enumerate", "solve with cp-sat"
        )
    weights = problem.weights
    solutions = (
        (policy_memory(weights, vector), vector)
        for vector in product(*(range(1, most + 1) for most in upper))
        if not threshold_violations(problem, vector)
    )
    best = min(solutions, default=None)
    return None if best is None else best[1]
