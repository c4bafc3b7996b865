"""What a solve has in hand: the best schedule, the best bound."""

import time
from dataclasses import dataclass
from typing import Generic, TypeVar

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


def is_over(deadline: float) -> bool:
    """Whether a value of `time.perf_counter` has come."""
    return time.perf_counter() >= deadline
