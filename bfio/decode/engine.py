"""The barrier-synchronised decode engine (BF-IO, section 6.2): a loop of named phases.

One step, in this order: *reveal* new requests, *decide* who goes where, *admit*, *run* (loads are
measured, the step lasts as long as its most loaded worker needs, every active request emits one
token) and *complete* (finished requests free their slots, visible at the next step).

A policy is asked only when a request waits and a slot is free: anything else leaves it no choice.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from bfio.common.users_code import users_code
from bfio.decode import predictor_registry as predictors
from bfio.decode.decisions import checked_decision
from bfio.decode.observers import Observer, StepView, TrajectoryObserver
from bfio.decode.options import MAX_SEED, Arrivals, Dispatch, RunOptions
from bfio.decode.projection import Projector
from bfio.decode.run import Run
from bfio.decode.state import DecodeState
from formulations.arrays import FloatArray, IntArray, frozen, integer
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from bfio.decode.cluster import Cluster
    from bfio.decode.drift import Drift
    from bfio.decode.policy import Policy
    from bfio.decode.predictor import Predictor
    from bfio.workloads.workload import Workload

#: Largest G·B·(load of one request): every 64-bit sum within a step stays exact.
MAX_STEP_TOKENS = 2**62
#: Longest request that a run without a limit of steps will wait for.
MAX_DRAIN_STEPS = 10**8


def simulate(
    workload: Workload,
    policy: Policy,
    cluster: Cluster,
    *,
    arrivals: str = "pool",
    pool: int = 128,
    rate_scale: Fraction | float = 1,
    dispatch: str = "pooled",
    horizon: int = 0,
    projection: str = "constant",
    predictor: str | Predictor = "none",
    drift: Drift | None = None,
    steps: int | None = None,
    seed: int = 0,
    observers: Sequence[Observer] = (),
    keep_trajectory: bool = True,
    stop: Callable[[], bool] | None = None,
) -> Run:
    """Simulate one policy on one workload.

    Parameters
    ----------
    workload : Workload
        The requests.
    policy : Policy
        Called with a `DecodeState`, returns a worker or None per waiting request.
    cluster : Cluster
        The machine.
    arrivals : {"pool", "timed"}
        ``pool`` reveals in trace order while fewer than ``pool`` requests wait; ``timed`` reveals
        a request at the first step that starts at or after its arrival.
    pool : int
        Revelation target ``R >= 1``; without effect on timed arrivals.
    rate_scale : Fraction or float
        With timed arrivals, divides the times between arrivals (2 doubles the offered load).
    dispatch : {"pooled", "immediate"}
        ``immediate`` asks the policy about each request alone as it is revealed; the request joins
        the FIFO queue of the worker it names.
    horizon : int
        Look-ahead ``H`` offered to the policy; if it asks for a longer one, that is used.
    projection : {"constant", "growing"}
        How loads move over the window.
    predictor : str or Predictor
        Name of a registered predictor or an object of one's own.
    drift : Drift, optional
        Load growth of running requests; LLM decode by default.
    steps : int, optional
        Most steps to run; by default the run drains.
    seed : int
        Seed of the generator that the policy may draw from.
    observers : sequence of Observer
        Called after each step.
    keep_trajectory : bool
        Keep loads and running requests of every step and worker in the run.
    stop : callable, optional
        Asked before each step; True ends the run there, as ``steps`` would.

    Returns
    -------
    Run
        The record.

    Raises
    ------
    InputError
        If an option is out of its domain, the policy answers badly, or it refuses to admit while
        nothing runs and nothing can arrive (the run would never end).
    """
    began = perf_counter()
    length_predictor = _predictor(predictor, workload, seed)
    options = run_options(
        policy,
        predictor=length_predictor.name,
        arrivals=arrivals,
        pool=pool,
        rate_scale=rate_scale,
        dispatch=dispatch,
        horizon=horizon,
        projection=projection,
        drift=drift,
        steps=steps,
        seed=seed,
    )
    check_magnitude(workload, cluster, options.drift)
    check_length(workload, options.steps)
    trajectory = TrajectoryObserver() if keep_trajectory else None
    machine = _Machine(workload, policy, cluster, options, length_predictor)
    watching = (*observers, *([trajectory] if trajectory else []))
    while machine.step != options.steps and machine.has_work():
        if stop is not None and stop():
            break
        machine.reveal()
        machine.decide_and_admit()
        if machine.is_idle():
            machine.wait_for_arrival()
            continue
        view = machine.run()
        for observer in watching:
            observer.on_step(view)
    return machine.record(trajectory, began)


def run_options(policy: Policy, **options: Any) -> RunOptions:
    """Return the options of a run of ``policy``, which may look further ahead than asked for.

    Raises
    ------
    InputError
        If an option is out of its domain.
    """
    checked = RunOptions(**options)
    return replace(checked, horizon=max(checked.horizon, getattr(policy, "horizon", 0)))


class _Machine:
    """The state of a run, and one method per phase."""

    def __init__(
        self,
        workload: Workload,
        policy: Policy,
        cluster: Cluster,
        options: RunOptions,
        predictor: Predictor,
    ) -> None:
        n = len(workload)
        self.prompts, self.outputs = workload.prompt_tokens, workload.output_tokens
        self.policy, self.policy_name = policy, policy_name(policy)
        self.cluster, self.options, self.predictor = cluster, options, predictor
        self.projector = Projector(options.horizon, options.projection, predictor, options.drift)
        self.rng = options.generator()
        self.arrival_s = arrival_seconds(workload, options)
        self.step, self.clock, self.idle_s, self.decide_s = 0, 0.0, 0.0, 0.0
        self.num_revealed, self.num_completed = 0, 0
        # Pools of request indices: the waiting ones in arrival order, the active ones in any.
        self.waiting = np.zeros(0, dtype=np.int64)
        self.active = np.zeros(0, dtype=np.int64)
        self.admitted = self.active
        self.loads = np.zeros(cluster.workers, dtype=np.int64)
        self.running = np.zeros(cluster.workers, dtype=np.int64)
        self.state: DecodeState | None = None
        self.decision: tuple[int | None, ...] | None = None
        # Per request; last_step is known at the start and becomes finish_step if it is reached.
        self.reveal_step, self.start_step, self.last_step, self.worker = np.full(
            (4, n), -1, dtype=np.int64
        )
        self.reveal_s = np.full(n, np.nan)
        self.step_times: list[tuple[float, float, float]] = []
        self.step_counts: list[tuple[int, int, int, int, int, int]] = []

    def has_work(self) -> bool:
        """Return whether any request has not finished."""
        return self.num_completed < len(self.prompts)

    def is_idle(self) -> bool:
        """Return whether no request is active, so that no step can run."""
        return len(self.active) == 0

    # Phase 1: reveal.

    def reveal(self) -> None:
        """Move requests from the undiscovered rest of the trace to the waiting ones."""
        first, last = self.num_revealed, self._reveal_until()
        self.reveal_step[first:last] = self.step
        self.reveal_s[first:last] = self.clock
        self.num_revealed = last
        self.waiting = np.concatenate((self.waiting, np.arange(first, last, dtype=np.int64)))
        self._measure()
        if self.options.dispatch is Dispatch.IMMEDIATE and last > first:
            self._bind(range(first, last))

    def _reveal_until(self) -> int:
        if self.arrival_s is not None:
            return int(np.searchsorted(self.arrival_s, self.clock, side="right"))
        missing = max(0, self.options.pool - len(self.waiting))
        return min(len(self.prompts), self.num_revealed + missing)

    def _measure(self) -> None:
        """Compute the loads of the active requests at this step."""
        self.loads = np.zeros(self.cluster.workers, dtype=np.int64)
        np.add.at(self.loads, self.worker[self.active], self._active_weights())

    def _active_weights(self) -> IntArray:
        active = self.active
        return self.options.drift.weights(self.prompts[active], self.start_step[active], self.step)

    def _bind(self, revealed: range) -> None:
        """Ask the policy about each revealed request alone, as immediate dispatch does."""
        bound = self.waiting[: len(self.waiting) - len(revealed)]
        queued = np.bincount(self.worker[bound], minlength=self.cluster.workers)
        queued_tokens = np.zeros(self.cluster.workers, dtype=np.int64)
        np.add.at(queued_tokens, self.worker[bound], self.prompts[bound])
        anywhere = np.ones(self.cluster.workers, dtype=np.int64)
        projected = self._projected_loads()
        for request in revealed:
            ids = np.array([request])
            state = self._state(ids, anywhere, queued, queued_tokens, projected)
            (worker,) = self._ask(state, anywhere)
            if worker is None:
                raise InputError(
                    f"policy {self.policy_name}, step {self.step}, request 0",
                    "returned None in immediate dispatch",
                    "return a worker, or use pooled dispatch",
                )
            self.worker[request] = worker
            queued[worker] += 1
            queued_tokens[worker] += self.prompts[request]

    # Phases 2 and 3: decide and admit.

    def decide_and_admit(self) -> None:
        """Let requests start: those the policy chose, or the heads of the workers' queues."""
        self.admitted = self.waiting[:0]
        self.state = self.decision = None
        free = self.cluster.slots - self.running
        if len(self.waiting) == 0 or not free.any():
            return
        if self.options.dispatch is Dispatch.POOLED:
            chosen = self._decide(free)
        else:
            chosen = ranks_in_queue(self.worker[self.waiting]) < free[self.worker[self.waiting]]
        self._admit(chosen)

    def _decide(self, free: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Ask the policy; bind the chosen requests to their workers and return which they are."""
        none_queued = np.zeros_like(free)
        self.state = self._state(
            self.waiting, free, none_queued, none_queued, self._projected_loads()
        )
        self.decision = self._ask(self.state, free)
        workers = np.array([-1 if w is None else w for w in self.decision], dtype=np.int64)
        self.worker[self.waiting] = workers
        return workers >= 0

    def _admit(self, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        self.admitted = self.waiting[chosen]
        self.waiting = self.waiting[~chosen]
        self.active = np.concatenate((self.active, self.admitted))
        self.start_step[self.admitted] = self.step
        self.last_step[self.admitted] = self.step + self.outputs[self.admitted] - 1
        workers = self.worker[self.admitted]
        np.add.at(self.loads, workers, self.prompts[self.admitted])
        np.add.at(self.running, workers, 1)

    def _ask(self, state: DecodeState, free: IntArray) -> tuple[int | None, ...]:
        began = perf_counter()
        with users_code(f"policy {self.policy_name}, step {self.step}", remedy="mend the policy"):
            answer = self.policy(state)
        self.decide_s += perf_counter() - began
        return checked_decision(answer, state.num_waiting, free, self.policy_name, self.step)

    def _projected_loads(self) -> IntArray:
        if self.options.horizon == 0:
            return self.loads[:, None].copy()
        return self.projector.loads(
            self.active,
            self.worker[self.active],
            self._active_weights(),
            self.step - self.start_step[self.active],
            self.step,
            self.cluster.workers,
        )

    def _state(
        self,
        requests: IntArray,
        free: IntArray,
        queued: IntArray,
        queued_tokens: IntArray,
        projected: IntArray,
    ) -> DecodeState:
        """Show the policy read-only copies, so that nothing it does reaches the engine."""
        sizes = self.prompts[requests]
        return DecodeState(
            step=self.step,
            slots=self.cluster.slots,
            loads=frozen(self.loads.copy()),
            projected_loads=frozen(projected.copy()),
            free_slots=frozen(free.copy()),
            running=frozen(self.running.copy()),
            queued=frozen(queued.copy()),
            queued_tokens=frozen(queued_tokens.copy()),
            sizes=frozen(sizes),
            ages=frozen(self.step - self.reveal_step[requests]),
            contributions=frozen(self.projector.contributions(requests, sizes, self.step)),
            rng=self.rng,
        )

    def wait_for_arrival(self) -> None:
        """Let the clock jump to the next arrival; without one the run is stalled."""
        if self.arrival_s is None or self.num_revealed == len(self.arrival_s):
            raise InputError(
                f"policy {self.policy_name}, step {self.step}",
                f"stalled: nothing runs, nothing can arrive, {len(self.waiting)} requests wait "
                "and none was admitted",
                "admit at least one request when no worker is busy",
            )
        arrival = float(self.arrival_s[self.num_revealed])
        self.idle_s += arrival - self.clock
        self.clock = arrival

    # Phases 4 and 5: run and complete.

    def run(self) -> StepView:
        """Run one step and return what an observer may see of it."""
        peak, total = int(self.loads.max()), int(self.loads.sum())
        duration = self.cluster.step_time(peak, total / self.cluster.workers)
        self.step_times.append((self.clock, duration, self.idle_s))
        self.step_counts.append(
            (
                peak,
                int(self.loads.min()),
                total,
                len(self.active),
                len(self.waiting),
                len(self.admitted),
            )
        )
        loads, running = frozen(self.loads), frozen(self.running.copy())
        step, start = self.step, self.clock
        finished = self._complete()
        self.clock, self.idle_s = start + duration, 0.0
        self.step += 1
        return StepView(
            step=step,
            start_s=start,
            duration_s=duration,
            loads=loads,
            running=running,
            waiting=len(self.waiting),
            admitted=frozen(self.admitted),
            finished=frozen(finished),
            completed=self.num_completed,
            state=self.state,
            decision=self.decision,
        )

    def _complete(self) -> IntArray:
        """Let requests with all their tokens leave; their slots are free at the next step."""
        done = self.last_step[self.active] == self.step
        finished: IntArray = self.active[done]
        if len(finished):
            self.active = self.active[~done]
            np.subtract.at(self.running, self.worker[finished], 1)
            self.num_completed += len(finished)
            self.predictor.finished(finished)
        return finished

    def record(self, trajectory: TrajectoryObserver | None, began: float) -> Run:
        """Freeze what happened into a `Run`."""
        times = np.array(self.step_times, dtype=np.float64).reshape(-1, 3).T.copy()
        counts = np.array(self.step_counts, dtype=np.int64).reshape(-1, 6).T.copy()
        start_s, duration_s, idle_before_s = (frozen(row) for row in times)
        max_load, min_load, total_load, active, waiting, admitted = (frozen(r) for r in counts)
        G = self.cluster.workers
        statistics = getattr(self.policy, "statistics", None)
        return Run(
            policy=self.policy_name,
            cluster=self.cluster,
            options=self.options,
            start_s=start_s,
            duration_s=duration_s,
            idle_before_s=idle_before_s,
            max_load=max_load,
            min_load=min_load,
            total_load=total_load,
            active=active,
            waiting=waiting,
            admitted=admitted,
            loads=None if trajectory is None else frozen(trajectory.loads(G)),
            running=None if trajectory is None else frozen(trajectory.running(G)),
            reveal_step=frozen(self.reveal_step),
            start_step=frozen(self.start_step),
            finish_step=frozen(np.where(self.last_step < self.step, self.last_step, -1)),
            worker=frozen(self.worker),
            reveal_s=frozen(self.reveal_s),
            arrival_s=None if self.arrival_s is None else frozen(self.arrival_s),
            statistics={} if statistics is None else dict(statistics()),
            wall_s=perf_counter() - began,
            decide_s=self.decide_s,
        )


def policy_name(policy: Policy) -> str:
    """Return the name a policy goes by: its own, its function's or its class's."""
    for owner, attribute in ((policy, "name"), (policy, "__name__"), (type(policy), "__name__")):
        name = getattr(owner, attribute, None)
        if isinstance(name, str):
            return name
    return repr(policy)


def ranks_in_queue(workers: IntArray) -> IntArray:
    """Return how many earlier entries name the same worker, for each entry; shape (N,)."""
    order = np.argsort(workers, kind="stable")
    in_order = workers[order]
    ranks = np.empty(len(workers), dtype=np.int64)
    ranks[order] = np.arange(len(workers)) - np.searchsorted(in_order, in_order)
    return ranks


def _predictor(predictor: str | Predictor, workload: Workload, seed: int) -> Predictor:
    if not isinstance(predictor, str):
        return predictor
    return predictors.build(predictor, workload, integer(seed, "seed", maximum=MAX_SEED))


def arrival_seconds(workload: Workload, options: RunOptions) -> FloatArray | None:
    """Return when requests arrive, shape (n,) [s]; None unless arrivals are timed."""
    if options.arrivals is Arrivals.POOL:
        return None
    if workload.arrival_times is None or options.rate_scale == 1:
        return workload.arrival_seconds()
    # Divide before rounding, so that the scaled times are the nearest floats to the exact ones.
    exact = (time / options.rate_scale for time in workload.arrival_times)
    return np.array([float(time) for time in exact], dtype=np.float64)


def check_length(workload: Workload, steps: int | None) -> None:
    """Refuse to drain what no one could wait for.

    Raises
    ------
    InputError
        If a request has more than `MAX_DRAIN_STEPS` tokens and nothing limits the steps.
    """
    longest = int(workload.output_tokens.max(initial=0))
    if steps is None and longest > MAX_DRAIN_STEPS:
        raise InputError(
            "workload", f"one request takes {longest} steps to drain", "limit the run by --steps"
        )


def check_magnitude(workload: Workload, cluster: Cluster, drift: Drift) -> int:
    """Return the largest possible sum of the loads of a step [tokens].

    Raises
    ------
    InputError
        If it exceeds `MAX_STEP_TOKENS`.
    """
    if len(workload) == 0:
        return 0
    longest = int(workload.output_tokens.max())
    heaviest = int(workload.prompt_tokens.max()) + drift.largest_gain(longest)
    together = cluster.workers * min(cluster.slots, len(workload)) * heaviest
    if together > MAX_STEP_TOKENS:
        raise InputError(
            "workload",
            f"{cluster.total_slots} slots of up to {heaviest} tokens overflow 64-bit sums",
            "use shorter requests or fewer slots",
        )
    return together
