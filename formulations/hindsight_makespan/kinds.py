"""Requests that a program need not tell apart, and where each of them may start."""

import numpy as np

from formulations.hindsight_makespan.latest_starts import latest_starts
from formulations.hindsight_makespan.problem import MakespanObjective, MakespanProblem
from formulations.request_table import RequestKind, alike


def lanes(problem: MakespanProblem) -> tuple[int, int]:
    """Return how many lanes of how many slots a program needs to tell apart.

    Lanes are workers. Latency does not see them (any requests at most ``m`` deep can be given
    slots), so there one lane has all slots, unless workers have a memory.
    """
    if problem.objective is MakespanObjective.LATENCY and problem.memory is None:
        return 1, problem.total_slots
    return problem.workers, problem.slots


def kinds(problem: MakespanProblem, *, aggregate: bool = True) -> tuple[RequestKind, ...]:
    """Group the requests.

    Alike are requests with the same arrival, prompt and output; for latency without a memory the
    prompt does not matter. The wall-clock time without work conservation ignores arrivals:
    deferring all starts until after the last arrival costs nothing, so every window begins there
    and the arrival does not matter either.

    Workers are equal, so they may be numbered in the order in which a fixed list of the requests,
    kind after kind, first uses them: the r-th of that list (r = 0, 1, ...) is then on one of the
    workers ``0..r``, and a kind on those open to its last member. Exchanging members of a kind
    changes nothing, so the list fixes the workers of kinds, not of members. Workers of unequal
    memory are all open to all.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    aggregate : bool
        Whether requests alike form one kind; otherwise each is its own.
    """
    deferred = problem.objective is MakespanObjective.WALL_CLOCK and not problem.work_conserving
    latency = problem.objective is MakespanObjective.LATENCY and problem.memory is None
    arrival, prompts = problem.arrival, problem.prompt
    if deferred:
        arrival = np.full_like(arrival, arrival.max(initial=0))
    if latency:
        prompts = np.ones_like(prompts)
    groups = alike(arrival, prompts, problem.output, aggregate=aggregate)
    latest = latest_starts(problem)
    grouped = []
    listed = 0
    for (first, prompt, output, _), members in groups.items():
        listed += len(members)
        open_lanes = lanes(problem)[0]
        if problem.is_symmetric:
            open_lanes = min(open_lanes, listed)
        last = latest[members[0]]
        grouped.append(RequestKind(prompt, output, tuple(members), first, last, open_lanes))
    return tuple(grouped)
