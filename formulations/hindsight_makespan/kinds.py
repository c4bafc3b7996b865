"""Requests that a program need not tell apart, and where each of them may start."""

from dataclasses import dataclass

import numpy as np

from formulations.hindsight_makespan.horizon import latest_starts
from formulations.hindsight_makespan.problem import MakespanProblem, Objective
from formulations.request_table import alike


@dataclass(frozen=True)
class Kind:
    """Requests alike in all that matters.

    Parameters
    ----------
    prompt, output : int
        Common data.
    members : tuple of int
        Requests, in order.
    first_start, last_start : int
        Window of starts that holds an optimum.
    lanes : int
        Members start on lanes ``0..lanes-1``, see `kinds`.
    """

    prompt: int
    output: int
    members: tuple[int, ...]
    first_start: int
    last_start: int
    lanes: int

    @property
    def starts(self) -> range:
        """The window of starts."""
        return range(self.first_start, self.last_start + 1)


def lanes(problem: MakespanProblem) -> tuple[int, int]:
    """Return how many lanes of how many slots a program needs to tell apart.

    Lanes are workers. Latency does not see them (any requests at most ``m`` deep can be given
    slots), so there one lane has all slots.
    """
    if problem.objective is Objective.LATENCY:
        return 1, problem.total_slots
    return problem.workers, problem.slots


def kinds(problem: MakespanProblem, *, aggregate: bool = True) -> tuple[Kind, ...]:
    """Group the requests.

    Alike are requests with the same arrival, prompt and output; for latency the prompt does not
    matter. The wall-clock time without work conservation ignores arrivals: deferring all starts
    until after the last arrival costs nothing, so every window begins there and the arrival does
    not matter either.

    Workers are equal, so they may be numbered in the order in which a fixed list of the requests,
    kind after kind, first uses them: the r-th of that list (r = 0, 1, ...) is then on one of the
    workers ``0..r``, and a kind on those open to its last member. Exchanging members of a kind
    changes nothing, so the list fixes the workers of kinds, not of members.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    aggregate : bool
        Whether requests alike form one kind; otherwise each is its own.
    """
    deferred = problem.objective is Objective.WALL_CLOCK and not problem.work_conserving
    latency = problem.objective is Objective.LATENCY
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
        open_lanes = min(lanes(problem)[0], listed)
        grouped.append(Kind(prompt, output, tuple(members), first, latest[members[0]], open_lanes))
    return tuple(grouped)
