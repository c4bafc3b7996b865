"""Tables of the rules that a run must keep, and what these count by."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from formulations.arrays import BoolArray, IntArray

if TYPE_CHECKING:
    from bfio.decode.replay_record import Replay

#: Relative error allowed in a duration or a sum of two times.
ROUNDING = 1e-12

Rule: TypeAlias = "Callable[[Replay], int]"


class RuleTable(dict[str, Rule]):
    """Rules by name, each of which counts the requests, steps or cells at fault."""

    def rule(self, name: str) -> Callable[[Rule], Rule]:
        """Register the decorated function; the first line of its docstring says what it checks."""

        def register(rule: Rule) -> Rule:
            self[name] = rule
            return rule

        return register


def count(at_step: IntArray, steps: int) -> IntArray:
    """Return how many requests have each step; -1 and steps beyond the end count nowhere."""
    inside = at_step[(at_step >= 0) & (at_step < steps)]
    counts: IntArray = np.bincount(inside, minlength=steps).astype(np.int64)
    return counts


def grouped(at_step: IntArray, who: IntArray, steps: int) -> list[list[int]]:
    """Return who has each step."""
    groups: list[list[int]] = [[] for _ in range(steps)]
    for step, request in zip(at_step.tolist(), who.tolist(), strict=True):
        if 0 <= step < steps:
            groups[step].append(request)
    return groups


def running_total(at_step: IntArray, steps: int) -> IntArray:
    """Return how many requests have each step or one before."""
    totals: IntArray = np.cumsum(count(at_step, steps))
    return totals


def number(flags: BoolArray) -> int:
    """Return how many of them are true."""
    return int(np.count_nonzero(flags))
