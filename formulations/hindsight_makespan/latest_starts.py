"""The last steps at which requests start in some optimum."""

from formulations.arrays import IntArray
from formulations.errors import CapabilityError
from formulations.hindsight_makespan.check import objective_value
from formulations.hindsight_makespan.list_schedule import list_schedule
from formulations.hindsight_makespan.problem import MakespanObjective, MakespanProblem

#: Most load entries sorted for the bound on busy steps.
_MAX_ENTRIES = 5_000_000


def latest_starts(problem: MakespanProblem) -> list[int]:
    """Return for each request a step such that some optimum starts none later.

    Let A be the last arrival, ``m = G·B``, and R_i the sum of the other requests' outputs.

    *Work conserved.* While request i waits, all m slots are full of others, from a_i on: every
    feasible schedule has ``k_i <= a_i + ⌊R_i / m⌋``.

    *Latency, free.* In every optimum no slot idles while a request waits, from A on. Suppose a
    slot is idle at step k >= A and i waits. (Slots need no names: any set of intervals at most m
    deep can be coloured with m slots.) If the slot has a later request, start it and all those
    after it on this slot earlier, the next one at k; otherwise move i to it. Either way a
    latency falls and none rises, since all have arrived. So ``k_i <= A + ⌊R_i / m⌋``.

    *Wall clock, free.* Idle steps from A on can be deleted by moving everything later one step
    ahead: the loads of the busy steps do not change. Some optimum therefore has no idle step
    between A and its end; the steps A .. k_i − 1 are busy with others, so ``k_i <= A + R_i``. And
    with K busy steps in all it ends at ``A + K`` at the latest: ``k_i <= A + K − o_i``, where K is
    at most `most_busy_steps`. Delaying may pay here, so nothing shorter holds in general.

    *Latency with a memory.* An idle slot may be of no use. But idle steps from A on can be deleted
    as above, and each latency falls: ``k_i <= A + R_i``. And the latency is no more than that of a
    list schedule, V, while every other request takes its ``o_j`` at least:
    ``k_i <= a_i + V − Σ_j o_j``.
    """
    total = sum(problem.output.tolist())
    last = max(problem.arrival.tolist(), default=0)
    outputs = problem.output.tolist()
    if problem.work_conserving:
        rows = zip(problem.arrival.tolist(), outputs, strict=True)
        return [a + (total - o) // problem.total_slots for a, o in rows]
    if problem.objective is MakespanObjective.LATENCY and problem.memory is not None:
        most = objective_value(problem, *list_schedule(problem)) - total
        rows = zip(problem.arrival.tolist(), outputs, strict=True)
        return [min(last + total - o, a + most) for a, o in rows]
    if problem.objective is MakespanObjective.LATENCY:
        return [last + (total - o) // problem.total_slots for o in outputs]
    steps = most_busy_steps(problem)
    return [last + min(total - o, steps - o) for o in outputs]


def most_busy_steps(problem: MakespanProblem) -> int:
    """Return a number of busy steps that no optimum of the wall-clock time exceeds.

    A schedule with K busy steps costs at least ``C·K + t_l·max(⌈work / G⌉, E_K)``, with E_K the
    sum of the K least loads of single requests at single steps: each busy step has a request of
    its own, and a peak no smaller than its load. A list schedule costs no less than an optimum.
    """
    per_step, per_token = problem.rates
    total = sum(problem.output.tolist())
    if total > _MAX_ENTRIES:
        raise CapabilityError("requests", f"{total} tokens of output", "use shorter outputs")
    cost = objective_value(problem, *list_schedule(problem))
    least_peaks = -(-problem.work // problem.workers)
    steps = entries = 0
    for entry in _load_entries(problem.prompt, problem.output):
        entries += entry
        if per_step * (steps + 1) + per_token * max(least_peaks, entries) > cost:
            break
        steps += 1
    return steps


def _load_entries(prompt: IntArray, output: IntArray) -> list[int]:
    rows = zip(prompt.tolist(), output.tolist(), strict=True)
    return sorted(s + j for s, o in rows for j in range(o))
