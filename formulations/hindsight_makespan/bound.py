"""Integer bounds on the hindsight makespan program that need no solver.

Both parts of the wall-clock time are bounded apart, in ``m = G·B`` slots:

* *Busy steps.* Without the idle steps, a schedule packs requests as jobs of length o_i on m
  machines; so there are at least ``max(⌈Σ o / m⌉, max o, ...)`` busy steps, see `packing_bound`.
  If work is conserved, every step in the union of the intervals ``[a_i, a_i + o_i)`` is busy too:
  request i runs then, or waits because all slots are full.
* *Sum of peaks.* A peak is at least a G-th of the step's load: ``Σ_k max_g L_g(k) >= ⌈work / G⌉``.
  And in layers: the sum of peaks is the number of pairs of a step and a height θ below its peak.
  For a given θ, the steps at which some request alone exceeds θ are at least as many as it takes
  to pack the parts of the requests above θ, again as jobs on m machines: a request grows, so its
  part above θ is its last ``len_i(θ)`` steps, one piece. With θ = 0 these are the busy steps; with
  one request they are its own loads; the heights up to the longest part of each θ are the
  requests aligned at their ends (the drain). For B = 1 the layers contain the first bound.

With a memory no more than `MakespanProblem.most_running` requests run at once, which stands for
``m``, and no step holds more than all memories: ``⌈work / Σ κ_g⌉`` busy steps at least.

For the latency, completions in order of size are bounded one by one (`latency_bound`).

Workers do not matter for latency in steps: any set of requests of which never more than m run at
once can be given slots, so this is the scheduling of jobs on m identical machines.
"""

import heapq
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, chain

import numpy as np

from formulations.arrays import IntArray
from formulations.hindsight_makespan.problem import MakespanObjective, MakespanProblem


def latency_bound(problem: MakespanProblem) -> int:
    """Return a lower bound on ``Σ (completion − a_i)`` of any schedule of these requests.

    The greater of two bounds on the sum of completions:

    * Let a step do m tokens of whatever requests have arrived, even of one alone. Then shortest
      remaining first completes the most requests by any step, so the r-th completion of any
      schedule is no earlier than its r-th. Nor is it earlier than the r-th of the ``a_i + o_i``.
    * With all arrivals moved to the first, shortest first is optimal on identical machines.

    With a memory, m is `MakespanProblem.most_running`, and there is a third: the r requests that
    complete first have held at least the r least works, of which a step holds ``Σ κ_g`` at most.
    """
    arrivals, outputs = problem.arrival.tolist(), problem.output.tolist()
    m = problem.most_running
    alone = sorted(a + o for a, o in zip(arrivals, outputs, strict=True))
    shared = zip(_shared_completions(arrivals, outputs, m), alone, strict=True)
    one_by_one = sum(max(pair) for pair in shared)
    first = min(arrivals)
    together = first * len(outputs) + sum(shortest_first_completions(outputs, m))
    held = 0 if problem.memory is None else first * len(outputs) + sum(_held_completions(problem))
    return int(max(one_by_one, together, held) - sum(arrivals))


def _held_completions(problem: MakespanProblem) -> Iterator[int]:
    """Yield steps that no schedule from step 0 completes 1, 2, ... requests before, by memory."""
    assert problem.memory is not None
    memory = int(problem.memory.sum())
    rows = zip(problem.prompt.tolist(), problem.output.tolist(), strict=True)
    works = sorted(s * o + o * (o - 1) // 2 for s, o in rows)
    return (-(-total // memory) for total in accumulate(works))


def shortest_first_completions(outputs: list[int], machines: int) -> list[int]:
    """Return the completions of shortest-first on machines that are free at 0, ascending jobs."""
    ends: list[int] = []
    for r, output in enumerate(sorted(outputs)):
        ends.append(output + (ends[r - machines] if r >= machines else 0))
    return ends


def _shared_completions(arrivals: list[int], outputs: list[int], m: int) -> list[int]:
    """Return the completion steps of shortest remaining first at m tokens per step, ascending."""
    coming = sorted(zip(arrivals, outputs, strict=True), reverse=True)
    remaining: list[int] = []
    ends: list[int] = []
    # The clock counts tokens: m of them make a step.
    now = 0
    while coming or remaining:
        if not remaining:
            now = max(now, m * coming[-1][0])
        while coming and m * coming[-1][0] <= now:
            heapq.heappush(remaining, coming.pop()[1])
        tokens = heapq.heappop(remaining)
        until = m * coming[-1][0] if coming else now + tokens
        if now + tokens <= until:
            now += tokens
            ends.append(-(-now // m))
        else:
            heapq.heappush(remaining, tokens - (until - now))
            now = until
    return ends


def segments(problem: MakespanProblem) -> list[list[int]]:
    """Split the requests, in order of arrival, where all earlier ones have surely completed.

    When work is conserved, the requests that arrive before some step a end by ``max_i (a_i +
    ⌊R_i / m⌋ + o_i)`` among themselves (`latest_starts`), whatever arrives from a on. If
    that is at most a, they never meet the others: the optimum is the sum of the parts' optima.
    For latency without conservation the same holds with their last arrival in place of a_i: their
    own optimum ends by then, and the sum of the parts' optima is a bound that it meets. With a
    memory the sum of all outputs stands for its m-th part.

    Parameters
    ----------
    problem : MakespanProblem
        Data; for the free wall-clock time, which ignores arrivals, the split says nothing.

    Returns
    -------
    list of list of int
        Requests of each part.
    """
    arrivals, outputs = problem.arrival.tolist(), problem.output.tolist()
    parts: list[list[int]] = []
    total = latest = longest = 0
    shared = problem.total_slots if problem.memory is None else 1
    for i in sorted(range(problem.num_requests), key=lambda i: (arrivals[i], i)):
        # ⌊R_i / m⌋ <= ⌊total / m⌋, so this is no earlier than the steps of the proof.
        if not parts or latest + total // shared <= arrivals[i]:
            parts.append([])
            total = latest = longest = 0
        parts[-1].append(i)
        total += outputs[i]
        longest = max(longest, outputs[i])
        end = arrivals[i] + (outputs[i] if problem.work_conserving else longest)
        latest = max(latest, end)
    return parts


def part(problem: MakespanProblem, members: list[int]) -> MakespanProblem:
    """Return the problem of some of the requests."""
    return replace(
        problem,
        arrival=problem.arrival[members],
        prompt=problem.prompt[members],
        output=problem.output[members],
    )


#: Largest load at which heights are counted one by one.
_MAX_HEIGHT = 2**22
#: Most (height, request) cells for the pairs of `packing_bound` in every layer.
_MAX_CELLS = 5_000_000


def lower_bound(problem: MakespanProblem) -> int:
    """Return an integer lower bound on the objective, scaled like it."""
    if problem.num_requests == 0:
        return 0
    if problem.objective is MakespanObjective.LATENCY:
        return sum(latency_bound(part(problem, members)) for members in segments(problem))
    per_step, per_token = problem.rates
    # Free schedules ignore arrivals; conserving ones never mix these parts.
    split = segments(problem) if problem.work_conserving else [list(range(problem.num_requests))]
    parts = [part(problem, members) for members in split]
    steps = sum(busy_steps_bound(each) for each in parts)
    peaks = sum(peaks_bound(each) for each in parts)
    return per_step * steps + per_token * peaks + problem.offset


def busy_steps_bound(problem: MakespanProblem) -> int:
    """Return a lower bound on the number of busy steps."""
    packed = packing_bound(problem.output, problem.most_running)
    if problem.memory is not None:
        packed = max(packed, -(-problem.work // int(problem.memory.sum())))
    if not problem.work_conserving:
        return packed
    ends = accumulate(np.sort(problem.arrival).tolist(), max)
    order = np.argsort(problem.arrival, kind="stable")
    covered = reach = 0
    for begin, i in zip(ends, order.tolist(), strict=True):
        end = begin + int(problem.output[i])
        covered += max(0, end - max(begin, reach))
        reach = max(reach, end)
    return max(packed, covered)


def peaks_bound(problem: MakespanProblem) -> int:
    """Return a lower bound on ``Σ_k max_g L_g(k)`` [tokens]."""
    volume = -(-problem.work // problem.workers)
    peak = int((problem.prompt + problem.output).max()) - 1
    longest = int(problem.output.max())
    if max(peak, longest) > _MAX_HEIGHT:
        single = problem.prompt.astype(object) * problem.output.astype(object)
        growth = problem.output.astype(object) * (problem.output.astype(object) - 1) // 2
        return max(volume, int((single + growth).max()))
    heights = np.maximum(_volumes(problem, peak), _longest_parts(problem, peak))
    if peak * problem.num_requests <= _MAX_CELLS:
        heights = np.maximum(heights, _pairs(problem, peak))
    return max(volume, int(heights.sum()))


def packing_bound(lengths: IntArray, machines: int) -> int:
    """Return a lower bound on the makespan of jobs on identical machines.

    The greatest of the mean load, the longest job, and, of the ``(q − 1)·m + 1`` longest jobs for
    each q, the sum of the q shortest: q of them share a machine.
    """
    ordered = sorted(lengths.tolist(), reverse=True)
    sums = list(accumulate(ordered, initial=0))
    rounds = range(0, len(ordered), machines)
    shared = (sums[last + 1] - sums[last - last // machines] for last in rounds)
    return max(chain(shared, [-(-sums[-1] // machines)]), default=0)


def _volumes(problem: MakespanProblem, peak: int) -> IntArray:
    """Return the steps that the request loads above each height 0..peak-1 fill at least."""
    change = np.zeros(peak + 2, dtype=np.int64)
    np.add.at(change, problem.prompt, 1)
    np.add.at(change, problem.prompt + problem.output, -1)
    # entries[v]: single loads of v tokens; above[θ]: those of more than θ.
    entries = change.cumsum()[: peak + 1]
    above = entries[::-1].cumsum()[::-1][1:]
    return -(-above // problem.most_running)


def _longest_parts(problem: MakespanProblem, peak: int) -> IntArray:
    """Return ``max_i len_i(θ)`` for each height θ."""
    best = np.zeros(int(problem.output.max()) + 1, dtype=np.int64)
    np.maximum.at(best, problem.output, problem.prompt + problem.output - 1)
    # drain[j]: largest load of a request that has j steps to go after this one; falls strictly.
    drain = np.maximum.accumulate(best[::-1])[::-1][1:] - np.arange(len(best) - 1)
    return len(drain) - np.searchsorted(drain[::-1], np.arange(peak), side="right")


def _pairs(problem: MakespanProblem, peak: int) -> IntArray:
    """Return, per height, the two shortest of the m + 1 longest parts: they share a slot."""
    m = problem.most_running
    if problem.num_requests <= m:
        return np.zeros(peak, dtype=np.int64)
    heights = np.arange(peak)[:, None]
    last = (problem.prompt + problem.output - 1)[None, :] - heights
    parts = -np.sort(-np.clip(last, 0, problem.output[None, :]), axis=1)
    return np.asarray(parts[:, m - 1] + parts[:, m])
