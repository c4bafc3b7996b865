"""The record of one run: what happened at each step and to each request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.common.metrics import exact_sum
from bfio.decode.cluster import Cluster
from bfio.decode.measured import MeasuredPart
from bfio.decode.options import Dispatch, RunOptions
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.errors import InputError, use_one_of
from formulations.frames import data_frame, html_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Columns of frames: of a step, and of a request.
_STEP_COLUMNS = (
    "start_s", "duration_s", "idle_before_s", "max_load", "min_load", "total_load", "active",
    "waiting", "admitted",
)  # fmt: skip
_REQUEST_COLUMNS = (
    "arrival_s", "reveal_s", "reveal_step", "start_step", "finish_step", "worker", "prompt_tokens",
    "cancel_step",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Run:
    """One simulated run of K steps over n requests on G workers.

    Loads are measured after admission and before growth. Where something did not happen, integer
    fields hold -1 and times hold NaN.

    Parameters
    ----------
    policy : str
        Name of the policy.
    cluster : Cluster
        The machine.
    options : RunOptions
        How the run was made.
    start_s, duration_s : FloatArray
        Shape (K,): when each step starts and how long it lasts [s].
    idle_before_s : FloatArray
        Shape (K,): time without any work just before each step (timed arrivals) [s].
    max_load, min_load, total_load : IntArray
        Shape (K,): largest, least and total load of the workers [tokens].
    active : IntArray
        Shape (K,): requests decoded, equal to the tokens emitted. With token budgets it may be 0.
    waiting : IntArray
        Shape (K,): requests revealed but not started, after admission.
    admitted : IntArray
        Shape (K,): requests that start.
    loads, running : IntArray or None
        Shape (K, G): load [tokens] and requests of each worker; None if not kept.
    reveal_step, start_step, finish_step : IntArray
        Shape (n,): step at which each request is revealed, first decoded, last decoded.
    last_start_step : IntArray
        Shape (n,): step at which it last started; the first unless it was interrupted.
    worker : IntArray
        Shape (n,): worker it is bound to, the last of several.
    bound_step : IntArray
        Shape (n,): step at which the policy sent it there: with pooled dispatch it starts then.
    prompt_tokens, emitted_tokens : IntArray
        Shape (n,): its prompt, and what it has emitted [tokens].
    interruptions : IntArray
        Shape (m, 5), in order of time: request, worker, step at which it had started there, first
        step at which it does not run any more, and why (`bfio.decode.stints`).
    cancel_step : IntArray
        Shape (n,): step before which its client gave up; ``K`` if that was after the last one.
    reveal_s : FloatArray
        Shape (n,): when it is revealed [s].
    arrival_s : FloatArray or None
        Shape (n,): when it arrives [s], with timed arrivals.
    balanced_s : FloatArray or None
        Shape (K,): how long each step would last were all workers busy as long as the mean [s];
        None where they are equally fast.
    prefix_hit_tokens : IntArray or None
        Shape (K,): what those that start at each step find of their prompts in the prefix caches
        of their workers [tokens]; None where nothing is kept.
    ready_s, held_s : FloatArray or None
        Shape (n,), with a prefill tier (`bfio.decode.features.prefill`): when each became ready,
        the last time, and for how long prefill workers held it because the pool was full [s].
    expiries : IntArray or None
        Shape (m, 3), likewise, in order of time: request, step at which it was revealed, and step
        before which it lost its cache in the pool.
    refused : IntArray or None
        Shape (K,), with telemetry: decisions of each step that found no memory.
    rests : IntArray or None
        Shape (m, 3), of a policy that pauses (`bfio.decode.features.pausing`), in order of time:
        request, first step at which it rested, and first after that; None of any other. Loads and
        counts of steps leave out who rests. With token budgets too: steps at which a request had
        a slot and emitted nothing, as its prompt was not computed or the batch had nothing of it.
    max_pauses : int or None
        Likewise: most steps in a row that one was to rest; None with token budgets.
    chunks : IntArray or None
        Shape (m, 3), with token budgets (`bfio.decode.features.batching`), in order of time: step,
        request, and tokens of its prompt that were computed then; None without. Loads of steps
        count what of these prompts was computed before.
    measured : MeasuredPart, optional
        Which of its steps and requests are measured; `bfio.simulate` says it.
    statistics : mapping
        What the policy says of itself.
    policy_options, predictor_options : mapping
        Options of the policy and of a named predictor, with the values in force; None for one
        that varies within the run, such as ``beta`` of `br-0`. Of a policy of one's own:
        the look-ahead steps that it was shown.
    engine : str
        Which engine ran it, ``"compiled"`` or ``"reference"``.
    wall_s, decide_s : float
        Wall-clock time of the whole simulation, and the part of it spent in the policy [s].
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
        requests = f"{self.completed:,} of {self.num_requests:,} requests"
        return f"<Run of {self.policy} on {machine}: {self.steps:,} steps, {requests} completed>"

    def to_frame(self, of: str = "steps") -> Any:
        """Return the record as a data frame of pandas.

        Parameters
        ----------
        of : {"steps", "requests"}
            A line per step, or per request (-1 and NaN where something did not happen).

        Raises
        ------
        InputError
            If pandas is not installed, or ``of`` is neither.
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
        """Return what the run was, for notebooks; `describe_run` has all metrics."""
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
        """``K``."""
        return len(self.duration_s)

    @property
    def num_requests(self) -> int:
        """``n``."""
        return len(self.start_step)

    @property
    def completed(self) -> int:
        """Requests that emitted all their tokens."""
        return int(np.count_nonzero(self.finish_step >= 0))

    @property
    def imbalance(self) -> IntArray:
        """``G·max load - total load`` of each step (BF-IO eq. 2), shape (K,) [tokens]."""
        return self.cluster.workers * self.max_load - self.total_load

    @property
    def measured_steps(self) -> IntArray | None:
        """Indices of the steps that are measured; None if the run has no such part."""
        return None if self.measured is None else self.measured.steps(self)

    @property
    def cancelled(self) -> int:
        """Requests whose client gave up before they were done."""
        return int(np.count_nonzero(self.cancel_step >= 0))

    @property
    def partial(self) -> int:
        """Requests that started but did not finish, cancelled ones too."""
        return int(np.count_nonzero(self.start_step >= 0)) - self.completed

    @property
    def is_drained(self) -> bool:
        """True if every request finished."""
        return self.completed == self.num_requests

    @property
    def tokens(self) -> int:
        """Tokens emitted."""
        return exact_sum(self.active)

    def resting(self) -> IntArray:
        """How many requests rest at each step, shape (K,)."""
        change = np.zeros(self.steps + 1, dtype=np.int64)
        if self.rests is not None:
            np.add.at(change, self.rests[:, 1], 1)
            np.add.at(change, self.rests[:, 2], -1)
        resting: IntArray = np.cumsum(change[:-1])
        return resting

    def first_token_step(self) -> IntArray:
        """At which step each request emits its first token, shape (n,); ``K`` if it does not.

        The one at which it starts, or the end of a rest that begins there; -1 if it never starts.
        """
        steps = self.start_step.copy()
        if self.rests is not None:
            who, first, end = self.rests.T
            at_once = first == self.start_step[who]
            steps[who[at_once]] = end[at_once]
        return steps

    def decode_step(self) -> IntArray:
        """From which step on each request may be decoded, shape (n,); ``K`` if from none.

        The one at which it starts, with token budgets the one after its prompt is computed; -1 if
        it never starts.
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
        """How many tokens the batch of each worker has at each step, shape (K, G).

        None without token budgets, or if the run was made with ``keep_trajectory=False``.
        """
        if self.chunks is None or self.running is None:
            return None
        step, request, tokens = self.chunks.T
        batches = self.running.copy()
        np.add.at(batches, (step, self.worker[request]), tokens)
        return batches

    def idle_fractions(self) -> FloatArray:
        """``1 - mean load / max load`` of each step, shape (K,).

        With token budgets a step may begin prompts and do nothing else: no load is no imbalance.
        """
        largest = self.cluster.workers * np.maximum(self.max_load, 1)
        idle: FloatArray = self.imbalance / largest
        return idle

    def end_s(self) -> FloatArray:
        """When each step ends, shape (K,) [s]."""
        return self.start_s + self.duration_s

    def steady_mask(self, warm_up: int = 0) -> BoolArray | None:
        """Return which steps are steady, shape (K,), or None if no step is.

        Steady steps are those with requests still waiting after admission, from the first such
        step at which every slot is full (where memory is limited: the first at which one waits),
        to the step at which the last request of the workload is revealed (to the end if the run
        ended before that). A run whose requests are all revealed at once has none. Where decisions
        take effect later, a slot that one of them holds is full, and whom it is held for does not
        wait.

        Parameters
        ----------
        warm_up : int
            Steps at the beginning that do not count. A run starts empty, and how well its first
            requests were placed shows for as long as they live.

        Notes
        -----
        Once the last request is revealed nothing refills the pool, and a policy that chooses among
        waiting requests is left with those it has passed over so far, the largest or the smallest.
        With a pool that is large beside the slots these steps would dominate the means.
        """
        held = self._held_slots()
        waits = self.waiting > held
        # Who rests keeps its slot.
        is_full = self.active + self.resting() + held == self.cluster.total_slots
        if self.cluster.memory is not None:
            # Memory may keep slots empty for ever; who waits does so because nothing has room.
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
        """Return how many slots are held for decisions that take effect later, shape (K,).

        With immediate dispatch who is bound stands in a queue, and holds none.
        """
        change = np.zeros(self.steps + 1, dtype=np.int64)
        if self.options.delay > 0 and self.options.dispatch is Dispatch.POOLED:
            sent = (self.bound_step >= 0) & (self.bound_step < self.steps)
            begins = np.where(self.last_start_step < 0, self.steps, self.last_start_step)
            ends = np.where(self.cancel_step < 0, begins, np.minimum(begins, self.cancel_step))
            np.add.at(change, self.bound_step[sent], 1)
            np.add.at(change, np.maximum(ends, self.bound_step)[sent], -1)
        held: IntArray = np.cumsum(change[:-1])
        return held
