"""A hindsight makespan problem as the search sees it: kinds, small rates, arrivals from 0."""

from dataclasses import dataclass
from math import gcd

import numpy as np

from formulations.arrays import IntArray
from formulations.hindsight_makespan import MakespanObjective, MakespanProblem
from formulations.hindsight_makespan.bound import lower_bound
from formulations.hindsight_makespan.solver import spread_over_workers

#: Largest cost, over all lanes, that the search adds up in 64-bit integers.
MAX_COST = 2**61


@dataclass(frozen=True)
class SearchForm:
    """Data of the search, in reduced integer costs.

    Parameters
    ----------
    problem : MakespanProblem
        Where it comes from; at least one request.
    lanes, slots : int
        Workers and slots the search tells apart: for latency without a memory one lane of all.
    memory : int
        Most tokens that a lane holds, the least one where workers differ; 0 for no limit.
    growth : int
        Tokens by which a load grows per step: 1, or 0 where loads do not matter.
    per_step, per_token, per_present : int
        Cost of a busy step, of a token of its peak, and of a request that has arrived and not
        completed (latency).
    unit, offset : int
        The objective is ``unit`` times the cost of the search plus ``offset``.
    conserving : bool
        Whether work is conserved.
    arrival, load, output, count : IntArray
        Shape (C,): the kinds; ``load`` is 0 for latency without a memory.
    members : tuple of tuple of int
        Requests of each kind.
    origin : int
        Step of the problem that is step 0 of the search.
    """

    problem: MakespanProblem
    lanes: int
    slots: int
    memory: int
    growth: int
    per_step: int
    per_token: int
    per_present: int
    unit: int
    offset: int
    conserving: bool
    arrival: IntArray
    load: IntArray
    output: IntArray
    count: IntArray
    members: tuple[tuple[int, ...], ...]
    origin: int

    @property
    def is_latency(self) -> bool:
        """Whether the search minimises latency."""
        return self.per_present > 0

    def cost(self, objective: int) -> int:
        """Return the cost of the search that an objective means."""
        return (objective - self.offset) // self.unit

    def objective(self, cost: int) -> int:
        """Return the objective that a cost of the search means."""
        return cost * self.unit + self.offset

    def bound(self) -> int:
        """Return the combinatorial bound as a cost, rounded up."""
        return -((self.offset - lower_bound(self.problem)) // self.unit)

    def schedule(
        self, starts: list[list[int]], lanes: list[list[int]]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return starts and workers of the requests from those of the kinds' members."""
        num = self.problem.num_requests
        of_request, worker = [0] * num, [0] * num
        for members, times, places in zip(self.members, starts, lanes, strict=True):
            for i, time, place in zip(members, times, places, strict=True):
                of_request[i], worker[i] = time + self.origin, place
        if self.is_latency and self.problem.memory is None:
            worker = spread_over_workers(self.problem, of_request)
        return tuple(of_request), tuple(worker)


def search_form(problem: MakespanProblem) -> SearchForm:
    """Write a problem for the search; free wall-clock schedules all begin at the last arrival."""
    latency = problem.objective is MakespanObjective.LATENCY
    pooled = latency and problem.memory is None
    deferred = not latency and not problem.work_conserving
    arrivals = problem.arrival.tolist()
    origin = max(arrivals) if deferred else min(arrivals)
    groups: dict[tuple[int, int, int], list[int]] = {}
    rows = zip(arrivals, problem.prompt.tolist(), problem.output.tolist(), strict=True)
    for i, (arrival, prompt, output) in enumerate(rows):
        key = (output, 0 if pooled else prompt, 0 if deferred else arrival - origin)
        groups.setdefault(key, []).append(i)
    # Long requests first: the search meets schedules with a short drain early. Latency needs
    # the shortest first, see `kernel.latency_to_go`.
    keys = sorted(groups, reverse=not latency)
    table = np.array(keys, dtype=np.int64)
    per_step, per_token = problem.rates
    unit = gcd(per_step, per_token) or 1
    num = problem.num_requests
    constant = 0 if latency else problem.offset
    return SearchForm(
        problem=problem,
        lanes=1 if pooled else min(problem.workers, num),
        slots=min(problem.total_slots if pooled else problem.slots, num),
        memory=0 if problem.memory is None else int(problem.memory.min()),
        growth=0 if pooled else 1,
        per_step=per_step // unit,
        per_token=per_token // unit,
        per_present=int(latency),
        unit=unit,
        offset=constant,
        conserving=bool(problem.work_conserving),
        arrival=table[:, 2].copy(),
        load=table[:, 1].copy(),
        output=table[:, 0].copy(),
        count=np.array([len(groups[key]) for key in keys], dtype=np.int64),
        members=tuple(tuple(groups[key]) for key in keys),
        origin=origin,
    )
