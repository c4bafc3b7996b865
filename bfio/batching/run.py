"""Define the result of a run: counters, states over time, and metrics."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.batching.scenario import Scenario
from bfio.batching.tallies import (
    AREA_REQUESTS,
    AREA_TOKENS,
    ARRIVED,
    BATCHES,
    BUSY,
    COUNT,
    DECODE,
    DEPARTED,
    E2E,
    FULL,
    IN_TIME,
    LONGEST,
    PREFILL,
    SHORT,
    SUM,
    TBT,
    TTFT,
    WORK,
    BatchLog,
    Tallies,
    percentile,
)
from bfio.common.kernel_groups import Engine
from bfio.common.metrics import Average, Column, Domain, MetricTable, Value
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class BatchVerdict(StrEnum):
    """How a run ended."""

    #: The horizon was reached.
    HORIZON = "horizon"
    #: All requests departed and no more arrive.
    DRAINED = "drained"


@dataclass(frozen=True)
class Course:
    """States of a run at the ends of T blocks of slots; the first is the initial state.

    Parameters
    ----------
    slot : IntArray
        Shape (T,).
    prefilling, decoding : IntArray
        Shape (T, n): tasks of each stage in each phase, ``Z_p`` and ``Z_d``.
    work : IntArray
        Shape (T, n): unprocessed tokens of these tasks, without those of running batches; ``|X|``
        is the sum of a row.
    arrived, departed : IntArray
        Shape (T,): requests up to then.
    loaded : IntArray
        Shape (T, E): tokens loaded by each engine up to then.
    """

    slot: IntArray
    prefilling: IntArray
    decoding: IntArray
    work: IntArray
    arrived: IntArray
    departed: IntArray
    loaded: IntArray

    @property
    def tokens(self) -> IntArray:
        """``|X(n)|``, shape (T,)."""
        return np.asarray(self.work.sum(axis=1))

    @property
    def present(self) -> IntArray:
        """Tasks that have not departed, shape (T, n)."""
        return self.prefilling + self.decoding


@dataclass(frozen=True)
class BatchRun:
    """One run of a scenario.

    Parameters
    ----------
    scenario : Scenario
        Scenario that was simulated.
    policy : str
        Names of the policies.
    seed : int
        Seed of all draws.
    verdict : BatchVerdict
        How the run ended.
    warmup : int
        Slots before the measured ones.
    tallies : Tallies
        Counters of the measured slots.
    course : Course
        States of the whole run.
    log : BatchLog, optional
        All tasks and batches, if the log was kept.
    engine : str
        Engine that simulated the run.
    """

    scenario: Scenario
    policy: str
    seed: int
    verdict: BatchVerdict
    warmup: int
    tallies: Tallies
    course: Course
    log: BatchLog | None = None
    engine: str = Engine.REFERENCE

    @property
    def unit(self) -> str:
        """Unit of times in results: ``"s"`` if the network states the length of a slot."""
        return "slots" if self.scenario.network.slot is None else "s"

    @property
    def slot(self) -> float:
        """Length of a slot, in `unit`."""
        length = self.scenario.network.slot
        return 1.0 if length is None else float(length)

    @property
    def observed(self) -> float:
        """Measured time, in `unit`."""
        return self.tallies.slot * self.slot

    @property
    def capacity(self) -> float:
        """Tokens of full batches on all engines during the measured time."""
        agents = self.scenario.network.agents
        return float(sum(agent.rate for agent in agents)) * self.tallies.slot

    @property
    def tokens(self) -> int:
        """Tokens processed in the measured time."""
        return int(self.tallies.engines[:, [PREFILL, DECODE]].sum())

    def measured(self, values: IntArray) -> FloatArray:
        """Return the increase of a counter in each measured block."""
        chosen = self.course.slot >= self.warmup
        return np.asarray(np.diff(values[chosen]), dtype=np.float64)

    def summary(self) -> dict[str, Any]:
        """Return the metrics of the run; times in `unit`, None where a metric is undefined."""
        return {
            "policy": self.policy,
            "engine": self.engine,
            "verdict": self.verdict.value,
            "unit": self.unit,
            "seed": self.seed,
            **METRICS.measure(self),
            "agents": self.agent_documents(),
        }

    def agent_documents(self) -> list[dict[str, Any]]:
        """Return the metrics of each agent."""
        documents, first = [], 0
        for agent in self.scenario.network.agents:
            rows = self.tallies.engines[first : first + agent.engines]
            first += agent.engines
            slots = max(self.tallies.slot, 1)
            loaded = int(rows[:, [PREFILL, DECODE]].sum())
            documents.append(
                {
                    "agent": agent.name,
                    "utilisation": loaded / (float(agent.rate) * slots),
                    "busy_share": int(rows[:, BUSY].sum()) / (agent.engines * slots),
                    "mean_requests": int(rows[:, AREA_REQUESTS].sum()) / slots,
                    "mean_tokens": int(rows[:, AREA_TOKENS].sum()) / slots,
                    "batches": int(rows[:, BATCHES].sum()),
                }
            )
        return documents


#: Metrics of runs, see `bfio.common.metrics`.
METRICS: MetricTable[BatchRun] = MetricTable()
#: Unit of the times of runs.
TIME = "s or slots"


METRICS.metric("observed", TIME, "measured time")(lambda run: run.observed)
METRICS.metric("requests", "requests", "requests that arrived from outside")(
    lambda run: int(run.tallies.run[ARRIVED])
)
METRICS.metric("completed", "requests", "requests that departed")(
    lambda run: int(run.tallies.run[DEPARTED])
)
METRICS.average(
    "throughput",
    "requests per time",
    "requests that departed, per s or slot",
    Column("requests\nper time"),
)(lambda run: _rate(run, run.course.departed))
METRICS.average(
    "token_throughput",
    "tokens per time",
    "processed tokens per s or slot",
    Column("tokens\nper time"),
)(lambda run: _rate(run, run.course.loaded.sum(axis=1)))


def _rate(run: BatchRun, values: IntArray) -> Average:
    return Average(run.measured(values), run.measured(run.course.slot) * run.slot)


def _counted(run: BatchRun, column: int) -> int:
    """Return a counter summed over the engines."""
    return int(run.tallies.engines[:, column].sum())


def _per(amount: float, of: float) -> float | None:
    return amount / of if of else None


METRICS.metric(
    "utilisation",
    "1",
    "processed tokens / tokens of full batches without pause",
    Column("of full\nbatches", is_share=True),
    Domain.NON_NEGATIVE,
)(lambda run: _per(run.tokens, run.capacity))


METRICS.metric("busy_share", "1", "share of the engines' time in which a batch ran")(
    lambda run: _per(_counted(run, BUSY), run.tallies.slot * len(run.tallies.engines))
)
METRICS.metric("batches", "batches", "batches formed")(lambda run: _counted(run, BATCHES))
METRICS.metric("mean_batch", "tokens", "mean tokens of a batch", Column("mean\nbatch"))(
    lambda run: _per(run.tokens, _counted(run, BATCHES))
)
METRICS.metric("full_share", "1", "share of batches that use the whole budget")(
    lambda run: _per(_counted(run, FULL), _counted(run, BATCHES))
)
METRICS.metric(
    "short_share",
    "1",
    "share of batches below what budget and requests allowed: not work-conserving",
    Column("short\nbatches", is_share=True),
)(lambda run: _per(_counted(run, SHORT), _counted(run, BATCHES)))
METRICS.metric(
    "mean_requests",
    "requests",
    "time average of the number of requests at agents",
    Column("mean\nrequests"),
)(lambda run: _per(_counted(run, AREA_REQUESTS), run.tallies.slot))
METRICS.metric("mean_tokens", "tokens", "time average of |X|, the unprocessed tokens")(
    lambda run: _per(_counted(run, AREA_TOKENS), run.tallies.slot)
)
METRICS.metric("final_tokens", "tokens", "|X| at the end", Column("tokens\nat the end"))(
    lambda run: int(run.tallies.stages[:, WORK].sum())
)


_TIMES = {
    "ttft": (TTFT, "from arrival at an agent to the end of the prefill there", "TTFT"),
    "tbt": (TBT, "between two tokens of a request at an agent", "TBT"),
    "e2e": (E2E, "from a request's arrival to its departure", "E2E"),
}
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def _register_times() -> None:
    for name, (row, words, short) in _TIMES.items():
        METRICS.metric(f"{name}_mean", TIME, f"mean time {words}", Column(f"{short}\nmean"))(
            _of_times(row, lambda counted: int(counted[SUM]) / int(counted[COUNT]))
        )
        for label, share in _SHARES.items():
            column = Column(f"{short}\n{label}") if label == "p99" else None
            text = f"{label[1:]}th percentile of the time {words}"
            METRICS.metric(f"{name}_{label}", TIME, text, column)(_percentile_of(row, share))
        METRICS.metric(f"{name}_max", TIME, f"longest time {words}")(
            _of_times(row, lambda counted: int(counted[LONGEST]))
        )
        METRICS.metric(
            f"{name}_attainment", "1", f"share of times {words} within the deadline; 1 without one"
        )(
            _of_times(
                row, lambda counted: int(counted[IN_TIME]) / int(counted[COUNT]), in_slots=False
            )
        )


def _of_times(
    row: int, value: Callable[[IntArray], float], *, in_slots: bool = True
) -> Callable[[BatchRun], Value]:
    """Return a metric of one kind of measured time; None if that time never occurred."""

    def metric(run: BatchRun) -> Value:
        counted = run.tallies.times[row]
        found = value(counted) if counted[COUNT] else None
        return found if found is None or not in_slots else found * run.slot

    return metric


def _percentile_of(row: int, share: float) -> Callable[[BatchRun], Value]:
    def of_run(run: BatchRun) -> Value:
        longest = int(run.tallies.times[row, LONGEST])
        value = percentile(run.tallies.histograms[row], longest, share)
        return None if value is None else value * run.slot

    return of_run


_register_times()


@dataclass(frozen=True)
class WorkedBatch:
    """One batch, for display.

    Parameters
    ----------
    engine : str
        Name of the agent; with several engines, ``NAME#0``, ``NAME#1``, ...
    slot, slots : int
        Slot in which the batch is loaded, and its duration [slots].
    budget, tokens : int
        Maximum number of tokens, and tokens of the batch.
    prefill : dict
        Prompt tokens, by request.
    decode : tuple of str
        Requests with a decode token. The label of a request is its number, from 0 in order of
        arrival; in a network with several stages, ``NUMBER@STAGE``.
    """

    engine: str
    slot: int
    slots: int
    budget: int
    tokens: int
    prefill: dict[str, int]
    decode: tuple[str, ...]

    def to_mapping(self) -> dict[str, Any]:
        """Return the batch as a JSON object."""
        return {**vars(self), "decode": list(self.decode)}


def first_batches(run: BatchRun, count: int) -> list[WorkedBatch]:
    """Return the first batches of a logged run, in order of their start.

    Parameters
    ----------
    run : BatchRun
        A run with a log.
    count : int
        Maximum number of batches.

    Raises
    ------
    InputError
        If the run has no log.
    """
    if run.log is None:
        raise InputError("log", "the run kept no log", "simulate with keeps_log=True")
    return list(_worked_batches(run, run.log, count))


def _worked_batches(run: BatchRun, log: BatchLog, count: int) -> Iterator[WorkedBatch]:
    engines, names = _engines(run), _names(run, log)
    first = 0
    for engine, slot, slots, tokens, num_parts in log.batches[:count].tolist():
        parts = log.parts[first : first + num_parts].tolist()
        first += num_parts
        prompts = {names[task]: loaded for _, task, loaded, decodes in parts if not decodes}
        decode = tuple(names[task] for _, task, _, decodes in parts if decodes)
        name, budget = engines[engine]
        yield WorkedBatch(name, slot, slots, budget, tokens, prompts, decode)


def _engines(run: BatchRun) -> list[tuple[str, int]]:
    """Return the name and the budget of each engine."""
    found = []
    for agent in run.scenario.network.agents:
        many = agent.engines > 1
        found += [
            (f"{agent.name}#{e}" if many else agent.name, agent.budget)
            for e in range(agent.engines)
        ]
    return found


def _names(run: BatchRun, log: BatchLog) -> list[str]:
    """Return the label of each task in the log."""
    stages = run.scenario.network.stages
    if len(stages) == 1:
        return [str(request) for request in log.tasks[:, 1].tolist()]
    return [f"{request}@{stages[k].name}" for request, k in log.tasks[:, 1:3].tolist()]


def run_figure(runs: Sequence[BatchRun]) -> "Figure":
    """Draw ``|X|`` and the requests at agents over time: a line per run, or per stage of one run.

    The lines begin with the measured time, since a warm-up has no states but its first and last.

    Parameters
    ----------
    runs : sequence of BatchRun
        At least one run; all use the same network.
    """
    from bfio.common.figure_style import label_pair, styled

    with styled(8, 5, 2, 1, sharex=True) as (figure, (tokens, requests)):
        for run in runs:
            measured, stages = run.course.slot >= run.warmup, run.scenario.network.stages
            time, present = run.course.slot[measured] * run.slot, run.course.present[measured]
            if len(runs) == 1 and len(stages) > 1:
                work = run.course.work[measured]
                for k, stage in enumerate(stages):
                    tokens.plot(time, work[:, k], linewidth=0.9, label=stage.name)
                    requests.plot(time, present[:, k], linewidth=0.9, label=stage.name)
            else:
                tokens.plot(time, run.course.tokens[measured], linewidth=0.9, label=run.policy)
                requests.plot(time, present.sum(axis=1), linewidth=0.9, label=run.policy)
        of_tokens = "unprocessed tokens |X|, without running batches", "tokens"
        of_requests, along = ("requests at agents", "requests"), f"time [{runs[0].unit}]"
        label_pair(figure, (tokens, requests), along, of_tokens, of_requests)
    return figure
