"""The engine in plain Python: one batch after another, any policy, every rule in the open.

Phases before a batch: note outlived predictions, clear if the running requests no longer fit,
reveal arrivals, let the policy start requests; then the batch runs and requests complete. Inside,
requests are numbered in order of arrival (ties: by index), so that smaller means earlier.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field

import numpy as np

from bfio.common.answers import checked_choice
from bfio.common.users_code import policy_statistics, users_code
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.policy import CachePolicy, Clearing, clearing_of
from bfio.kvcache.record import Journal
from bfio.kvcache.run import CacheLimits, CacheRun, CacheVerdict, StayEnd
from bfio.kvcache.state import CacheState, Waiting
from formulations.arrays import IntArray, frozen
from formulations.errors import InputError
from formulations.hindsight_latency import Convention

#: What is said of each way to stop.
REASONS = {
    "loop": "the state came back after an overflow without a completion",
    "clearings": "too many overflows in a row without a completion",
    "batches": "the limit of batches was reached",
    "idle": "the policy started nothing on an empty worker for too long",
}


@dataclass
class Stay:
    """A running request: the batch it started with, and the batches it has run."""

    first_batch: int
    done: int = 0


@dataclass
class LoopWatch:
    """Tells a state that has come back from one that only looks alike.

    After a full clearing nothing runs, so the state is who waits and what is believed of them.
    Between two full clearings without a completion nobody left; without a new prediction and
    without arrivals the state is the same, and a memoryless policy repeats itself forever. New
    arrivals do not matter if it takes requests in order and never came to the end of the queue.
    """

    clearings: int = 0
    armed: bool = False
    saw_all: bool = False
    ran_dry: bool = False

    def progress(self) -> None:
        """Note a completion."""
        self.clearings, self.armed = 0, False

    def learned(self) -> None:
        """Note that a prediction has grown."""
        self.armed = False

    def decided(self, is_queue_empty: bool) -> None:
        """Note whether a decision left nobody waiting."""
        self.ran_dry |= is_queue_empty

    def cleared(self, is_full: bool, first_come: bool, all_revealed: bool) -> bool:
        """Note an overflow and return whether the state has come back."""
        back = is_full and self.armed and (self.saw_all or (first_come and not self.ran_dry))
        self.clearings += 1
        self.armed, self.saw_all, self.ran_dry = is_full, all_revealed, False
        return back


@dataclass
class CacheEngine:
    """State and phases of a run; see the module."""

    instance: CacheInstance
    policy: CachePolicy
    name: str
    believed: IntArray
    rng: np.random.Generator
    limits: CacheLimits
    clock: int = 0
    revealed: int = 0
    idle: int = 0
    overflows: int = 0
    draws: int = 0
    running: dict[int, Stay] = field(default_factory=dict)
    queue: list[int] = field(default_factory=list)
    watch: LoopWatch = field(default_factory=LoopWatch)

    def __post_init__(self) -> None:
        """Sort the requests by arrival."""
        self.order: IntArray = np.argsort(self.instance.arrival, kind="stable")
        self.arrival: list[int] = self.instance.arrival[self.order].tolist()
        self.need: list[int] = self.instance.first_need[self.order].tolist()
        self.length: list[int] = self.instance.num_batches[self.order].tolist()
        self.hope: list[int] = self.believed[self.order].tolist()
        self.prompt: list[int] = self.instance.prompt[self.order].tolist()
        self.index: list[int] = self.order.tolist()
        self.journal = Journal(len(self.instance))
        self.clearing: Clearing = clearing_of(self.policy)
        self.waiting: Waiting | None = None

    def run(self) -> tuple[CacheVerdict, str]:
        """Serve everything, or stop; return the verdict and the key of its reason."""
        while self.queue or self.running or self.revealed < len(self.arrival):
            if not self.queue and not self.running:
                self.clock = max(self.clock, self.arrival[self.revealed])
            if stop := self._make_room():
                return stop
            self._reveal()
            if not self._start():
                return CacheVerdict.STOPPED, "idle"
            if self.running:
                if len(self.journal.batches) == self.limits.batches:
                    return CacheVerdict.STOPPED, "batches"
                self._complete(self._run_batch())
        return CacheVerdict.FINISHED, ""

    def _make_room(self) -> tuple[CacheVerdict, str] | None:
        for i, stay in self.running.items():
            if stay.done >= self.hope[i]:
                self.hope[i] = stay.done + 1
                self.watch.learned()
        if self._used() <= self.instance.memory:
            return None
        self.overflows += 1
        self._clear()
        all_revealed = self.revealed == len(self.arrival)
        first_come = getattr(self.policy, "first_come", False) is True
        back = self.watch.cleared(self.clearing.is_full, first_come, all_revealed)
        if back and getattr(self.policy, "memoryless", False) is True:
            return CacheVerdict.LOOP, "loop"
        if self.watch.clearings == self.limits.fruitless_clearings:
            return CacheVerdict.STOPPED, "clearings"
        return None

    def _used(self) -> int:
        return sum(self.need[i] + stay.done for i, stay in self.running.items())

    def _clear(self) -> None:
        full, chance = self.clearing.is_full, float(self.clearing.probability)
        while True:
            self.draws += 1
            for i in sorted(self.running):
                if full or self.rng.random() < chance:
                    self._close(i, StayEnd.CLEARED)
                    insort(self.queue, i)
            self.waiting = None
            if self._used() <= self.instance.memory:
                return
            self.clock += self.clearing.pause

    def _close(self, i: int, end: StayEnd) -> None:
        stay = self.running.pop(i)
        self.journal.close_stay(self.index[i], stay.first_batch, stay.done, end)

    def _reveal(self) -> None:
        while self.revealed < len(self.arrival) and self.arrival[self.revealed] <= self.clock:
            # Later than everyone revealed before, so the queue stays sorted.
            self.queue.append(self.revealed)
            self.revealed += 1
            self.waiting = None

    def _start(self) -> bool:
        """Let the policy start requests; False if it has idled for too long."""
        for i in self._ask():
            del self.queue[bisect_left(self.queue, i)]
            self.running[i] = Stay(len(self.journal.batches))
            self.journal.start[self.index[i]] = self.clock
            self.waiting = None
        self.watch.decided(not self.queue)
        if self.running:
            self.idle = 0
            return True
        self.idle += 1
        self.clock += self.instance.batch_time.base
        return self.idle < self.limits.idle

    def _state(self) -> CacheState:
        running = sorted(self.running)
        done = [self.running[i].done for i in running]
        return CacheState(
            clock=self.clock,
            memory=self.instance.memory,
            waiting=self._waiting(),
            running=_array([self.index[i] for i in running]),
            need=_array([self.need[i] + d for i, d in zip(running, done, strict=True)]),
            batches_left=_array([self.hope[i] - d for i, d in zip(running, done, strict=True)]),
            rng=self.rng,
        )

    def _waiting(self) -> Waiting:
        if self.waiting is None:
            columns = (self.index, self.arrival, self.need, self.hope)
            self.waiting = Waiting(*(_array([col[i] for i in self.queue]) for col in columns))
        return self.waiting

    def _ask(self) -> list[int]:
        """Return the requests that the policy starts now."""
        if not self.queue:
            return []
        where = f"policy {self.name}, clock {self.clock}"
        with users_code(where, remedy="mend the policy"):
            answer = self.policy(self._state())
        positions = checked_choice(answer, range(len(self.queue)), where, "position")
        chosen = [self.queue[position] for position in positions]
        excess = self._used() + sum(self.need[i] for i in chosen) - self.instance.memory
        if chosen and excess > 0:
            raise InputError(
                where,
                f"the batch would exceed the memory by {excess} tokens",
                "start fewer requests",
            )
        return chosen

    def _run_batch(self) -> int:
        """Run one batch and return its number."""
        batch, stays = len(self.journal.batches), self.running.values()
        context = sum(stay.done for stay in stays)
        prompt = sum(self.prompt[i] for i, stay in self.running.items() if stay.done == 0)
        duration = self.instance.batch_time.duration(len(stays), context, prompt)
        waiting = len(self.queue)
        row = (self.clock, duration, self._used(), len(stays), waiting)
        self.journal.batches.append(row)
        self.clock += duration
        for stay in stays:
            stay.done += 1
        return batch

    def _complete(self, batch: int) -> None:
        begin, duration = self.journal.batches[batch][:2]
        end = begin if self.instance.convention is Convention.CLOSED else begin + duration
        for i in sorted(i for i, stay in self.running.items() if stay.done == self.length[i]):
            self._close(i, StayEnd.COMPLETED)
            self.journal.completion[self.index[i]] = end
            self.watch.progress()


def run_reference(
    instance: CacheInstance,
    policy: CachePolicy,
    name: str,
    believed: IntArray,
    rng: np.random.Generator,
    limits: CacheLimits,
) -> CacheRun:
    """Serve the instance.

    Parameters
    ----------
    instance : CacheInstance
        What to serve.
    policy : CachePolicy
        Who starts when.
    name : str
        Its name.
    believed : IntArray
        Shape (n,): batches each request is believed to occupy.
    rng : numpy.random.Generator
        The only source of randomness.
    limits : CacheLimits
        When to give up.
    """
    engine = CacheEngine(instance, policy, name, believed, rng, limits)
    verdict, reason = engine.run()
    for i in sorted(engine.running):
        stay = engine.running[i]
        engine.journal.close_stay(engine.index[i], stay.first_batch, stay.done, StayEnd.OPEN)
    return CacheRun(
        instance=instance,
        algorithm=name,
        verdict=verdict,
        reason=REASONS.get(reason, ""),
        start=frozen(engine.journal.start),
        completion=frozen(engine.journal.completion),
        batches=engine.journal.batch_table(),
        stays=engine.journal.stay_table(),
        overflows=engine.overflows,
        draws=engine.draws,
        statistics=policy_statistics(policy, name),
    )


def _array(values: list[int]) -> IntArray:
    return frozen(np.array(values, dtype=np.int64))
