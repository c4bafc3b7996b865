"""Off-Couple (Algorithm 3): the schedule with which the paper compares regrets.

It is analysis only: it starts from what Algorithm 2 has done up to some round, knows an offline
schedule from there on, and follows it until both are in the same state. Its lemma (it never
exceeds M and catches up) is proven informally, so check what comes out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.policy import Load, fits
from formulations.errors import InputError
from formulations.hindsight_latency import LatencyProblem


@dataclass(frozen=True)
class Coupling:
    """The schedule of Off-Couple.

    Parameters
    ----------
    starts : tuple of int
        Start round of each request.
    copies_from : int
        ``t̂``: round from which it copies the offline schedule, where that has completed all that
        Algorithm 2 had started.
    """

    starts: tuple[int, ...]
    copies_from: int


def off_couple(
    problem: LatencyProblem, online: Sequence[int | None], offline: Sequence[int], now: int
) -> Coupling:
    """Return the schedule of Off-Couple from round ``now``.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    online : sequence of int or None
        Start round of each request that Algorithm 2 has started up to ``now``, the requests it
        starts at ``now`` included; None for all others.
    offline : sequence of int
        A complete schedule that agrees with ``online`` before ``now``.
    now : int
        ``t``.

    Raises
    ------
    InputError
        If a sequence is of the wrong length or the two disagree before ``now``.
    """
    _check(problem, online, offline, now)
    starts = list(online)
    outputs = problem.output.tolist()
    copies_from = max(
        (offline[i] + outputs[i] for i, start in enumerate(online) if start is not None),
        default=now + 1,
    )
    instance = CacheInstance.in_rounds(problem)
    round_ = now
    while any(start is None for start in starts):
        round_ += 1
        if round_ >= copies_from:
            _copy(starts, offline, round_)
        _catch_up(instance, starts, offline, round_)
    return Coupling(tuple(start for start in starts if start is not None), copies_from)


def _copy(starts: list[int | None], offline: Sequence[int], round_: int) -> None:
    for i, start in enumerate(starts):
        if start is None and offline[i] == round_:
            starts[i] = round_


def _catch_up(
    instance: CacheInstance, starts: list[int | None], offline: Sequence[int], round_: int
) -> None:
    """Start by Equation (2) what the offline schedule has started by now."""
    lengths = instance.num_batches.tolist()
    behind = [i for i, start in enumerate(starts) if start is None and offline[i] <= round_]
    loads = _running(instance, starts, round_)
    for i in sorted(behind, key=lambda i: (lengths[i], instance.arrival[i], i)):
        load = (int(instance.first_need[i]), lengths[i])
        if not fits([*loads, load], instance.memory):
            return
        loads.append(load)
        starts[i] = round_


def _running(instance: CacheInstance, starts: Sequence[int | None], round_: int) -> list[Load]:
    loads = []
    columns = zip(instance.first_need.tolist(), instance.num_batches.tolist(), starts, strict=True)
    for need, length, start in columns:
        if start is not None and round_ - start < length:
            loads.append((need + round_ - start, length - (round_ - start)))
    return loads


def _check(
    problem: LatencyProblem, online: Sequence[int | None], offline: Sequence[int], now: int
) -> None:
    n = problem.num_requests
    if len(online) != n or len(offline) != n:
        raise InputError("starts", f"not one per request ({n})", "give None where not started")
    for i, (mine, theirs) in enumerate(zip(online, offline, strict=True)):
        before = theirs if theirs < now else None
        if mine is not None and mine > now:
            raise InputError(f"online[{i}]", f"{mine} is after round {now}", "give None")
        if (mine if mine is not None and mine < now else None) != before:
            raise InputError(
                f"offline[{i}]",
                f"{theirs} differs from {mine} before round {now}",
                "keep the past",
            )
