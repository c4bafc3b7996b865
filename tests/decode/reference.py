"""A naive engine, one object per request and nothing vectorised: the oracle of the tests."""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bfio.batching.policy import BatchState, policy_of_engine
from bfio.batching.registry import build
from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.features.prefill import PrefillReplay
from bfio.decode.features.telemetry import losses
from bfio.decode.option_kinds import PrefillTier, Telemetry
from bfio.decode.policy import Decision, max_pauses_of
from bfio.decode.state import ActiveRequests, DecodeState
from bfio.workloads.workload import Workload

Policy = Callable[[DecodeState], Sequence[int | None]]


@dataclass
class Job:
    """State of one request in the reference engine."""

    index: int
    prompt: int
    output: int
    load: int
    emitted: int = 0
    reveal: int = -1
    start: int = -1
    finish: int = -1
    worker: int = -1
    bound: int = -1
    told: int | None = None
    reveal_s: float = float("nan")
    begun: int = -1
    ready_s: float = 0.0
    need: int = 0
    cancel: int = -1
    rested: int = 0
    rests: bool = False
    prompt_left: int = 0
    chunk: int = 0
    entered: int = -1
    ready: tuple[float, int] | None = None


@dataclass
class Reference:
    """A naive simulation; the arguments are those of `bfio.simulate`."""

    workload: Workload
    policy: Policy
    cluster: Cluster
    pool: int | None
    dispatch: str
    margin: int | None
    horizon: int
    projection: str
    predictor: str
    window_knows: str
    drift: Drift
    steps: int | None
    seed: int
    arrival_s: list[float] = field(default_factory=list)
    #: Predicted remaining steps by request and age, queried after every ``refresh`` tokens.
    ask: Callable[[int, int], int] | None = None
    refresh: int = 1
    counts_down: bool = False
    overflow: str = "recompute"
    swap_time_s: float = 2e-5
    delay: int = 0
    failures: tuple[tuple[float, int, str], ...] = ()
    cancellations: tuple[tuple[float, int], ...] = ()
    prefill: PrefillTier | None = None
    telemetry: Telemetry | None = None
    batching: str = "sarathi"

    def __post_init__(self) -> None:
        """Start with all requests unreleased and all workers empty."""
        lengths = zip(
            self.workload.prompt_tokens.tolist(), self.workload.output_tokens.tolist(), strict=True
        )
        self.jobs = [Job(i, s, o, s) for i, (s, o) in enumerate(lengths)]
        self.hidden, self.waiting = list(self.jobs), list[Job]()
        self.active, self.host = list[Job](), list[Job]()
        self.memory = self.cluster.worker_memory().tolist()
        self.limited = self.cluster.memory is not None
        for job in self.jobs:
            gain = self.drift.largest_gain(job.output - 1)
            by_step = self.drift.reading is DriftReading.GLOBAL_STEP
            may_rest = max_pauses_of(self.policy) or self.batches
            if self.failures or self.cancellations or (by_step and may_rest):
                gain = (job.output - 1) * max(self.drift.increments)
            job.need = job.prompt + gain if self.reserves else job.load
            job.prompt_left = job.prompt if self.batches else 0
        rule = build(self.batching)
        self.rules = [policy_of_engine(rule) for _ in range(self.cluster.workers)]
        self.chunks: list[tuple[int, int, int]] = []
        self.num_entered = 0
        self.events, self.down = list(self.failures), set[int]()
        self.caches = [OrderedDict[int, None]() for _ in range(self.cluster.workers)]
        self.interruptions: list[tuple[int, int, int, int, int]] = []
        self.tier: PrefillReplay | None = None
        if self.prefill is not None:
            arrivals = deque(zip(self.arrival_s, range(len(self.jobs)), strict=True))
            prompts = [job.prompt for job in self.jobs]
            self.tier, self.hidden = PrefillReplay(self.prefill, prompts, arrivals), []
        self.known: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self.past: dict[int, list[dict[str, Any]]] = {}
        self.telemetry = Telemetry.parsed(self.telemetry, "telemetry")
        self.lost = losses(self.telemetry or Telemetry(), self.cluster.workers, self.seed)
        # As documented: stream 1 of the seed, separate from that of generated requests.
        self.rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(1,)))
        self.step, self.clock, self.idle = 0, 0.0, 0.0
        self.trace: list[dict[str, object]] = []
        self.max_pauses = max_pauses_of(self.policy)
        self.rests: list[tuple[int, int]] = []

    def simulate(self) -> "Reference":
        """Run until the steps are used up or every request has finished."""
        while self.step != self.steps and any(
            job.finish < 0 and job.cancel < 0 for job in self.jobs
        ):
            self.compute_prompts()
            self.fail()
            if self.pool is None:
                self.reveal()
            self.cancel()
            self.relieve()
            self.compute_prompts()
            self.reveal()
            self.swap_in()
            self.predict(self.active)
            self.report()
            self.bind()
            admitted = self.pause() if self.max_pauses is not None else self.admit()
            if not self.active and self.delay:
                admitted = self.hurry()
            if self.active:
                self.run(admitted)
            elif any(job.finish < 0 and job.cancel < 0 for job in self.jobs):
                upcoming = [job.ready_s for job in self.host]
                upcoming += [time for time, _, _ in self.events]
                upcoming += [time for time, _ in self.cancellations]
                if self.hidden and self.pool is None:
                    upcoming.append(self.arrival_s[self.hidden[0].index])
                upcoming = [time for time in upcoming if time > self.clock]
                # A cancelled request may have made room for one that is ready at once.
                later = min(upcoming + self.next_ready())
                self.idle += later - self.clock
                self.clock = later
        for job in self.jobs:
            if job.reveal == self.step:
                # It arrived and was cancelled after the last step.
                job.reveal, job.reveal_s = -1, float("nan")
        return self

    def compute_prompts(self) -> None:
        """Advance the prefill tier to now; ready requests start to wait."""
        if self.tier is None:
            return
        self.show_pool(self.tier)
        self.tier.go_on(self.clock, self.step)
        for job in [job for job in self.waiting if job.ready and job.index not in self.tier.ready]:
            self.waiting.remove(job)
            job.ready, job.reveal, job.reveal_s = None, -1, float("nan")
        for index, ready in self.tier.ready.items():
            job = self.jobs[index]
            if ready != job.ready:
                if job not in self.waiting:
                    self.waiting.append(job)
                job.ready, job.reveal, job.reveal_s = ready, self.step, self.clock
        if self.dispatch == "pooled":
            self.waiting.sort(key=lambda job: job.index)

    def show_pool(self, tier: PrefillReplay) -> None:
        """Show the tier which requests are in the pool; those that have run have no cache."""
        tier.pool = {job.index for job in self.waiting if job.worker < 0}
        for job in self.jobs:
            if job.start >= 0:
                tier.cache_ends.pop(job.index, None)

    def next_ready(self) -> list[float]:
        """Next time a request becomes ready if no other event occurs before."""
        if self.tier is None:
            return []
        tier = deepcopy(self.tier)
        self.show_pool(tier)
        while (time := tier.next_s()) < float("inf"):
            before = dict(tier.ready)
            tier.go_on(time, self.step)
            if any(before.get(who) != ready for who, ready in tier.ready.items()):
                return [time]
        return []

    def pause(self) -> list[Job]:
        """Get the starts and preemptions from a pausing policy."""
        free, held = self.free(), sorted(self.active, key=lambda job: job.index)
        for job in held:
            job.rests, job.rested = False, 0 if job.begun == self.step else job.rested
        if not held and not (self.waiting and sum(free)):
            return []
        columns = [[j.index, j.worker, j.load, j.rested, j.prompt] for j in held]
        answer = self.policy(
            replace(
                self.state(self.waiting, free),
                holdings=lambda: ActiveRequests(*np.array(columns).reshape(-1, 5).T),
                step_units=self.cluster.step_units(),
            )
        )
        assert isinstance(answer, Decision)
        for place in answer.rests:
            held[place].rests = True
        return self.start_chosen(list(answer))

    @property
    def batches(self) -> bool:
        """Whether prompts are computed on the workers."""
        return self.cluster.token_budget is not None

    @property
    def reserves(self) -> bool:
        """Whether peaks are reserved."""
        return self.limited and self.overflow == "reserve"

    def on(self, worker: int) -> list[Job]:
        """Return the requests running on a worker."""
        return [job for job in self.active if job.worker == worker]

    def room(self, worker: int) -> int:
        """Memory that is left on a worker."""
        jobs = self.on(worker)
        held = sum(job.need if self.reserves else job.load for job in jobs)
        return int(self.memory[worker] - held)

    def fail(self) -> None:
        """Apply the failures and recoveries that are due."""
        while self.events and self.events[0][0] <= self.clock:
            _, worker, event = self.events.pop(0)
            if event == "recover":
                self.down.remove(worker)
                continue
            self.down.add(worker)
            self.caches[worker].clear()
            for job in sorted(self.on(worker), key=lambda job: job.index):
                self.active.remove(job)
                self.interruptions.append((job.index, worker, job.begun, self.step, 2))
                job.told = None
                if not self.reserves:
                    job.need = job.load
                self.waiting.append(job)
                job.worker = job.bound = -1
            for job in self.waiting:
                if job.worker == worker:
                    job.worker = job.bound = -1
            if self.dispatch == "pooled":
                self.waiting.sort(key=lambda job: job.index)

    def relieve(self) -> None:
        """Evict the youngest requests from workers that exceed their memory."""
        for worker in range(self.cluster.workers):
            while sum(job.load for job in self.on(worker)) > self.memory[worker]:
                job = max(self.on(worker), key=lambda job: (job.begun, job.index))
                self.active.remove(job)
                goes_back = job.load <= self.memory[worker]
                swapped = goes_back and self.overflow == "swap"
                entry = (job.index, worker, job.begun, self.step, int(swapped))
                self.interruptions.append(entry)
                job.told, job.need = None, job.load
                if swapped:
                    job.ready_s = self.clock + self.swap_time_s * job.load
                    self.host.append(job)
                elif goes_back and self.dispatch == "immediate":
                    self.waiting.insert(0, job)
                else:
                    job.worker = job.bound = -1
                    self.waiting.append(job)
                    if self.dispatch == "pooled":
                        self.waiting.sort(key=lambda job: job.index)

    def swap_in(self) -> None:
        """Swap in requests from host memory where possible."""
        for job in list(self.host):
            slots = int(self.cluster.worker_slots()[job.worker])
            up = job.worker not in self.down
            fits = up and len(self.on(job.worker)) < slots and job.load <= self.room(job.worker)
            if fits and job.ready_s <= self.clock:
                self.host.remove(job)
                self.active.append(job)
                job.begun = self.step

    def may_reveal(self) -> bool:
        """Whether the next hidden request becomes visible now."""
        if not self.hidden:
            return False
        if self.pool is None:
            return self.arrival_s[self.hidden[0].index] <= self.clock
        return len(self.waiting) < self.pool

    def reveal(self) -> None:
        """Release requests one by one; immediate dispatch then binds them in order."""
        while self.may_reveal():
            job = self.hidden.pop(0)
            job.reveal, job.reveal_s = self.step, self.clock
            self.waiting.append(job)

    def cancel(self) -> None:
        """Remove cancelled requests."""
        for time, request in self.cancellations:
            job = self.jobs[request]
            if time > self.clock or job.finish >= 0 or job.cancel >= 0:
                continue
            job.cancel, job.told = self.step, None
            if job in self.active:
                self.interruptions.append((request, job.worker, job.begun, self.step, 3))
            for jobs in (self.waiting, self.active, self.host):
                if job in jobs:
                    jobs.remove(job)
            if self.tier is not None:
                self.tier.cancel(request)

    def bind(self) -> None:
        """Ask the policy about each unbound request, with immediate dispatch."""
        if self.dispatch != "immediate":
            return
        unbound = sorted((j for j in self.waiting if j.worker < 0), key=lambda job: job.index)
        if getattr(self.policy, "binds_together", False):
            if unbound and any(self.left()):
                answer = list(self.policy(self.state(unbound, self.left())))
                for job, worker in zip(unbound, answer, strict=True):
                    self.join_queue(job, worker)
            return
        for job in unbound:
            open_to_it = [
                left > 0 and job.need <= self.memory[g] for g, left in enumerate(self.left())
            ]
            if any(open_to_it):
                (worker,) = self.policy(self.state([job], self.left()))
                assert worker is not None
                self.join_queue(job, worker)

    def join_queue(self, job: Job, worker: int | None) -> None:
        """Bind a request, unless its worker is too small or its queue is full."""
        is_full = self.margin is not None and worker is not None and self.left()[worker] == 0
        if worker is not None and job.need <= self.memory[worker] and not is_full:
            job.worker, job.bound = worker, self.step
            if self.told:
                self.told[worker]["queued"] += 1
                self.told[worker]["queued_tokens"] += job.load
            # It is the last in its worker's queue.
            self.waiting.remove(job)
            self.waiting.append(job)

    def left(self) -> list[int]:
        """Return how many more requests may be sent to each worker."""
        together = [*self.active, *self.host, *self.waiting]
        left = []
        for g, slots in enumerate(self.cluster.worker_slots().tolist()):
            flying = sum(job.worker == g for job in together)
            most = flying + 1 if self.margin is None else slots + self.margin
            left.append(0 if g in self.down else max(0, most - flying))
        return left

    def free(self) -> list[int]:
        """Free slots of each worker."""
        slots = self.cluster.worker_slots().tolist()
        away = {job.worker for job in self.host} | self.down
        return [
            0 if g in away else slots[g] - len(self.on(g)) for g in range(self.cluster.workers)
        ]

    def hurry(self) -> list[Job]:
        """Apply the next delayed decisions now."""
        free = self.free()
        bound = sorted((j for j in self.waiting if j.worker >= 0), key=lambda j: j.bound)
        fit = [j for j in bound if free[j.worker] > 0 and j.need <= self.room(j.worker)]
        heads = [j for j in fit if j is next(k for k in self.queue() if k.worker == j.worker)]
        if not heads:
            return []
        latest = min(job.bound for job in heads)
        return self.land(latest) if self.dispatch == "pooled" else self.admit(latest)

    def queue(self) -> list[Job]:
        """Return the bound requests, in order of their starts on each worker."""
        jobs = [job for job in self.waiting if job.worker >= 0]
        if self.dispatch == "pooled":
            jobs.sort(key=lambda job: (job.bound, job.index))
        return jobs

    def land(self, latest: int) -> list[Job]:
        """Start the requests that were bound up to a step, or return them to the queue."""
        landed = []
        for job in [job for job in self.queue() if job.bound <= latest]:
            if self.free()[job.worker] > 0 and job.need <= self.room(job.worker):
                self.start(job)
                landed.append(job)
            else:
                job.worker = job.bound = -1
        return landed

    def start(self, job: Job) -> None:
        """Start a bound request on its worker."""
        job.begun = self.step
        job.start = self.step if job.emitted == 0 else job.start
        self.waiting.remove(job)
        self.active.append(job)
        self.predict([job])

    def send(self) -> None:
        """Ask the policy, and reserve slots and memory for the requests that it sends."""
        free = self.free()
        for job in self.queue():
            free[job.worker] = max(0, free[job.worker] - 1)
        unbound = [job for job in self.waiting if job.worker < 0]
        if unbound and sum(free):
            answer = list(self.policy(self.state(unbound, free)))
            for job, worker in zip(unbound, answer, strict=True):
                if worker is not None and job.need <= self.open_room(worker):
                    job.worker, job.bound = worker, self.step

    def open_room(self, worker: int) -> int:
        """Memory that is not reserved for requests in flight."""
        return self.room(worker) - sum(job.need for job in self.queue() if job.worker == worker)

    def admit(self, latest: int | None = None) -> list[Job]:
        """Start the requests the policy chose, or those at the heads of the queues."""
        if self.dispatch == "pooled" and self.delay:
            landed = self.land(self.step - self.delay)
            self.send()
            return landed
        latest = self.step - self.delay if latest is None else latest
        free = self.free()
        if not self.waiting or sum(free) == 0:
            return []
        if self.dispatch == "pooled":
            decision = list(self.policy(self.state(self.waiting, free)))
        else:
            decision = []
            room = [self.room(g) for g in range(self.cluster.workers)]
            for job in self.waiting:
                # A request that does not fit blocks the ones after it in its queue.
                starts = job.worker >= 0 and free[job.worker] > 0 and job.need <= room[job.worker]
                starts = starts and job.bound <= latest
                decision.append(job.worker if starts else None)
                if starts:
                    free[job.worker] -= 1
                    room[job.worker] -= job.need
                elif job.worker >= 0:
                    free[job.worker] = 0
        return self.start_chosen(decision)

    def start_chosen(self, decision: list[int | None]) -> list[Job]:
        """Start the chosen requests that fit."""
        admitted = []
        for job, worker in list(zip(self.waiting, decision, strict=True)):
            if worker is not None and job.need <= self.room(worker):
                job.bound = job.bound if job.worker >= 0 else self.step
                job.worker = worker
                self.start(job)
                job.rests, job.rested = False, 0
                admitted.append(job)
        return admitted

    def run(self, admitted: list[Job]) -> None:
        """Run one step: measure, emit, grow, complete."""
        G, cluster = self.cluster.workers, self.cluster
        if self.batches:
            self.form_batches()
        runs = [job for job in self.active if not job.rests]
        chunks = [job for job in self.active if job.chunk]
        loads = [
            sum(j.load for j in runs if j.worker == g)
            + sum(j.prompt - j.prompt_left for j in chunks if j.worker == g)
            for g in range(G)
        ]
        running = [sum(j.worker == g for j in runs) for g in range(G)]
        overhead, per_token = (each.tolist() for each in cluster.worker_times())
        speeds = np.broadcast_to(cluster.speed, G).tolist()
        for g in range(G):
            tokens = running[g] + sum(job.chunk for job in chunks if job.worker == g)
            beyond = max(0, tokens - cluster.free_tokens)
            overhead[g] += cluster.batch_token_time_s / speeds[g] * beyond
        duration = max(
            overhead[g] + per_token[g] * loads[g] for g in range(G)
        ) + cluster.mean_time_s * (sum(loads) / G)
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
        if cluster.prefix_cache is not None:
            ordered = sorted(admitted, key=lambda job: job.index)
            self.trace[-1]["prefix_hit_tokens"] = sum(map(self.look_up, ordered))
        for job in self.active:
            job.rested = job.rested + 1 if job.rests else 0
            if job.rests:
                self.rests.append((job.index, self.step))
        for g in range(G if self.batches else 0):
            for job in self.on(g):
                self.compute(job)
        for job in runs:
            job.load += self.increment(job.emitted, self.step)
            job.emitted += 1
            job.told = None if job.told is None else job.told - 1
            if job.emitted == job.output:
                job.finish = self.step
                self.active.remove(job)
        self.clock, self.idle, self.step = self.clock + duration, 0.0, self.step + 1

    def form_batches(self) -> None:
        """Ask each worker's rule for its batch: the tokens of each of its requests."""
        for g, budget in enumerate(self.cluster.worker_budgets().tolist()):
            # Active requests are in the order of their starts.
            jobs = self.on(g)
            knows = getattr(self.rules[g], "knows_lengths", False)
            seen = BatchState(
                slot=self.step,
                budget=budget,
                chunked=True,
                prefill=[job.prompt_left for job in jobs],
                stage=["requests"] * len(jobs),
                rank=[0] * len(jobs),
                entered=[job.entered for job in jobs],
                lengths=[job.output - job.emitted for job in jobs] if knows else None,
            )
            for job, tokens in zip(jobs, self.rules[g](seen) if jobs else [], strict=True):
                job.chunk = tokens if job.prompt_left else 0
                job.rests = bool(job.prompt_left) or tokens == 0

    def compute(self, job: Job) -> None:
        """Compute a job's chunk of the batch."""
        if job.chunk:
            self.chunks.append((self.step, job.index, job.chunk))
            job.prompt_left -= job.chunk
            job.chunk = 0
            if job.prompt_left == 0:
                job.entered = self.num_entered
                self.num_entered += 1

    def look_up(self, job: Job) -> int:
        """Return the cached part of a starting job's prompt, and cache its blocks."""
        cache, hashes = self.caches[job.worker], self.workload.prompt_blocks
        assert hashes is not None
        blocks, most = hashes[job.index], int(self.cluster.worker_prefix_blocks()[job.worker])
        found = 0
        while found < len(blocks) and int(blocks[found]) in cache:
            found += 1
        for block in blocks[:most][::-1].tolist():
            cache.pop(block, None)
            cache[block] = None
            if len(cache) > most:
                cache.popitem(last=False)
        return min(512 * found, job.prompt)

    def increment(self, emitted: int, step: int) -> int:
        """Tokens a request gains after its ``emitted + 1``-th step, which is step ``step``."""
        period = self.drift.increments
        by_age = self.drift.reading is DriftReading.AGE
        return period[(emitted if by_age else step) % len(period)]

    def projected(self, job: Job, ends: bool = True) -> list[int]:
        """Predicted load of a request at each step of the window, from now on."""
        loads, load = [], job.load
        for h in range(self.horizon + 1):
            left = self.steps_left(job) if ends else None
            loads.append(0 if left is not None and h >= left else load)
            if self.projection == "growing":
                load += self.increment(job.emitted + h, self.step + h)
        return loads

    def predict(self, jobs: list[Job]) -> None:
        """Query predictions that are due; ``told`` is the remainder of the last answer."""
        for job in jobs:
            due = job.emitted % self.refresh == 0 or job.told == 0 or job.begun == self.step
            if self.ask is not None and due:
                job.told = self.ask(job.index, job.emitted)
                if job.told > self.horizon and not self.counts_down:
                    job.told = None

    def steps_left(self, job: Job) -> int | None:
        """Return the remaining steps of a request if the policy may know them, or None."""
        waits = job not in self.active
        if waits and self.window_knows == "active":
            return None
        if self.ask is None:
            return job.output - job.emitted if self.predictor == "oracle" else None
        return self.ask(job.index, job.emitted) if waits else job.told

    def now(self, worker: int) -> dict[str, Any]:
        """Return the current load of a worker."""
        base, runs = [0] * (self.horizon + 1), [0] * (self.horizon + 1)
        for job in self.on(worker):
            for h, load in enumerate(self.projected(job)):
                base[h] += load
                runs[h] += load > 0
        bound = [job for job in self.waiting if job.worker == worker]
        return {
            "base": base,
            "runs": runs,
            "running": len(self.on(worker)),
            "queued": len(bound),
            "queued_tokens": sum(job.load for job in bound),
            "room": self.room(worker),
            "pending": sum(job.prompt_left for job in self.on(worker)),
        }

    def report(self) -> None:
        """Send the workers' load reports, and apply those that have arrived."""
        if self.telemetry is None:
            return
        workers, step, first = range(self.cluster.workers), self.step, self.step
        if not self.active:
            first -= self.telemetry.delay
        for earlier in range(first, step + 1):
            self.past[earlier] = [self.now(g) for g in workers]
        arrived = self.past[step - self.telemetry.delay]
        sent = step - self.telemetry.delay
        lost = self.lost[sent % len(self.lost)] if sent >= 0 else [0] * len(workers)
        before = self.known or arrived
        self.known = [before[g] if lost[g] and self.active else arrived[g] for g in workers]
        self.told = [dict(each) for each in self.known]

    def state(self, shown: list[Job], free: list[int]) -> DecodeState:
        """Show the policy what the engine shows it."""
        G = self.cluster.workers
        told = self.told or [self.now(g) for g in range(G)]
        # The growth of a request of size 0.
        growth = self.projected(Job(-1, 0, 1, 0), ends=False)
        virtual = [
            [each["queued_tokens"] + each["queued"] * more for more in growth] for each in told
        ]
        held = [
            sum(job.need for job in self.queue() if job.worker == g) if self.delay else 0
            for g in range(G)
        ]
        room = [each["room"] - more for each, more in zip(told, held, strict=True)]
        return DecodeState(
            step=self.step,
            slots=max(
                0 if g in self.down else int(slots)
                for g, slots in enumerate(self.cluster.worker_slots())
            ),
            loads=np.array([each["base"][0] for each in told]),
            projected_loads=np.array([each["base"] for each in told]),
            free_slots=np.array(free),
            running=np.array([each["running"] for each in told]),
            projected_running=np.array([each["runs"] for each in told]),
            queued=np.array([each["queued"] for each in told]),
            queued_tokens=np.array([each["queued_tokens"] for each in told]),
            sizes=np.array([j.load for j in shown]),
            ages=np.array([self.step - j.reveal for j in shown]),
            contributions=np.array([self.projected(j) for j in shown], dtype=np.int64).reshape(
                -1, self.horizon + 1
            ),
            rng=self.rng,
            room=np.array(self.memory if self.dispatch == "immediate" else room),
            needs=np.array([j.need for j in shown]),
            reserves=self.reserves,
            token_time=self.cluster.paces()[0],
            overhead_tokens=self.cluster.paces()[1],
            binds=self.dispatch == "immediate",
            pending_prefill=np.array([each["pending"] for each in told]),
            bound_loads=np.array(virtual) if any(each["queued"] for each in told) else None,
        )
