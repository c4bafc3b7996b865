"""The emulated machine: workers in lockstep that receive requests over the network.

A step follows the rules of `bfio.decode.machine`. Requests start in the order of their worker's
queue while a slot is free and memory suffices. The duration of the step follows from the loads
(`Cluster.step_time`). Each running request emits a token, and complete requests end. If the other
requests exceed the memory of their worker, the youngest ones stop for recomputation. The simulator
knows all requests in advance and stores them in arrays; here requests arrive and leave one by one.
A test checks that both have the same loads, times, starts and ends.

``POST /bfio/faults`` causes a fault of a worker. The body is ``{"worker": g, "fault": NAME}``,
with the field of the fault, if the fault has one.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from bfio.live.wire import RECOMPUTED, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bfio.decode.cluster import Cluster
    from bfio.live.prefill_tier import PrefillWorker, PrefillWorkers


class End(StrEnum):
    """Reason why a request has left the machine."""

    LENGTH = "length"  #: All its tokens have been emitted.
    RECOMPUTED = RECOMPUTED  #: Its cache was dropped; the client must resend it with its tokens.
    LOST = "lost"  #: Its worker died, or its stream was dropped.
    CANCELLED = "cancelled"  #: Its client has disconnected.


@dataclass(eq=False, slots=True)
class Job:
    """A request on the machine."""

    prompt: int  #: Prompt length [tokens].
    output: int  #: Tokens to emit.
    #: Called with the number of new tokens and the end, if this is the last call.
    report: Callable[[int, End | None], None]
    emitted: int = 0  #: Tokens emitted so far.
    unreported: int = 0  #: Emitted tokens that have not been reported.
    end: End | None = None

    @property
    def load(self) -> int:
        """Size of its KV cache [tokens]."""
        return self.prompt + self.emitted

    def tell(self) -> None:
        """Report the tokens since the last report, and the end if it has come."""
        tokens, self.unreported = self.unreported, 0
        self.report(tokens, self.end)


@dataclass(eq=False, slots=True)
class Worker:
    """One worker of the fleet, and its faults."""

    slots: int
    memory: int  #: KV-cache memory [tokens].
    queue: deque[Job] = field(default_factory=deque)
    running: dict[Job, None] = field(default_factory=dict)  #: Running requests in order of start.
    #: Requests with unreported tokens or end.
    untold: dict[Job, None] = field(default_factory=dict)
    load: int = 0  #: Sum of the loads of its running requests [tokens].
    reserved: int = 0  #: Sum of the peak loads of its running requests [tokens].
    is_up: bool = True
    stalled_until_s: float = -math.inf  #: The worker does not run before this time [s].
    report_every: int = 1  #: Steps between its reports.
    errors: int = 0  #: Number of next requests that the worker answers with an error.
    prompt_tokens: int = 0  #: Prompt tokens of all requests started so far.
    tokens: int = 0  #: Tokens emitted so far.

    def remove(self, job: Job) -> None:
        """Remove a running request from the worker."""
        del self.running[job]
        self.load -= job.load
        self.reserved -= peak(job)

    def report(self) -> None:
        """Report all unreported tokens and ends of the worker's requests."""
        told, self.untold = list(self.untold), {}
        for job in told:
            job.tell()


class Step(NamedTuple):
    """One step; loads and requests are counted after starts and before growth."""

    number: int  #: Index of the step.
    start_s: float
    duration_s: float
    loads: tuple[int, ...]  #: Shape (G,) [tokens].
    running: tuple[int, ...]  #: Shape (G,).
    waiting: int  #: Requests in the queues of the workers.


def peak(job: Job) -> int:
    """Return the largest KV cache of a request, in its last step [tokens]."""
    return job.prompt + job.output - 1


class Fleet:
    """Workers in lockstep (`bfio.decode.cluster.Cluster`).

    Parameters
    ----------
    cluster : Cluster
        The machine, without token budgets and prefix caches.
    reserves : bool
        Whether a request starts only if its peak fits (``overflow=reserve``).
    """

    def __init__(self, cluster: Cluster, reserves: bool = False) -> None:
        self.cluster, self.reserves = cluster, reserves
        sizes = zip(cluster.worker_slots(), cluster.worker_memory(), strict=True)
        self.workers = [Worker(int(slots), int(memory)) for slots, memory in sizes]
        self.now_s, self.steps = 0.0, 0
        self.ends = dict.fromkeys(End, 0)
        self.submitted = 0
        self._stepping: list[Worker] = []
        self._step: Step | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is on the machine."""
        return not any(worker.queue or worker.running for worker in self.workers)

    def submit(self, job: Job, number: int) -> None:
        """Append a request to the queue of a worker.

        Raises
        ------
        WireError
            If the worker is down (503) or the request can never fit its memory (400).
        """
        worker = self.workers[number]
        if not worker.is_up:
            raise WireError(503, f"Worker {number} is down; send to another one.")
        if peak(job) > worker.memory:
            what = f"The request takes {peak(job)} tokens of memory, worker {number} has"
            raise WireError(400, f"{what} {worker.memory}; shorten it.", "max_tokens")
        worker.queue.append(job)
        self.submitted += 1

    def cancel(self, job: Job, number: int, end: End = End.CANCELLED) -> None:
        """Remove a queued or running request from the machine; do nothing if it has ended."""
        worker = self.workers[number]
        if job.end is not None:
            return
        if job in worker.running:
            worker.remove(job)
        else:
            worker.queue.remove(job)
        worker.untold.pop(job, None)
        self._end(job, end)
        job.tell()
        if self.is_idle:
            self._report_all()

    def begin(self) -> Step | None:
        """Start queued requests that fit, and begin a step; return None if no request runs."""
        self._stepping = [
            worker
            for worker in self.workers
            if worker.is_up and worker.stalled_until_s <= self.now_s
        ]
        for worker in self._stepping:
            self._start(worker)
        counted = set(self._stepping)
        loads = tuple(worker.load if worker in counted else 0 for worker in self.workers)
        running = tuple(len(each.running) if each in counted else 0 for each in self.workers)
        if not any(running):
            self._report_all()
            return None
        waiting = sum(len(worker.queue) for worker in self.workers)
        duration = self.cluster.step_time(loads)  # type: ignore[arg-type]
        self._step = Step(self.steps, self.now_s, duration, loads, running, waiting)
        return self._step

    def emit(self) -> None:
        """Emit the tokens of the step that has begun, and report them."""
        for worker in self._stepping:
            tokens = len(worker.running)
            worker.load += tokens
            worker.tokens += tokens
            for job in list(worker.running):
                job.emitted += 1
                job.unreported += 1
                worker.untold[job] = None
                if job.emitted == job.output:
                    worker.remove(job)
                    self._end(job, End.LENGTH)
            while worker.load > worker.memory:
                self.recompute(worker)
        if self.is_idle:
            self._report_all()
        for worker in self.workers:
            if (self.steps + 1) % worker.report_every == 0:
                worker.report()

    def advance(self) -> None:
        """End the step that has begun: advance the clock by the duration of the step."""
        assert self._step is not None
        self.now_s += self._step.duration_s
        self.steps += 1
        self._step, self._stepping = None, []

    def recompute(self, worker: Worker) -> None:
        """Stop the youngest running request of a worker for recomputation, and mark it as such."""
        job = next(reversed(worker.running))
        worker.remove(job)
        worker.untold[job] = None
        self._end(job, End.RECOMPUTED)

    def die(self, number: int) -> None:
        """Let a worker die: all its requests and its unreported tokens are lost."""
        worker = self.workers[number]
        worker.is_up = False
        # Clear this first: the last cancellation leaves the machine idle and sends all reports.
        lost, worker.untold = worker.untold, {}
        for job in lost:
            job.unreported = 0
            if job.end is not None:
                self.ends[job.end] -= 1
                self._end(job, End.LOST)
                job.tell()
        for job in [*worker.running, *worker.queue]:
            self.cancel(job, number, End.LOST)

    def _report_all(self) -> None:
        """Send all reports now; without a further step, delayed reports would never be sent."""
        for worker in self.workers:
            worker.report()

    def _start(self, worker: Worker) -> None:
        while worker.queue and len(worker.running) < worker.slots:
            job = worker.queue[0]
            used, need = (worker.reserved, peak(job)) if self.reserves else (worker.load, job.load)
            if used + need > worker.memory:
                break
            worker.queue.popleft()
            worker.running[job] = None
            worker.load += job.load
            worker.reserved += peak(job)
            worker.prompt_tokens += job.prompt

    def _end(self, job: Job, end: End) -> None:
        job.end = end
        self.ends[end] += 1


class Fault(NamedTuple):
    """A fault of a worker that a request to ``/bfio/faults`` can cause."""

    #: Function of the fleet, the worker and the value of the field.
    apply: Callable[[Any, int, float], None]
    field: str | None  #: Name of the field in the request body; None if the fault has no field.
    default: float  #: Default value of this field.
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
        "loses its requests: their streams break; new requests and /health get status 503",
    ),
    "return": Fault(_return, None, 0, "is up and healthy again, empty after a death"),
    "stall": Fault(
        _stall, "seconds", math.inf,
        "keeps its requests and emits nothing for this time [fleet s]; other workers continue",
    ),
    "error": Fault(_error, "count", 1, "answers this number of next requests with status 500"),
    "drop": Fault(
        _drop, "count", 1, "breaks the streams of this number of running requests, oldest first"
    ),
    "recompute": Fault(
        _recompute, "count", 1,
        "stops this number of running requests, youngest first, with stop_reason recomputed",
    ),
    "late": Fault(
        _late, "steps", 4, "reports only once in this number of steps, several tokens in an event"
    ),
}  # fmt: skip


def answer_fault(worker: Worker | PrefillWorker, name: str) -> None:
    """Raise the error with which a worker answers its next requests, if a fault asks for it."""
    if worker.errors > 0:
        worker.errors -= 1
        raise WireError(500, f"{name} answers with an error (requested by a fault).")


_MOST = 10**9


def apply_fault(
    fleet: Fleet | PrefillWorkers, order: dict[str, Any], known: Collection[str] = FAULTS.keys()
) -> None:
    """Apply the fault in a request body; ``known`` are the faults that the workers support.

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
