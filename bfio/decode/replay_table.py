"""Tables of the rules that a run must keep, and what these count by."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bfio.decode.drift import Drift, DriftReading
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


def profile(drift: Drift, prompt: int, start: int, steps: int, emitted: int = 0) -> IntArray:
    """Return the loads of ``steps`` steps of a request that starts at step ``start`` [tokens].

    Parameters
    ----------
    drift : Drift
        How it grows.
    prompt, start, steps : int
        Its load at the first of these steps [tokens], that step, and how many they are.
    emitted : int
        Tokens that it has emitted before.
    """
    if len(drift.increments) == 1:
        grown: IntArray = prompt + drift.increments[0] * np.arange(steps)
        return grown
    first = start if drift.reading is DriftReading.GLOBAL_STEP else emitted
    period = np.array(drift.increments, dtype=np.int64)
    increments = period[(first + np.arange(steps - 1)) % len(period)]
    loads: IntArray = prompt + np.concatenate(([0], np.cumsum(increments, dtype=np.int64)))
    return loads


def profile_with_rests(
    drift: Drift, prompt: int, start: int, steps: int, emitted: int, rests: list[tuple[int, int]]
) -> IntArray:
    """Return the same of a request that does not grow at some of these steps [tokens].

    Parameters
    ----------
    drift, prompt, start, steps, emitted
        As `profile` takes them.
    rests : list of (int, int)
        First step and end of each time that it rests.
    """
    runs = np.ones(steps - 1, dtype=np.int64)
    for first, end in rests:
        runs[first - start : end - start] = 0
    at = start + np.arange(steps - 1)
    if drift.reading is not DriftReading.GLOBAL_STEP:
        at = emitted + np.cumsum(runs) - runs
    period = np.array(drift.increments, dtype=np.int64)
    gains = runs * period[at % len(period)]
    loads: IntArray = prompt + np.concatenate(([0], np.cumsum(gains, dtype=np.int64)))
    return loads
