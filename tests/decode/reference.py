"""A second engine, one object per request and nothing vectorised: the oracle of the tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.state import DecodeState
from bfio.workloads.workload import Workload

Policy = Callable[[DecodeState], Sequence[int | None]]


@dataclass
class Job:
    """One request as the reference engine sees it."""

    index: int
    prompt: int
    output: int
    load: int
    emitted: int = 0
    reveal: int = -1
    start: int = -1
    finish: int = -1
    worker: int = -1
    told: int | None = None
    reveal_s: float = float("nan")


@dataclass
class Reference:
    """A naive simulation; the arguments are those of `bfio.simulate`."""

    workload: Workload
    policy: Policy
    cluster: Cluster
    pool: int | None
    dispatch: str
    horizon: int
    projection: str
    predictor: str
    window_knows: str
    drift: Drift
    steps: int | None
    seed: int
    arrival_s: list[float] = field(default_factory=list)
    #: Predicted remaining steps by request and age, asked after every ``refresh`` tokens.
    ask: Callable[[int, int], int] | None = None
    refresh: int = 1
    counts_down: bool = False

    def __post_init__(self) -> None:
        """Start with every request undiscovered and every worker empty."""
        lengths = zip(
            self.workload.prompt_tokens.tolist(), self.workload.output_tokens.tolist(), strict=True
        )
        self.jobs = [Job(i, s, o, s) for i, (s, o) in enumerate(lengths)]
        self.hidden, self.waiting = list(self.jobs), list[Job]()
        self.active = list[Job]()
        # The contract: stream 1 of the seed, apart from that of generated requests.
        self.rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(1,)))
        self.step, self.clock, self.idle = 0, 0.0, 0.0
        self.trace: list[dict[str, object]] = []

    def simulate(self) -> "Reference":
        """Run until the steps are used up or every request has finished."""
        while self.step != self.steps and any(job.finish < 0 for job in self.jobs):
            self.predict(self.active)
            self.reveal()
            admitted = self.admit()
            self.predict(admitted)
            if self.active:
                self.run(admitted)
            else:
                self.idle += self.arrival_s[self.hidden[0].index] - self.clock
                self.clock = self.arrival_s[self.hidden[0].index]
        return self

    def may_reveal(self) -> bool:
        """Whether the next hidden request becomes visible now."""
        if not self.hidden:
            return False
        if self.pool is None:
            return self.arrival_s[self.hidden[0].index] <= self.clock
        return len(self.waiting) < self.pool

    def reveal(self) -> None:
        """Reveal one request after another; immediate dispatch binds them afterwards, in order."""
        fresh = []
        while self.may_reveal():
            job = self.hidden.pop(0)
            job.reveal, job.reveal_s = self.step, self.clock
            self.waiting.append(job)
            fresh.append(job)
        if self.dispatch == "immediate":
            for job in fresh:
                (worker,) = self.policy(self.state([job], [1] * self.cluster.workers))
                assert worker is not None
                job.worker = worker

    def free(self) -> list[int]:
        """Free slots of each worker."""
        G = self.cluster.workers
        return [self.cluster.slots - sum(j.worker == g for j in self.active) for g in range(G)]

    def admit(self) -> list[Job]:
        """Start the requests the policy chose, or those at the heads of the queues."""
        free = self.free()
        if not self.waiting or sum(free) == 0:
            return []
        if self.dispatch == "pooled":
            decision = list(self.policy(self.state(self.waiting, free)))
        else:
            decision = []
            for job in self.waiting:
                starts = free[job.worker] > 0
                decision.append(job.worker if starts else None)
                free[job.worker] -= int(starts)
        admitted = []
        for job, worker in list(zip(self.waiting, decision, strict=True)):
            if worker is not None:
                job.worker, job.start = worker, self.step
                self.waiting.remove(job)
                self.active.append(job)
                admitted.append(job)
        return admitted

    def run(self, admitted: list[Job]) -> None:
        """Run one step: measure, emit, grow, complete."""
        G, cluster = self.cluster.workers, self.cluster
        loads = [sum(j.load for j in self.active if j.worker == g) for g in range(G)]
        running = [sum(j.worker == g for j in self.active) for g in range(G)]
        duration = (
            cluster.step_overhead_s
            + cluster.token_time_s * max(loads)
            + cluster.mean_time_s * (sum(loads) / G)
        )
        self.trace.append(
            {
                "loads": loads,
                "running": running,
                "start_s": self.clock,
                "duration_s": duration,
                "idle_before_s": self.idle,
                "waiting": len(self.waiting),
                "admitted": len(admitted),
            }
        )
        for job in list(self.active):
            job.load += self.increment(job.emitted, self.step)
            job.emitted += 1
            job.told = None if job.told is None else job.told - 1
            if job.emitted == job.output:
                job.finish = self.step
                self.active.remove(job)
        self.clock, self.idle, self.step = self.clock + duration, 0.0, self.step + 1

    def increment(self, emitted: int, step: int) -> int:
        """Tokens a request gains after its ``emitted + 1``-th step, which is step ``step``."""
        period = self.drift.increments
        by_age = self.drift.reading is DriftReading.AGE
        return period[(emitted if by_age else step) % len(period)]

    def projected(self, job: Job) -> list[int]:
        """Predicted load of a request at each step of the window, from now on."""
        loads, load = [], job.load
        for h in range(self.horizon + 1):
            left = self.left(job)
            loads.append(0 if left is not None and h >= left else load)
            if self.projection == "growing":
                load += self.increment(job.emitted + h, self.step + h)
        return loads

    def predict(self, jobs: list[Job]) -> None:
        """Ask about requests whose turn it is; ``told`` is what is left of the last answer."""
        for job in jobs:
            if self.ask is not None and (job.emitted % self.refresh == 0 or job.told == 0):
                job.told = self.ask(job.index, job.emitted)
                if job.told > self.horizon and not self.counts_down:
                    job.told = None

    def left(self, job: Job) -> int | None:
        """Return the steps that a request has left as far as the policy may know, or None."""
        if job.start < 0 and self.window_knows == "active":
            return None
        if self.ask is None:
            return job.output - job.emitted if self.predictor == "oracle" else None
        return self.ask(job.index, 0) if job.start < 0 else job.told

    def state(self, shown: list[Job], free: list[int]) -> DecodeState:
        """Show the policy what the engine shows it."""
        G, width = self.cluster.workers, self.horizon + 1
        base = [[0] * width for _ in range(G)]
        runs = [[0] * width for _ in range(G)]
        for job in self.active:
            for h, load in enumerate(self.projected(job)):
                base[job.worker][h] += load
                runs[job.worker][h] += load > 0
        bound = [j for j in self.waiting if j.worker >= 0]
        return DecodeState(
            step=self.step,
            slots=self.cluster.slots,
            loads=np.array([row[0] for row in base]),
            projected_loads=np.array(base),
            free_slots=np.array(free),
            running=np.array([sum(j.worker == g for j in self.active) for g in range(G)]),
            projected_running=np.array(runs),
            queued=np.array([sum(j.worker == g for j in bound) for g in range(G)]),
            queued_tokens=np.array(
                [sum(j.prompt for j in bound if j.worker == g) for g in range(G)]
            ),
            sizes=np.array([j.prompt for j in shown]),
            ages=np.array([self.step - j.reveal for j in shown]),
            contributions=np.array([self.projected(j) for j in shown]),
            rng=self.rng,
        )
