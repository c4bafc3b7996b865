"""The record of one run: the data of each step and of each request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.common.checking import covered
from bfio.common.metrics import Average, exact_sum
from bfio.decode.cluster import Cluster
from bfio.decode.energy import EnergyAccount, EnergyReading, energy_account
from bfio.decode.energy_model import EnergyModel
from bfio.decode.features.stragglers import stragglers_of
from bfio.decode.measured import MeasuredPart
from bfio.decode.options import Dispatch, RunOptions
from bfio.decode.stints import Cause, Stints, stints, waiting_totals
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.errors import InputError, use_one_of
from formulations.results import data_frame, html_table
from formulations.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Columns of data frames of steps and of requests.
_STEP_COLUMNS = (
    "start_s", "duration_s", "idle_before_s", "max_load", "min_load", "total_load", "active",
    "waiting", "admitted",
)  # fmt: skip
_REQUEST_COLUMNS = (
    "arrival_s", "reveal_s", "reveal_step", "start_step", "finish_step", "worker", "prompt_tokens",
    "cancel_step",
)  # fmt: skip


def imbalance(workers: int, max_load: IntArray, total_load: IntArray) -> IntArray:
    """Return the imbalance of each step (BF-IO eq. 2), shape (K,) [tokens]."""
    return workers * max_load - total_load


@dataclass(frozen=True, repr=False)
class Run:
    """One simulated run of K steps over n requests on G workers.

    Loads are measured after admission and before growth. For events that did not happen, integer
    fields are -1 and times are NaN.

    Parameters
    ----------
    policy : str
        Name of the policy.
    cluster : Cluster
        The machine.
    options : RunOptions
        Options of the run.
    start_s, duration_s : FloatArray
        Shape (K,): start time and duration of each step [s].
    idle_before_s : FloatArray
        Shape (K,): idle time of the whole machine just before each step (timed arrivals) [s].
    max_load, min_load, total_load : IntArray
        Shape (K,): largest, smallest and total load of the workers [tokens].
    active : IntArray
        Shape (K,): number of requests decoded, equal to the tokens emitted. With token budgets the
        number may be 0.
    waiting : IntArray
        Shape (K,): number of requests revealed but not started, after admission.
    admitted : IntArray
        Shape (K,): number of requests started.
    loads, running : IntArray or None
        Shape (K, G): load [tokens] and number of requests of each worker; None if not kept.
    reveal_step, start_step, finish_step : IntArray
        Shape (n,): step at which each request is revealed, first decoded, last decoded.
    last_start_step : IntArray
        Shape (n,): step of the last start of each request; the first start unless interrupted.
    worker : IntArray
        Shape (n,): worker that each request is bound to; the last worker if there were several.
    bound_step : IntArray
        Shape (n,): step at which the policy bound each request to that worker. With pooled
        dispatch and no delay, this is the start step.
    prompt_tokens, emitted_tokens : IntArray
        Shape (n,): prompt length of each request, and number of output tokens emitted [tokens].
    interruptions : IntArray
        Shape (m, 5), in order of time: request, worker, start step on this worker, first step at
        which the request no longer runs, and cause (`bfio.decode.stints`).
    cancel_step : IntArray
        Shape (n,): step before which each request was cancelled; ``K`` if after the last step.
    reveal_s : FloatArray
        Shape (n,): time at which each request is revealed [s].
    arrival_s : FloatArray or None
        Shape (n,), with timed arrivals: arrival time of each request [s].
    balanced_s : FloatArray or None
        Shape (K,): duration of each step if all workers were busy for the mean busy time [s]; None
        if all workers have the same speed.
    prefix_hit_tokens : IntArray or None
        Shape (K,): prompt tokens of the requests started at each step that were in the prefix
        cache of their worker [tokens]; None without prefix caches.
    ready_s, held_s : FloatArray or None
        Shape (n,), with a prefill tier (`bfio.decode.features.prefill`): time at which each
        request last became ready, and time for which its prefill worker held it because the pool
        was full [s].
    expiries : IntArray or None
        Shape (m, 3), with a prefill tier, in order of time: request, step at which it was
        revealed, and step before which it lost its cache in the pool.
    refused : IntArray or None
        Shape (K,), with telemetry: decisions of each step refused for lack of memory.
    rests : IntArray or None
        Shape (m, 3), for a policy that pauses (`bfio.decode.features.pausing`), in order of time:
        request, first step of the rest, and first step after the rest; None for other policies.
        Loads and counts of steps exclude resting requests. With token budgets a rest is also a
        step at which a request has a slot but emits nothing, because its prompt is not computed or
        the batch has no token for it.
    max_pauses : int or None
        For a policy that pauses: largest number of consecutive steps that a request may rest; None
        with token budgets.
    chunks : IntArray or None
        Shape (m, 3), with token budgets (`bfio.decode.features.batching`), in order of time: step,
        request, and number of prompt tokens of the request computed in this step; None without
        token budgets. Loads of a step count the prompt tokens computed before the step.
    measured : MeasuredPart, optional
        The steps and requests of the run that are measured; set by `bfio.simulate`.
    statistics : mapping
        Statistics that the policy reports.
    policy_options, predictor_options : mapping
        Options in force of the policy and of a named predictor; None for an option that varies
        within the run, such as ``beta`` of `br-0`. For a user's policy: the number of look-ahead
        steps that it sees.
    engine : str
        Engine of the run, ``"compiled"`` or ``"reference"``.
    wall_s, decide_s : float
        Wall-clock time of the simulation, and the part of it spent in the policy [s].
    """

    policy: str
    cluster: Cluster
    options: RunOptions
    start_s: FloatArray
    duration_s: FloatArray
    idle_before_s: FloatArray
    max_load: IntArray
    min_load: IntArray
    total_load: IntArray
    active: IntArray
    waiting: IntArray
    admitted: IntArray
    loads: IntArray | None
    running: IntArray | None
    reveal_step: IntArray
    start_step: IntArray
    finish_step: IntArray
    last_start_step: IntArray
    worker: IntArray
    bound_step: IntArray
    prompt_tokens: IntArray
    emitted_tokens: IntArray
    interruptions: IntArray
    cancel_step: IntArray
    reveal_s: FloatArray
    arrival_s: FloatArray | None
    balanced_s: FloatArray | None = None
    prefix_hit_tokens: IntArray | None = None
    ready_s: FloatArray | None = None
    held_s: FloatArray | None = None
    expiries: IntArray | None = None
    refused: IntArray | None = None
    rests: IntArray | None = None
    max_pauses: int | None = None
    chunks: IntArray | None = None
    measured: MeasuredPart | None = None
    statistics: Mapping[str, object] = field(default_factory=dict)
    policy_options: Mapping[str, object] = field(default_factory=dict)
    predictor_options: Mapping[str, object] = field(default_factory=dict)
    engine: str = "reference"
    wall_s: float = 0.0
    decide_s: float = 0.0

    def __repr__(self) -> str:
        machine = self.cluster.shape
        requests = f"{self.completed:,} of {counted(self.num_requests, 'request')}"
        steps = counted(self.steps, "step")
        return f"<Run of {self.policy} on {machine}: {steps}, {requests} completed>"

    def to_frame(self, of: str = "steps") -> Any:
        """Return the record as a data frame of pandas.

        Parameters
        ----------
        of : {"steps", "requests"}
            One row per step, or per request (-1 and NaN for events that did not happen).

        Raises
        ------
        InputError
            If pandas is not installed, or ``of`` is neither ``"steps"`` nor ``"requests"``.
        """
        columns = {"steps": _STEP_COLUMNS, "requests": _REQUEST_COLUMNS}
        if of not in columns:
            raise InputError("to_frame", f"{of!r} is unknown", use_one_of(of, columns))
        values = {name: getattr(self, name) for name in columns[of]}
        kept = {name: array.tolist() for name, array in values.items() if array is not None}
        lines = zip(*kept.values(), strict=True)
        return data_frame([dict(zip(kept, line, strict=True)) for line in lines])

    def plot(self) -> "Figure":
        """Return the load of every worker over the steps, the measured part shaded.

        Raises
        ------
        InputError
            If the run was made with ``keep_trajectory=False``.
        """
        from bfio.decode.plots import run_figure

        if self.loads is None:
            what = "the loads of this run were not kept"
            raise InputError("plot", what, "simulate with keep_trajectory=True")
        return run_figure(self)

    def _repr_html_(self) -> str:
        """Return a summary of the run for notebooks; `describe_run` has all metrics."""
        rows = [
            ("machine", f"{self.cluster.shape} (workers x slots)"),
            ("steps", f"{self.steps:,}"),
            ("requests completed", f"{self.completed:,} of {self.num_requests:,}"),
            ("output tokens", f"{self.tokens:,}"),
            ("time of steps [s]", f"{self.duration_s.sum():,.4g}"),
            (
                "mean imbalance, whole run [tokens]",
                f"{self.imbalance.mean():,.0f}" if self.steps else "–",
            ),
            ("engine, its time [s]", f"{self.engine}, {self.wall_s:.3g}"),
        ]
        return html_table((self.policy, "run"), rows)

    @property
    def steps(self) -> int:
        """Number of steps, ``K``."""
        return len(self.duration_s)

    @property
    def num_requests(self) -> int:
        """Number of requests, ``n``."""
        return len(self.start_step)

    @property
    def completed(self) -> int:
        """Number of requests that emitted all their output tokens."""
        return int(np.count_nonzero(self.finish_step >= 0))

    @property
    def imbalance(self) -> IntArray:
        """Imbalance of each step, shape (K,) [tokens]."""
        return imbalance(self.cluster.workers, self.max_load, self.total_load)

    @property
    def measured_steps(self) -> IntArray | None:
        """Indices of the measured steps; None if the run has no measured part."""
        return None if self.measured is None else self.measured.steps(self)

    @property
    def cancelled(self) -> int:
        """Number of requests cancelled by their client before they finished."""
        return int(np.count_nonzero(self.cancel_step >= 0))

    @property
    def partial(self) -> int:
        """Number of requests that started but did not finish, cancelled ones included."""
        return int(np.count_nonzero(self.start_step >= 0)) - self.completed

    @property
    def is_drained(self) -> bool:
        """Whether every request finished."""
        return self.completed == self.num_requests

    @property
    def tokens(self) -> int:
        """Number of output tokens emitted."""
        return exact_sum(self.active)

    @cached_property
    def waiting_totals(self) -> dict[str, IntArray]:
        """See `bfio.decode.stints.waiting_totals`."""
        return waiting_totals(self)

    @cached_property
    def step_energies(self) -> "dict[tuple[EnergyModel, EnergyReading], FloatArray]":
        """Cache of energies and busy times of steps; see `bfio.decode.energy`."""
        return {}

    def resting(self) -> IntArray:
        """Return the number of requests that rest at each step, shape (K,)."""
        rests = np.zeros((0, 3), dtype=np.int64) if self.rests is None else self.rests
        return covered(rests[:, 1], rests[:, 2], self.steps)

    def first_token_step(self) -> IntArray:
        """Return the step of each request's first token, shape (n,); ``K`` if it emits none.

        The step is that of the start, or the end of a rest that begins at the start; -1 if the
        request never starts.
        """
        steps = self.start_step.copy()
        if self.rests is not None:
            who, first, end = self.rests.T
            at_once = first == self.start_step[who]
            steps[who[at_once]] = end[at_once]
        return steps

    def decode_step(self) -> IntArray:
        """Return the first step at which each request may be decoded, shape (n,); ``K`` if none.

        The step is that of the start; with token budgets, the step after the prompt is computed;
        -1 if the request never starts.
        """
        steps = self.start_step.copy()
        if self.chunks is not None:
            step, request, tokens = self.chunks.T
            np.maximum.at(steps, request, step + 1)
            computed = np.zeros_like(steps)
            np.add.at(computed, request, tokens)
            steps[(self.start_step >= 0) & (computed < self.prompt_tokens)] = self.steps
        return steps

    def batch_tokens(self) -> IntArray | None:
        """Return the number of tokens in each worker's batch at each step, shape (K, G).

        Return None without token budgets, or if the run was made with ``keep_trajectory=False``.
        """
        if self.chunks is None or self.running is None:
            return None
        step, request, tokens = self.chunks.T
        batches = self.running.copy()
        np.add.at(batches, (step, self.worker[request]), tokens)
        return batches

    def idle_fractions(self) -> FloatArray:
        """Idle fraction of each step, ``1 - mean load / max load``, shape (K,).

        With token budgets, a step may compute prompts only; such a step has no load and counts as
        balanced.
        """
        largest = self.cluster.workers * np.maximum(self.max_load, 1)
        idle: FloatArray = self.imbalance / largest
        return idle

    def end_s(self) -> FloatArray:
        """End time of each step, shape (K,) [s]."""
        return self.start_s + self.duration_s

    def steady_mask(self, warm_up: int = 0) -> BoolArray | None:
        """Return which steps are steady, shape (K,), or None if no step is.

        Steps are steady if requests still wait after admission. Steady steps begin at the first
        such step at which every slot is full (or, if memory is limited, at the first step with a
        waiting request). They end at the step at which the last request of the workload is
        revealed (or at the end of a shorter run). A run whose requests are all revealed at once
        has no steady steps. With a delay, a slot held for a decision that takes effect later
        counts as full, and its request does not count as waiting.

        Parameters
        ----------
        warm_up : int
            Steps at the beginning to leave out. A run starts empty, and the placement of its first
            requests has an effect for as long as they run.

        Notes
        -----
        After the last request is revealed, nothing refills the pool. A policy that chooses among
        waiting requests then has only requests left that it did not choose before, the largest or
        the smallest. With a large pool and few slots, these steps would dominate the means.
        """
        held = self._held_slots()
        waits = self.waiting > held
        # A resting request keeps its slot.
        is_full = self.active + self.resting() + held == self.cluster.total_slots
        if self.cluster.memory is not None:
            # Limited memory may keep slots empty; a request then waits because no memory is free.
            is_full[:] = True
        full = np.flatnonzero(waits & is_full)
        if len(full) == 0:
            return None
        step = np.arange(self.steps)
        steady: BoolArray = waits & (step >= max(int(full[0]), warm_up))
        first, last = int(self.reveal_step.min()), int(self.reveal_step.max())
        if first >= 0:
            steady &= (step <= last) & (first < last)
        return steady if steady.any() else None

    def _held_slots(self) -> IntArray:
        """Return the number of slots held for decisions that take effect later, shape (K,).

        With immediate dispatch, bound requests wait in a queue and hold no slot.
        """
        if self.options.delay == 0 or self.options.dispatch is not Dispatch.POOLED:
            return np.zeros(self.steps, dtype=np.int64)
        sent = (self.bound_step >= 0) & (self.bound_step < self.steps)
        begins = np.where(self.last_start_step < 0, self.steps, self.last_start_step)
        ends = np.where(self.cancel_step < 0, begins, np.minimum(begins, self.cancel_step))
        ends = np.maximum(ends, self.bound_step)
        return covered(self.bound_step[sent], ends[sent], self.steps)


@dataclass(frozen=True)
class RunPart:
    """Some steps of a run and the requests that belong to them.

    Series over requests are computed anew each time, as a long run has millions of entries.
    """

    run: Run  #: The run.
    steps: IntArray  #: Increasing step indices.
    energy_model: EnergyModel  #: Constants of the energy metrics.
    #: Increasing indices of the requests; by default those that started in these steps.
    requests: IntArray | None = None

    @cached_property
    def moments(self) -> IntArray:
        """The steps before which events of the part happen; K for those after the last step."""
        steps = self.run.steps
        is_last = steps == 0 or (len(self.steps) > 0 and self.steps[-1] == steps - 1)
        return np.append(self.steps, steps) if is_last else self.steps

    @cached_property
    def started(self) -> IntArray:
        """Indices of the requests of the part that started."""
        if self.requests is not None:
            has_started = self.run.start_step[self.requests] >= 0
            return self.requests if has_started.all() else self.requests[has_started]
        member = np.zeros(self.run.steps, dtype=np.bool_)
        member[self.steps] = True
        start = self.run.start_step
        candidates = np.flatnonzero(start >= 0)
        return candidates[member[start[candidates]]]

    @cached_property
    def stints(self) -> Stints:
        """The stints of each request: intervals in which it had a slot, with their workers."""
        return stints(self.run)

    def interrupted_tokens(self, *causes: Cause) -> int:
        """Return prompt and emitted tokens of requests interrupted in these steps for a cause."""
        if len(self.run.interruptions) == 0:
            return 0
        which = np.isin(self.stints.cause, causes) & np.isin(self.stints.end, self.moments)
        prompts = self.run.prompt_tokens[self.stints.request[which]]
        return exact_sum(prompts + self.stints.emitted[which])

    @cached_property
    def completed(self) -> IntArray:
        """The requests of the part that completed."""
        is_done = self.run.finish_step[self.started] >= 0
        return self.started if is_done.all() else self.started[is_done]

    @cached_property
    def imbalance(self) -> IntArray:
        """Imbalance of each step, ``G·max load - total load`` (BF-IO eq. 2) [tokens]."""
        return self.run.imbalance[self.steps]

    @cached_property
    def balanced_s(self) -> FloatArray:
        """Time that each step would take if all workers had the mean load [s]."""
        run = self.run
        if run.balanced_s is not None:
            return run.balanced_s[self.steps]
        waited = run.cluster.worker_times()[1][0] / run.cluster.workers * self.imbalance
        balanced: FloatArray = run.duration_s[self.steps] - waited
        return balanced

    def mean_waiting(self, field: str) -> Average:
        """Average a field of requests left waiting after admission, over requests and steps."""
        some = self.steps[self.run.waiting[self.steps] > 0]
        total = self.run.waiting_totals[field]
        return Average(total[some], self.run.waiting[some].astype(np.float64))

    @cached_property
    def idle_fractions(self) -> FloatArray:
        """Idle fraction of each step, ``1 - mean load / max load``."""
        return self.run.idle_fractions()[self.steps]

    @property
    def times_per_token(self) -> FloatArray:
        """Time per output token, ``(finish - start)/o_i``, of completed requests [s].

        Source: BF-IO eq. 9. With token budgets, the start is the first step after the prompt is
        computed.
        """
        run, ids = self.run, self.completed
        spent = self._finish_s - run.start_s[run.decode_step()[ids]]
        return spent / run.emitted_tokens[ids]

    @cached_property
    def awake_times_per_token(self) -> FloatArray | None:
        """Times per token without the time at rest [s]; None for runs without rests."""
        run, ids = self.run, self.completed
        if run.rests is None:
            return None
        who, first, end = run.rests.T
        # A request also counts as resting during its prefill, which its times leave out anyway.
        first = np.maximum(first, run.decode_step()[who])
        lasts = first < end
        who, first, end = who[lasts], first[lasts], end[lasts]
        spent = run.end_s()[end - 1] - run.start_s[first]
        at_rest = np.bincount(who, weights=spent, minlength=run.num_requests)
        return self.times_per_token - at_rest[ids] / run.emitted_tokens[ids]

    @property
    def delays(self) -> FloatArray:
        """Waiting time of each completed request, from arrival or reveal to its first step [s]."""
        return self.run.start_s[self.run.start_step[self.completed]] - self._origin_s

    @property
    def first_tokens(self) -> FloatArray:
        """Time from arrival or reveal to the first token of each completed request [s]."""
        run, ids = self.run, self.completed
        return run.end_s()[run.first_token_step()[ids]] - self._origin_s

    def lost_share(self, own_s: FloatArray) -> float | None:
        """Return the share of worker time spent waiting for the slowest worker.

        ``own_s`` is the time that each worker would need in a step, shape (K, G) [s].
        """
        run = self.run
        whole = float(run.duration_s[self.steps].sum())
        schedule = stragglers_of(run.options.stragglers, run.cluster.workers, run.options.seed)
        own_s = (schedule.factors(run.start_s, run.cluster.workers) * own_s)[self.steps]
        waited = float((own_s.max(axis=1) - own_s.mean(axis=1)).sum())
        return waited / whole if whole else None

    @property
    def latencies(self) -> FloatArray:
        """Time from arrival or reveal to the last token of each completed request [s]."""
        return self._finish_s - self._origin_s

    @cached_property
    def met(self) -> BoolArray | None:
        """Whether each completed request met the latency limits; None if the run has no limits."""
        limits = self.run.options.slo
        return None if limits is None else limits.met(self.first_tokens, self.times_per_token)

    @cached_property
    def total_s(self) -> float:
        """Total time of the steps and of the idle time before them [s]."""
        run = self.run
        return float(run.duration_s[self.steps].sum() + run.idle_before_s[self.steps].sum())

    @cached_property
    def energy(self) -> EnergyAccount | None:
        """Energy and power in the two-phase reading; None if the run kept no trajectory."""
        return energy_account(
            self.run, self.energy_model, EnergyReading.TWO_PHASE, steps=self.steps
        )

    @property
    def _finish_s(self) -> FloatArray:
        return self.run.end_s()[self.run.finish_step[self.completed]]

    @property
    def _origin_s(self) -> FloatArray:
        run = self.run
        return (run.reveal_s if run.arrival_s is None else run.arrival_s)[self.completed]
