"""Integer bounds on the hindsight makespan program, in closed form.

The two parts of the wall-clock time are bounded separately, with ``m = G·B`` slots:

* *Busy steps.* Without its idle steps, a schedule packs requests as jobs of length o_i on m
  machines, so there are at least ``max(⌈Σ o / m⌉, max o, ...)`` busy steps, see `packing_bound`.
  If work is conserved, every step in the union of the intervals ``[a_i, a_i + o_i)`` is busy too:
  request i runs, or waits because all slots are full.
* *Sum of peaks.* A peak is at least 1/G of the step's load: ``Σ_k max_g L_g(k) >= ⌈work / G⌉``.
  A second bound uses layers: the sum of peaks is the number of pairs of a step and a height θ
  below its peak. A request grows, so its load exceeds θ in its last ``len_i(θ)`` steps. The number
  of steps at which some single request exceeds θ is at least the makespan of packing jobs of
  lengths ``len_i(θ)`` on m machines. For θ = 0 these are the busy steps. For a single request, the
  layers sum to its loads. The longest part ``max_i len_i(θ)`` of each layer corresponds to
  requests aligned at their ends (the drain). For B = 1 the layers contain the first bound.

With a memory limit, at most `MakespanProblem.most_running` requests run at once, which replaces
``m``. No step holds more tokens than all memories, so there are at least ``⌈work / Σ κ_g⌉`` busy
steps.

For the latency, the sorted completions are bounded one by one (`latency_bound`).

Workers do not matter for latency in steps: if at most m requests run at once, slots can be
assigned to them. This is the scheduling of jobs on m identical machines.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, chain

import numpy as np

from formulations.arrays import IntArray
from formulations.hindsight_makespan.problem import MakespanObjective, MakespanProblem
from formulations.request_table import shortest_remaining_first


def latency_bound(problem: MakespanProblem) -> int:
    """Return a lower bound on the total latency ``Σ (completion − a_i)`` of all schedules.

    The larger of two bounds on the sum of completions:

    * Relax each step to m tokens of any arrived requests, even of a single one. Shortest remaining
      first then maximises the completed requests at every step, so its r-th completion is a lower
      bound on the r-th completion of any schedule. The r-th smallest ``a_i + o_i`` is another.
    * With all arrivals moved to the first one, shortest first is optimal on identical machines.

    With a memory limit, m is `MakespanProblem.most_running`, and there is a third bound: the r
    requests that complete first have at least the r smallest works in total, and a step processes
    at most ``Σ κ_g``.
    """
    arrivals, outputs = problem.arrival.tolist(), problem.output.tolist()
    m = problem.most_running
    alone = sorted(a + o for a, o in zip(arrivals, outputs, strict=True))
    shared = zip(shortest_remaining_first(arrivals, outputs, m), alone, strict=True)
    one_by_one = sum(max(pair) for pair in shared)
    first = min(arrivals)
    together = first * len(outputs) + sum(shortest_first_completions(outputs, m))
    held = 0 if problem.memory is None else first * len(outputs) + sum(_held_completions(problem))
    return int(max(one_by_one, together, held) - sum(arrivals))


def _held_completions(problem: MakespanProblem) -> Iterator[int]:
    """Yield lower bounds on the 1st, 2nd, ... completion step, from the memory limit."""
    assert problem.memory is not None
    memory = int(problem.memory.sum())
    rows = zip(problem.prompt.tolist(), problem.output.tolist(), strict=True)
    works = sorted(s * o + o * (o - 1) // 2 for s, o in rows)
    return (-(-total // memory) for total in accumulate(works))


def shortest_first_completions(outputs: list[int], machines: int) -> list[int]:
    """Return the completion steps of shortest-job-first on machines that are free at 0."""
    ends: list[int] = []
    for r, output in enumerate(sorted(outputs)):
        ends.append(output + (ends[r - machines] if r >= machines else 0))
    return ends


def segments(problem: MakespanProblem) -> list[list[int]]:
    """Split the requests, in order of arrival, into parts that cannot run at the same time.

    If work is conserved, the requests that arrive before a step a end by ``max_i (a_i + ⌊R_i / m⌋
    + o_i)`` (`latest_starts`), regardless of later arrivals. If this is at most a, they never
    overlap with the later ones, and the optimum is the sum of the optima of the parts. For latency
    without conservation the same holds with the last arrival of the part in place of a_i: the
    optimum of the part ends by then, and the sum of the parts' optima is a bound that is attained.
    With a memory limit, the sum of all outputs replaces its m-th part.

    Parameters
    ----------
    problem : MakespanProblem
        Data; the split is not valid for the wall-clock time without work conservation, which
        ignores arrivals.

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
        # ⌊R_i / m⌋ <= ⌊total / m⌋, so this is an upper bound on the ends in the proof.
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
    """Return the problem restricted to the requests ``members``."""
    return replace(
        problem,
        arrival=problem.arrival[members],
        prompt=problem.prompt[members],
        output=problem.output[members],
    )


#: Largest load for which heights are enumerated.
_MAX_HEIGHT = 2**22
#: Largest number of (height, request) cells for the pairs of `packing_bound` in every layer.
_MAX_CELLS = 5_000_000


def lower_bound(problem: MakespanProblem) -> int:
    """Return an integer lower bound on the scaled objective of every schedule."""
    if problem.num_requests == 0:
        return 0
    if problem.objective is MakespanObjective.LATENCY:
        return sum(latency_bound(part(problem, members)) for members in segments(problem))
    per_step, per_token = problem.rates
    # Schedules without work conservation ignore arrivals; with it, the parts do not overlap.
    split = segments(problem) if problem.work_conserving else [list(range(problem.num_requests))]
    parts = [part(problem, members) for members in split]
    steps = sum(busy_steps_bound(each) for each in parts)
    peaks = sum(peaks_bound(each) for each in parts)
    return per_step * steps + per_token * peaks + problem.offset


def busy_steps_bound(problem: MakespanProblem) -> int:
    """Return a lower bound on the number of busy steps (with running requests)."""
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
    """Return a lower bound on ``Σ_k max_g L_g(k)``, the sum of the steps' peak loads [tokens]."""
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
    """Return a lower bound on the makespan of jobs of given lengths on identical machines.

    The maximum of the mean load, the longest job, and, for each q, the sum of the q shortest of
    the ``(q − 1)·m + 1`` longest jobs, since q of these jobs share a machine.
    """
    ordered = sorted(lengths.tolist(), reverse=True)
    sums = list(accumulate(ordered, initial=0))
    rounds = range(0, len(ordered), machines)
    shared = (sums[last + 1] - sums[last - last // machines] for last in rounds)
    return max(chain(shared, [-(-sums[-1] // machines)]), default=0)


def _volumes(problem: MakespanProblem, peak: int) -> IntArray:
    """Return a lower bound on the steps with a request load above θ, for θ = 0..peak-1."""
    change = np.zeros(peak + 2, dtype=np.int64)
    np.add.at(change, problem.prompt, 1)
    np.add.at(change, problem.prompt + problem.output, -1)
    # entries[v]: number of request loads of v tokens; above[θ]: of more than θ tokens.
    entries = change.cumsum()[: peak + 1]
    above = entries[::-1].cumsum()[::-1][1:]
    return -(-above // problem.most_running)


def _longest_parts(problem: MakespanProblem, peak: int) -> IntArray:
    """Return ``max_i len_i(θ)`` for each height θ = 0..peak-1."""
    best = np.zeros(int(problem.output.max()) + 1, dtype=np.int64)
    np.maximum.at(best, problem.output, problem.prompt + problem.output - 1)
    # drain[j]: largest load of a request with j further steps to run; strictly decreasing.
    drain = np.maximum.accumulate(best[::-1])[::-1][1:] - np.arange(len(best) - 1)
    return len(drain) - np.searchsorted(drain[::-1], np.arange(peak), side="right")


def _pairs(problem: MakespanProblem, peak: int) -> IntArray:
    """Return, for θ = 0..peak-1, the sum of the two shortest of the m + 1 longest parts."""
    m = problem.most_running
    if problem.num_requests <= m:
        return np.zeros(peak, dtype=np.int64)
    heights = np.arange(peak)[:, None]
    last = (problem.prompt + problem.output - 1)[None, :] - heights
    parts = -np.sort(-np.clip(last, 0, problem.output[None, :]), axis=1)
    return np.asarray(parts[:, m - 1] + parts[:, m])
