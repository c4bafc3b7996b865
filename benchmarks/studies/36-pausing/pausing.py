"""Runs in which active requests may rest: a loop around the program of one step.

It is older than the policy `pausing` of the engine, and apart from it: workers with slots, a pool
of waiting requests in order of the trace, loads that grow by a token when one is emitted. What it
does without rests is compared with the engine, in every row.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.metrics import jain_index
from bfio.decode.simulation import describe_run, simulate
from bfio.pausing.heuristic import quick_step
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Described, RowKind
from bfio.studies.row_parts.workload_arguments import lengths_digest
from bfio.workloads import read_trace
from bfio.workloads.generators import resample
from bfio.workloads.workload import Workload
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.pausing import PausingProblem, violations

#: Fixed part of a step in tokens: the published constants, 4.8875e-3 s over 1.00524902e-7 s.
_OVERHEAD, _TOKEN_S = 48_620, 1.00524902e-7
#: Values that loop and engine both have.
_SHARED = (
    "throughput_tokens_per_s", "steady.throughput_tokens_per_s", "tpot_mean_s", "tpot_p95_s",
    "queueing_delay_mean_s", "queueing_delay_p95_s", "latency_mean_s", "latency_p95_s",
    "fairness_jain",
)  # fmt: skip


@dataclass
class Active:
    """Requests that have a slot, as arrays of one length, in the order in which they started."""

    request: IntArray
    worker: IntArray
    load: IntArray
    left: IntArray
    rested: IntArray

    @classmethod
    def none(cls) -> "Active":
        """Return what a run begins with."""
        return cls(*(np.zeros(0, dtype=np.int64) for _ in range(5)))

    def start(self, request: int, worker: int, workload: Workload) -> None:
        """Let a request have a slot."""
        prompt, output = workload.prompt_tokens[request], workload.output_tokens[request]
        self.request = np.append(self.request, request)
        self.worker = np.append(self.worker, worker)
        self.load = np.append(self.load, prompt)
        self.left = np.append(self.left, output)
        self.rested = np.append(self.rested, 0)

    def step(self, runs: BoolArray) -> IntArray:
        """Emit a token of each that runs, and return those that are done."""
        left = self.left - runs
        done: IntArray = self.request[left == 0]
        stays = left > 0
        self.load, self.left = (self.load + runs)[stays], left[stays]
        self.rested = np.where(runs, 0, self.rested + 1)[stays]
        self.request, self.worker = self.request[stays], self.worker[stays]
        return done


@dataclass(frozen=True)
class Setting:
    """What a run is of: workers, slots, pool, who routes (``fcfs``, ``program``), most rests."""

    workers: int
    slots: int
    pool: int
    policy: str
    max_pauses: int


@dataclass
class Record:
    """What came of a run: of each step, of each request, and counts."""

    reveal: IntArray
    start: IntArray
    finish: IntArray
    units: list[int] = field(default_factory=list)
    emitted: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    full: list[bool] = field(default_factory=list)
    rests: int = 0
    longest_rest: int = 0


class RestingRun:
    """A run under way; `finished` makes it."""

    def __init__(self, workload: Workload, setting: Setting) -> None:
        self.workload, self.setting = workload, setting
        self.active, self.waiting, self.shown = Active.none(), list[int](), 0
        never = np.full(len(workload), -1, dtype=np.int64)
        self.record = Record(never, never.copy(), never.copy())
        self.wrong: dict[str, int] = {}

    def finished(self) -> Record:
        """Run until all are served, and check what came of it."""
        while self.shown < len(self.workload) or self.waiting or len(self.active.request):
            self._reveal()
            if self.setting.policy == "fcfs":
                self._start(self._oldest_first())
            self._run(self._decide())
        record = self.record
        if (record.finish < 0).any() or sum(record.emitted) != self.workload.total_output_tokens:
            self.wrong["conservation"] = 1
        if record.longest_rest > self.setting.max_pauses:
            self.wrong["rests"] = record.longest_rest - self.setting.max_pauses
        return record

    def _reveal(self) -> None:
        while self.shown < len(self.workload) and len(self.waiting) < self.setting.pool:
            self.record.reveal[self.shown] = len(self.record.units)
            self.waiting.append(self.shown)
            self.shown += 1

    def _held(self) -> IntArray:
        return np.bincount(self.active.worker, minlength=self.setting.workers)

    def _oldest_first(self) -> list[tuple[int, int]]:
        """Return who starts where: the oldest on the worker with most free slots."""
        free, starts = self.setting.slots - self._held(), []
        for request in self.waiting[: int(free.sum())]:
            worker = int(free.argmax())
            free[worker] -= 1
            starts.append((request, worker))
        return starts

    def _start(self, starts: list[tuple[int, int]]) -> None:
        for request, worker in starts:
            self.active.start(request, worker, self.workload)
            self.record.start[request] = len(self.record.units)
            self.waiting.remove(request)

    def _decide(self) -> BoolArray:
        """Let the program say who runs, and who starts if it routes; return who runs."""
        problem = self._problem()
        step = quick_step(problem)
        assert step is not None
        for name, amount in violations(problem, *step).items():
            self.wrong[name] = self.wrong.get(name, 0) + amount
        pairs = zip(list(self.waiting), step[1], strict=False)
        self._start([(request, worker) for request, worker in pairs if worker is not None])
        runs = np.ones(len(self.active.request), dtype=bool)
        runs[: problem.num_active] = step[0]
        return runs

    def _problem(self) -> PausingProblem:
        decides, active, held = self.setting.policy == "program", self.active, self._held()
        waiting = self.workload.prompt_tokens[self.waiting if decides else []]
        return PausingProblem(
            capacity=self.setting.slots - held if decides else np.zeros_like(held),
            worker=active.worker,
            load=active.load,
            paused=active.rested,
            waiting=waiting,
            max_pauses=self.setting.max_pauses,
            step_overhead=_OVERHEAD,
            token_time=1,
        )

    def _run(self, runs: BoolArray) -> None:
        record, active, setting = self.record, self.active, self.setting
        step, rest = len(record.units), active.rested[~runs]
        loads = np.bincount(active.worker[runs], active.load[runs], setting.workers)
        record.units.append(_OVERHEAD + int(loads.max()))
        record.emitted.append(int(runs.sum()))
        record.waiting.append(len(self.waiting))
        record.full.append(len(runs) == setting.workers * setting.slots)
        record.rests += len(rest)
        record.longest_rest = max(record.longest_rest, int(rest.max(initial=-1)) + 1)
        record.finish[active.step(runs)] = step


def values_of(workload: Workload, record: Record) -> dict[str, float | None]:
    """Return what a run comes to, as the engine's metrics of the same names do."""
    ends = np.cumsum([0, *record.units]) * _TOKEN_S
    begin, start, finish = ends[record.reveal], ends[record.start], ends[record.finish + 1]
    emitted, outputs = np.array(record.emitted), workload.output_tokens
    latency, delay, tpot = finish - begin, start - begin, (finish - start) / outputs
    values = {
        "throughput_tokens_per_s": emitted.sum() / ends[-1],
        "tpot_mean_s": tpot.mean(),
        "tpot_p95_s": np.percentile(tpot, 95),
        "queueing_delay_mean_s": delay.mean(),
        "queueing_delay_p95_s": np.percentile(delay, 95),
        "latency_mean_s": latency.mean(),
        "latency_p95_s": np.percentile(latency, 95),
        "fairness_jain": jain_index(outputs / latency),
        "rest_share": record.rests / (record.rests + emitted.sum()),
        "longest_rest": record.longest_rest,
    }
    told: dict[str, float | None] = {name: float(value) for name, value in values.items()}
    return told | {"steady.throughput_tokens_per_s": _steady_throughput(record, ends, emitted)}


def _steady_throughput(record: Record, ends: FloatArray, emitted: IntArray) -> float | None:
    waits = np.array(record.waiting) > 0
    full = np.flatnonzero(waits & np.array(record.full))
    if len(full) == 0:
        return None
    place = np.arange(len(waits))
    steady = waits & (place >= full[0]) & (place <= record.reveal.max())
    return float(emitted[steady].sum() / np.diff(ends)[steady].sum()) if steady.any() else None


def _drawn(arguments: Mapping[str, Any], context: RowContext) -> Workload:
    trace = read_trace(context.folder / arguments["trace"])
    rng = np.random.default_rng(arguments["seed"])
    return resample(trace, arguments["requests"], rng=rng)


def _instance(arguments: Mapping[str, Any], context: RowContext) -> str:
    """Return a digest of the requests."""
    workload = _drawn(arguments, context)
    return lengths_digest(workload.prompt_tokens, workload.output_tokens).hexdigest()[:16]


def run(arguments: Mapping[str, Any], context: RowContext) -> RowResult:
    """One run: ``fcfs`` or ``program`` with ``max_pauses`` rests, or a policy of the engine."""
    workload = _drawn(arguments, context)
    setting = Setting(
        *(arguments[name] for name in ("workers", "slots", "pool", "policy", "max_pauses"))
    )
    began = time.perf_counter()
    if setting.policy not in ("fcfs", "program"):
        values = {**_engine(workload, setting), "rest_share": 0.0, "longest_rest": 0.0}
        return RowResult(values, violations={})
    resting = RestingRun(workload, setting)
    values, wrong = values_of(workload, resting.finished()), resting.wrong
    if setting.policy == "fcfs" and setting.max_pauses == 0:
        wrong |= {f"engine: {name}": 1 for name in _differing(values, _engine(workload, setting))}
    return RowResult(values, timings={"loop_s": time.perf_counter() - began}, violations=wrong)


def _differing(mine: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    """Return the values that are not equal but for rounding, in both or in one."""
    return [
        name
        for name, value in others.items()
        if (value is None) != (mine[name] is None)
        or (value is not None and not np.isclose(value, mine[name], rtol=1e-9))
    ]


def _engine(workload: Workload, setting: Setting) -> dict[str, Any]:
    """Return what the engine has of the same values."""
    cluster = Cluster(
        setting.workers, setting.slots,
        step_overhead_s=_OVERHEAD * _TOKEN_S, token_time_s=_TOKEN_S,
    )  # fmt: skip
    made = simulate(workload, setting.policy, cluster, pool=setting.pool)
    told = describe_run(made)
    steady = told["steady"] or {}
    return {
        name: steady.get(name.removeprefix("steady."))
        if name.startswith("steady.")
        else told[name]
        for name in _SHARED
    }


KIND = RowKind(
    "pausing.py:KIND",
    "a run in which active requests may rest",
    run,
    _instance,
    values=(
        Described("throughput_tokens_per_s", "tokens/s", "tokens over the time of all steps"),
        Described("steady.throughput_tokens_per_s", "tokens/s", "the same in the steady part"),
        Described("tpot_mean_s", "s", "mean time per token of a request, rests included"),
        Described("tpot_p95_s", "s", "95th percentile of that"),
        Described("queueing_delay_mean_s", "s", "mean time from reveal to the first slot"),
        Described("queueing_delay_p95_s", "s", "95th percentile of that"),
        Described("latency_mean_s", "s", "mean time from reveal to the last token"),
        Described("latency_p95_s", "s", "95th percentile of that"),
        Described(
            "fairness_jain", "1", "Jain's index of the tokens per second that each request got"
        ),
        Described("rest_share", "1", "share of the steps of active requests at which they rested"),
        Described("longest_rest", "steps", "longest rest of a request"),
    ),
)
