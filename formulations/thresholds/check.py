"""The checkers of thresholds: they know the problem data and no algorithm."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

from formulations.thresholds.nested_problem import NestedProblem
from formulations.thresholds.wait_problem import WaitProblem


def wait_violations(problem: WaitProblem, thresholds: Sequence[int]) -> dict[str, int]:
    """Return every violated constraint of the WAIT program and by how much.

    Returns
    -------
    dict of str to int
        Empty for a solution. ``served[j]`` is by how many the threshold of class j is too small
        for (9), ``memory`` the excess in tokens, ``thresholds[j]`` what is no positive integer.
    """
    found = _shape(thresholds, len(problem.fluid.classes))
    if found:
        return found
    classes, worker = problem.fluid.classes, problem.fluid.workers[0]
    memory = sum(
        n * ((kind.output + 1) * kind.prompt + _sum_to(kind.output))
        for n, kind in zip(thresholds, classes, strict=True)
    )
    time = worker.d0 + worker.d1 * memory
    for j, (n, kind) in enumerate(zip(thresholds, classes, strict=True)):
        _require(found, f"served[{j}]", n, kind.rate * time, strict=problem.strict)
    if problem.within_memory and memory > worker.memory:
        found["memory"] = memory - worker.memory
    return found


def nested_violations(problem: NestedProblem, thresholds: Sequence[int]) -> dict[str, int]:
    """Return every violated constraint of the Nested WAIT program and by how much.

    Returns
    -------
    dict of str to int
        Empty for a solution. ``first`` and ``drift[i]`` are by how many the threshold of segment
        1, or i = 2..L, is too small for (10); ``memory`` the excess in tokens.
    """
    found = _shape(thresholds, len(problem.ends))
    if found:
        return found
    memory = 0
    reached = []
    for n, entry, end in zip(thresholds, problem.entries, problem.ends, strict=True):
        stages = end - entry + 1
        memory += n * (stages * problem.prompt + _sum_to(end) - _sum_to(entry - 1))
        rates = zip(problem.outputs, problem.rates, strict=True)
        reached.append(sum((rate for output, rate in rates if output >= entry), Fraction(0)))
    time = problem.worker.d0 + problem.worker.d1 * memory
    _require(found, "first", thresholds[0], reached[0] * time, strict=problem.strict)
    for i in range(1, len(thresholds)):
        needed = thresholds[i - 1] * reached[i] / reached[i - 1]
        _require(found, f"drift[{i + 1}]", thresholds[i], needed, strict=problem.strict)
    if problem.within_memory and memory > problem.worker.memory:
        found["memory"] = memory - problem.worker.memory
    return found


def _require(
    found: dict[str, int], name: str, value: int, bound: Fraction, *, strict: bool
) -> None:
    needed = floor(bound) + 1 if strict else ceil(bound)
    if value < needed:
        found[name] = needed - value


def _shape(thresholds: Sequence[int], length: int) -> dict[str, int]:
    if len(thresholds) != length:
        return {"thresholds": abs(len(thresholds) - length)}
    return {f"thresholds[{j}]": 1 for j, n in enumerate(thresholds) if type(n) is not int or n < 1}


def _sum_to(last: int) -> int:
    """Return ``0 + 1 + ... + last``; 0 for last = -1."""
    return last * (last + 1) // 2
