"""Policies of the KV-cache paper that look ahead: MC-SF (Algorithm 2), MC-Benchmark, Algorithm 1.

All go through the waiting requests in some order and start each one that keeps Equation (1) true
for all time. With exact lengths the memory is never exceeded. With predicted ones it can be, but
only by a request that has outlived its prediction, which then grows: there are at most Σ o_i
overflows, and every run ends.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar

import numpy as np

from bfio.common.options import RATIONAL, TEXT, WHOLE, option
from bfio.kvcache.feasibility import fits, running_loads
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.policy import BETA, PAUSE, Clearing
from bfio.kvcache.state import CacheState
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.problem_data import member


class Order(StrEnum):
    """In which order waiting requests are tried."""

    SHORTEST = "shortest"
    ARRIVAL = "arrival"


class Scan(StrEnum):
    """What follows a request that does not fit.

    With equal prompts both do the same in shortest-first order, because any later request needs
    at least as much.
    """

    BREAK = "break"
    CONTINUE = "continue"


@dataclass(frozen=True)
class LookAhead:
    """Start requests in order while Equation (1) holds at every completion.

    Parameters
    ----------
    order : Order
        Shortest output first (MC-SF) or arrival (MC-Benchmark); ties by arrival.
    all_at_once : bool
        Whether requests must all be there at the start (Algorithm 1 of the KV-cache paper).
    scan : Scan
        Stop at the first request that does not fit, or try the later ones too.
    delta : int
        ``δ``: tokens added to predicted outputs.
    beta, pause
        What follows when a prediction was too short, see `Clearing`.

    Raises
    ------
    InputError
        If an option breaks its rule.
    """

    order: Order = Order.SHORTEST
    all_at_once: bool = False
    scan: Scan = option(
        Scan.BREAK,
        TEXT,
        "S",
        "break: stop at a request that does not fit; continue: try later ones",
    )
    delta: int = option(0, WHOLE, "D", "δ: tokens added to predicted outputs")
    beta: Fraction = option(Fraction(1), RATIONAL, "B", BETA)
    pause: int = option(0, WHOLE, "P", PAUSE)

    #: See `bfio.kvcache.policy`.
    memoryless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Validate, and turn texts into what they name."""
        object.__setattr__(self, "scan", member(Scan, self.scan, "scan"))
        integer(self.delta, "delta")
        object.__setattr__(self, "beta", self.clearing.probability)

    @property
    def clearing(self) -> Clearing:
        """See `bfio.kvcache.policy`."""
        return Clearing(self.beta, self.pause)

    @property
    def first_come(self) -> bool:
        """See `bfio.kvcache.policy`."""
        return self.order is Order.ARRIVAL and self.scan is Scan.BREAK

    def check(self, instance: CacheInstance) -> None:
        """Refuse later arrivals where the algorithm knows none."""
        late = np.flatnonzero(instance.arrival)
        if self.all_at_once and len(late):
            raise InputError(
                f"requests[{late[0]}].arrival",
                f"{instance.arrival[late[0]]}, but semi-online knows all requests at 0",
                "set every arrival to 0, or use mc-sf",
            )

    def __call__(self, state: CacheState) -> list[int]:
        """Return the positions of the requests to start."""
        loads = running_loads(state)
        chosen: list[int] = []
        waiting = state.waiting
        shortest = self.order is Order.SHORTEST
        for position in waiting.shortest_first if shortest else range(len(waiting)):
            candidate = waiting.needs[position]
            if fits([*loads, candidate], state.memory):
                loads.append(candidate)
                chosen.append(position)
            elif self.scan is Scan.BREAK:
                break
        return chosen
