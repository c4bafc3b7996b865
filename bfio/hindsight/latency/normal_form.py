"""One kernel for the three conventions: a request holds ``s + age`` tokens at ages 0..d-1.

That is convention B. A(s, o) is B(s, o + 1), and C(s, o) is B(s + 1, o) one round later, so both
have the same feasible starts as their image (spec kv_cache, section 1.6; tested).
"""

from typing import NamedTuple

import numpy as np

from formulations.arrays import IntArray
from formulations.hindsight_latency import Convention, LatencyProblem


class NormalForm(NamedTuple):
    """Requests in convention B, sorted so that identical ones are neighbours; kernels take it.

    Parameters
    ----------
    memory : int
        ``M`` [tokens].
    prompt, duration, arrival : IntArray
        Shape (n,): tokens at age 0, number of occupied rounds, first possible start.
    order : IntArray
        Shape (n,): index of each request in the problem.
    constant : int
        Total latency minus the sum of starts.
    origin : int
        Round of the problem that is round 0 here: the first arrival.
    """

    memory: int
    prompt: IntArray
    duration: IntArray
    arrival: IntArray
    order: IntArray
    constant: int
    origin: int

    @property
    def num_requests(self) -> int:
        """``n``."""
        return len(self.order)

    @property
    def peak(self) -> IntArray:
        """Tokens at the last occupied round, shape (n,)."""
        return self.prompt + self.duration - 1

    def starts(self, sorted_starts: IntArray) -> tuple[int, ...]:
        """Return starts in the order of the problem."""
        starts = np.empty(self.num_requests, dtype=np.int64)
        starts[self.order] = sorted_starts + self.origin
        return tuple(int(start) for start in starts)


def normal_form(problem: LatencyProblem) -> NormalForm:
    """Translate a problem of any convention."""
    prompt = problem.prompt + (problem.convention is Convention.HALF_OPEN)
    duration = problem.output + (problem.convention is Convention.CLOSED)
    order = np.lexsort((problem.arrival, duration, prompt)).astype(np.int64)
    origin = min(problem.arrival.tolist(), default=0)
    arrival = problem.arrival[order] - origin
    return NormalForm(
        memory=problem.memory,
        prompt=prompt[order].astype(np.int64),
        duration=duration[order].astype(np.int64),
        arrival=arrival,
        order=order,
        constant=sum(problem.output.tolist()) - sum(arrival.tolist()),
        origin=origin,
    )
