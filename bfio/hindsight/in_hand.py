"""What a solve has in hand: the best schedule, the best bound, and how much time is left."""

import time
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from formulations.errors import InputError

S = TypeVar("S")


@dataclass
class InHand(Generic[S]):
    """The best schedule and the best bound so far.

    Parameters
    ----------
    objective : int
        Objective of the schedule.
    schedule
        The schedule.
    bound : int
        Lower bound on every schedule, at most the objective.
    proof : str
        What gave the bound.
    states : int
        States that searches have generated.
    """

    objective: int
    schedule: S
    bound: int
    proof: str
    states: int = 0

    @property
    def is_closed(self) -> bool:
        """Whether the bound meets the schedule."""
        return self.bound >= self.objective

    def improve(self, objective: int, schedule: S) -> None:
        """Take a better schedule."""
        self.objective, self.schedule = objective, schedule

    def raise_bound(self, bound: int, proof: str) -> None:
        """Take a bound on all better schedules, if it is a better one."""
        # Together with the schedule in hand it bounds all.
        bound = min(bound, self.objective)
        if bound > self.bound:
            self.bound, self.proof = bound, proof


def seconds_of(time_limit: float | None) -> float:
    """Return a time limit [s]; infinite where there is none.

    Raises
    ------
    InputError
        If it is negative or no number.
    """
    if time_limit is None:
        return inf
    if not (isinstance(time_limit, int | float) and time_limit >= 0):
        what = f"{time_limit!r} is negative or no number"
        raise InputError("time_limit", what, "use seconds >= 0")
    return time_limit


def is_over(deadline: float) -> bool:
    """Whether a value of `time.perf_counter` has come."""
    return time.perf_counter() >= deadline
