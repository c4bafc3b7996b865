"""Faults on demand: what ``POST /bfio/faults`` lets a worker of the emulator do.

The body is ``{"worker": g, "fault": NAME}`` and the field of the fault, if it has one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from bfio.live.fleet import End
from bfio.live.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bfio.live.fleet import Fleet
    from bfio.live.prefill_tier import PrefillWorkers


class Fault(NamedTuple):
    """One fault."""

    #: Takes the fleet, the worker and the value of the field.
    apply: Callable[[Any, int, float], None]
    field: str | None  #: Name of its field.
    default: float  #: Value of this field if it is not given.
    meaning: str


def _return(fleet: Fleet, g: int, value: float) -> None:
    worker = fleet.workers[g]
    worker.is_up, worker.stalled_until_s = True, -math.inf
    worker.errors, worker.report_every = 0, 1


def _stall(fleet: Fleet, g: int, value: float) -> None:
    fleet.workers[g].stalled_until_s = fleet.now_s + value


def _error(fleet: Fleet, g: int, value: float) -> None:
    fleet.workers[g].errors = int(value)


def _drop(fleet: Fleet, g: int, value: float) -> None:
    for job in list(fleet.workers[g].running)[: int(value)]:
        fleet.cancel(job, g, End.LOST)


def _recompute(fleet: Fleet, g: int, value: float) -> None:
    worker = fleet.workers[g]
    for _ in range(min(int(value), len(worker.running))):
        fleet.recompute(worker)
    worker.report()


def _late(fleet: Fleet, g: int, value: float) -> None:
    fleet.workers[g].report_every = int(value)


FAULTS = {
    "die": Fault(
        lambda fleet, g, value: fleet.die(g), None, 0,
        "loses its requests: their streams break; new ones and /health are answered 503",
    ),
    "return": Fault(_return, None, 0, "is up and healthy again, empty after a death"),
    "stall": Fault(
        _stall, "seconds", math.inf,
        "keeps its requests and emits nothing for so long [s of the fleet]; others go on",
    ),
    "error": Fault(_error, "count", 1, "answers so many of its next requests with status 500"),
    "drop": Fault(
        _drop, "count", 1, "breaks the streams of so many running requests, oldest first"
    ),
    "recompute": Fault(
        _recompute, "count", 1,
        "stops so many running requests, youngest first, with stop_reason recomputed",
    ),
    "late": Fault(
        _late, "steps", 4, "reports only every so many steps: late, several tokens in an event"
    ),
}  # fmt: skip
_MOST = 10**9


def apply_fault(
    fleet: Fleet | PrefillWorkers, order: dict[str, Any], known: Collection[str] = FAULTS.keys()
) -> None:
    """Do what an order says; ``known`` are the faults that the workers have.

    Raises
    ------
    WireError
        With status 400 if the worker or the fault is unknown, or a value is out of range.
    """
    number, name = order.get("worker"), order.get("fault")
    if type(number) is not int or not 0 <= number < len(fleet.workers):
        raise WireError(400, f"worker: give 0..{len(fleet.workers) - 1}.", "worker")
    fault = FAULTS[name] if isinstance(name, str) and name in known else None
    if fault is None:
        raise WireError(400, f"fault: use one of {', '.join(known)}.", "fault")
    value = order.get(fault.field, fault.default) if fault.field else 0
    if fault.field == "seconds":
        if type(value) not in (int, float) or not value > 0:
            raise WireError(400, "seconds: give a number > 0.", "seconds")
    elif fault.field and (type(value) is not int or not 1 <= value <= _MOST):
        raise WireError(400, f"{fault.field}: give a whole number in 1..{_MOST}.", fault.field)
    fault.apply(fleet, number, value)
