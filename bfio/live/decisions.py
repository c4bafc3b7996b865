"""The decisions of a live router, without any network: its table of requests, and the policy.

The table mirrors the workers (BalanceRoute, section 5.1 and D.1). It holds the prompt, the emitted
tokens and the prediction of each request. A policy of `bfio.decode` sees the table as a
`DecodeState`, as in a simulation. The router reports events by `arrive`, `start`, `emit`, `leave`
and `set_slots`, and calls `decide` at each boundary between two steps.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.decode.compatibility import Asked, check_together
from bfio.decode.drift import LLM
from bfio.decode.engine import with_margin
from bfio.decode.features.ties import in_places, orders
from bfio.decode.machine.endings import FAR
from bfio.decode.options import Dispatch, Projection, WindowKnows
from bfio.decode.policy import binds_together, checked_decision, max_pauses_of
from bfio.decode.state import ActiveRequests, DecodeState
from bfio.prediction import registry as predictors
from bfio.prediction.predictor import CheckedPredictor, LengthSource, PredictionTask
from formulations.arrays import IntArray, frozen
from formulations.errors import InputError
from formulations.named_objects import users_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bfio.decode.cluster import Cluster
    from bfio.decode.options import RunOptions
    from bfio.decode.policy_registry import ChosenPolicy

#: Largest number of requests in the table.
ROWS = 2**15
#: States of a row: unused, in the pool, sent to a worker but not started, running, ended, and held
#: back until `Decisions.again`.
FREE, WAITING, BOUND, RUNNING, ENDED, HELD = range(6)


@dataclass(frozen=True)
class Taken:
    """One decision of the policy.

    Parameters
    ----------
    state : DecodeState
        State that the policy saw.
    rows : tuple of int
        The waiting requests of that state, in order of arrival.
    answer : tuple of (int or None)
        The worker of each of these requests, or None to keep waiting.
    prepare_s, policy_s : float
        Time to create the state, and time of the policy's decision [s].
    """

    state: DecodeState
    rows: tuple[int, ...]
    answer: tuple[int | None, ...]
    prepare_s: float
    policy_s: float

    @property
    def admitted(self) -> list[tuple[int, int]]:
        """Rows that leave the pool, with their workers."""
        pairs = zip(self.rows, self.answer, strict=True)
        return [(row, worker) for row, worker in pairs if worker is not None]


class Decisions:
    """The table of requests of a live router, and the policy that decides about it.

    Parameters
    ----------
    policy : ChosenPolicy
        The policy with its options.
    cluster : Cluster
        Workers, slots and memory; step times are used only by policies that weigh loads by speed.
    options : RunOptions
        A live router reads ``dispatch``, ``margin``, ``projection``, ``predictor``,
        ``window_knows``, ``ties`` and ``seed``.
    rows : int
        Largest number of requests in the table.
    predictor : CheckedPredictor, optional
        A predictor made for a known list of requests, whose indices are the rows; by default a
        new predictor as the options name it, for the rows of the table.

    Raises
    ------
    InputError
        If the policy or an option cannot be used with live requests.
    """

    def __init__(
        self,
        policy: ChosenPolicy,
        cluster: Cluster,
        options: RunOptions,
        *,
        rows: int = ROWS,
        predictor: CheckedPredictor | None = None,
    ) -> None:
        self.name, made = policy.name, policy.make()
        self.policy: Any = made
        self.look_ahead = policy.look_ahead(made)
        self.options = with_margin(made, options)
        check_live(policy, made, cluster, self.options, self.look_ahead)
        self.immediate = options.dispatch is Dispatch.IMMEDIATE
        #: Shape (rows,): prompt, largest output and emitted tokens, worker, and prompt key.
        self.prompt, self.output, self.emitted, self.worker, self.key = (
            np.zeros(rows, dtype=np.int64) for _ in range(5)
        )
        # Predictors divide by lengths.
        self.prompt[:] = self.output[:] = 1
        self.status = np.zeros(rows, dtype=np.int8)
        #: Shape (rows,): number in order of arrival, and the step at which it joined the pool.
        self.number, self.revealed = (np.zeros(rows, dtype=np.int64) for _ in range(2))
        # Shape (rows,): tokens emitted at the last prediction, and at the predicted end.
        self._asked, self._until = (np.full(rows, -1, dtype=np.int64) for _ in range(2))
        # Started requests that have not been predicted yet, with the tokens emitted before.
        self._fresh: dict[int, int] = {}
        self._ended: list[int] = []
        self._unused = deque(range(rows))
        self._arrived = 0
        self.slots, self.memory = cluster.worker_slots(), cluster.worker_memory()
        self.step = 0
        self.rng = options.generator()
        self._paces = cluster.paces()
        self._orders = orders(options.ties, cluster.workers, options.seed)
        self._lengths = predictors.lengths_of(options.predictor)
        self.predictor = None
        if self._lengths not in (LengthSource.UNKNOWN, LengthSource.KNOWN):
            self.predictor = predictor or self._made(str(options.predictor))
        learners: tuple[Any, ...] = (self.predictor, made)
        self._told = [each.finished for each in learners if hasattr(each, "finished")]

    def _made(self, name: str) -> CheckedPredictor:
        spec = predictors.find(name)
        if spec.name == "noisy-oracle":
            what = "draws errors for a list of requests, but live requests are unknown in advance"
            raise InputError("predictor noisy-oracle", what, "use oracle, or noisy-classifier")
        task = PredictionTask(
            self.prompt,
            self.options.seed,
            None,
            predictors.read_options(spec, name),
            self.output if spec.knows_future else None,
            self.key,
        )
        with users_code(f"predictor {name}", "making it ", remedy="correct the predictor"):
            return CheckedPredictor(spec.build(task), name)

    @property
    def num_waiting(self) -> int:
        """Number of requests in the pool or held back from the pool."""
        return int(np.count_nonzero((self.status == WAITING) | (self.status == HELD)))

    @property
    def is_full(self) -> bool:
        """Whether no row is free."""
        return not self._unused

    def rows_of(self, status: int) -> IntArray:
        """Return the rows with a status (such as `WAITING`), in order of arrival."""
        rows = np.flatnonzero(self.status == status)
        in_order: IntArray = rows[np.argsort(self.number[rows], kind="stable")]
        return in_order

    def loads(self) -> IntArray:
        """Return the load of each worker, shape (G,) [tokens]."""
        return self._sums(np.flatnonzero(self.status == RUNNING))[1]

    def free_slots(self) -> IntArray:
        """Return how many requests each worker accepts now, shape (G,); see `DecodeState`."""
        if self.immediate and self.options.margin is None:
            return np.minimum(self.slots, 1)
        margin = self.options.margin or 0 if self.immediate else 0
        most: IntArray = np.where(self.slots > 0, self.slots + margin, 0)
        taken = np.bincount(self.worker[self._sent()], minlength=len(most))
        free: IntArray = np.maximum(most - taken, 0)
        return free

    def arrive(self, prompt: int, output: int, key: int = 0) -> int:
        """Add a request to the pool, and return its row.

        ``prompt`` and the largest ``output`` are in tokens; ``key`` is equal for equal prompts.
        """
        row = self._unused.popleft()
        self.prompt[row], self.output[row], self.key[row] = prompt, output, key
        self.emitted[row], self._asked[row], self._until[row] = 0, -1, -1
        self.number[row], self.revealed[row] = self._arrived, self.step
        self._arrived += 1
        self.status[row], self.worker[row] = WAITING, -1
        return row

    def start(self, row: int) -> None:
        """Record that a bound request has started to run."""
        self.status[row] = RUNNING
        self._fresh[row] = int(self.emitted[row])

    def emit(self, row: int, tokens: int) -> None:
        """Record that a running request has emitted ``tokens`` further tokens."""
        self.emitted[row] += tokens

    def hold(self, row: int) -> None:
        """Remove a request from its worker, and hold it back from the pool until `again`."""
        self._fresh.pop(row, None)
        self.status[row], self.worker[row] = HELD, -1

    def again(self, row: int) -> None:
        """Return a request to the pool in order of arrival; add its emitted tokens to its size."""
        self.hold(row)
        self.status[row] = WAITING

    def leave(self, row: int, *, finished: bool) -> None:
        """Record the end of a request; predictors learn its length only if it ``finished``."""
        if finished:
            # One that ends in its first step is still asked about, as in the simulator: a learner
            # may train when it is asked.
            self._ended.append(row)
            self.status[row] = ENDED
        else:
            self._fresh.pop(row, None)
            self.status[row] = FREE
            self._unused.append(row)

    def set_slots(self, worker: int, slots: int) -> None:
        """Set the number of slots of a worker; 0 while the worker is down."""
        self.slots[worker] = slots

    def end_step(self) -> None:
        """Begin the next step: report finished requests to learners, update due predictions."""
        self._ask_fresh()
        self.step += 1
        ended = sorted(self._ended, key=self.number.__getitem__)
        self._ended.clear()
        if ended:
            rows = np.array(ended)
            for tell in self._told:
                tell(rows, self.emitted[rows])
            self.status[rows] = FREE
            self._unused.extend(ended)
        if self.predictor is not None and self.look_ahead and self.predictor.refresh > 1:
            rows = np.flatnonzero(self.status == RUNNING)
            ages, q = self.emitted[rows], self.predictor.refresh
            due = (ages // q != self._asked[rows] // q) | (ages >= self._until[rows])
            self._ask(rows[due], ages[due])

    def decide(self) -> list[Taken]:
        """Ask the policy about the waiting requests, and bind the requests that it admits.

        With pooled dispatch there is at most one decision; with immediate dispatch one per
        request, unless the policy decides about all arrivals together (`binds_together`). The
        policy is not called if no request waits or no worker accepts a request.

        Raises
        ------
        InputError
            If the policy raises an error or its answer is invalid. No request of that answer has
            been bound or started.
        """
        waiting, free = self.rows_of(WAITING), self.free_slots()
        if len(waiting) == 0 or not free.any():
            return []
        if not self.immediate or binds_together(self.policy):
            return [self._take(waiting, free)]
        taken = []
        for i in range(len(waiting)):
            if not free.any():
                break
            taken.append(self._take(waiting[i : i + 1], free))
            free = self.free_slots()
        return taken

    def _take(self, rows: IntArray, free: IntArray) -> Taken:
        began = perf_counter()
        state = self._state(rows, free)
        order = None if self._orders is None else next(self._orders)
        shown = state if order is None else in_places(state, order)
        where, asked = f"policy {self.name}, step {self.step}", perf_counter()
        with users_code(where, remedy="correct the policy"):
            answer = self.policy(shown)
        done = perf_counter()
        checked = checked_decision(answer, len(rows), len(free), self.name, self.step)
        if order is not None:
            checked = tuple(None if g is None else int(order[g]) for g in checked)
        if not self.immediate:
            checked = self._fitting(checked, state)
        taken = Taken(state, tuple(rows.tolist()), checked, asked - began, done - asked)
        self._check(taken, where)
        for row, worker in taken.admitted:
            self.worker[row] = worker
            self.status[row] = BOUND
            if not self.immediate:
                self.start(row)
        return taken

    def _fitting(self, answer: Sequence[int | None], state: DecodeState) -> tuple[int | None, ...]:
        """Return the answer, with None for requests that do not fit the memory of their worker."""
        room, kept = state.room.copy(), []
        for g, need in zip(answer, state.needs.tolist(), strict=True):
            fits = g is not None and need <= room[g]
            kept.append(g if fits else None)
            if fits:
                room[g] -= need
        return tuple(kept)

    def _check(self, taken: Taken, where: str) -> None:
        workers = np.array([worker for _, worker in taken.admitted], dtype=np.int64)
        sent = np.bincount(workers, minlength=len(self.slots))
        if self.immediate and self.options.margin is None:
            sent = np.minimum(sent, 1)
        if (over := np.flatnonzero(sent > taken.state.free_slots)).size:
            what = f"worker {over[0]} has no free slot left"
            raise InputError(where, what, "respect state.free_slots")
        if self.immediate and not binds_together(self.policy) and taken.answer[0] is None:
            what, remedy = "returned None in immediate dispatch", "return a worker, or use pooled"
            raise InputError(where, what, f"{remedy} dispatch")

    def _state(self, rows: IntArray, free: IntArray) -> DecodeState:
        active, bound = self.rows_of(RUNNING), np.flatnonzero(self.status == BOUND)
        columns = np.arange(self.look_ahead + 1)
        grows = self.options.projection is Projection.GROWING
        growth = columns if grows else np.zeros_like(columns)
        left = self._remaining(active)
        base, running = self._projected(active, left, growth)
        queued, queued_tokens = self._sums(bound)
        sizes = self.prompt[rows] + self.emitted[rows]
        runs = columns < self._steps_of_waiting(rows)[:, None]
        of_bound = queued_tokens[:, None] + queued[:, None] * growth if len(bound) else None
        return DecodeState(
            step=self.step,
            slots=int(self.slots.max()),
            loads=frozen(base[:, 0].copy()),
            projected_loads=frozen(base),
            free_slots=frozen(free.copy()),
            running=frozen(running[:, 0].copy()),
            projected_running=frozen(running),
            queued=frozen(queued),
            queued_tokens=frozen(queued_tokens),
            sizes=frozen(sizes),
            ages=frozen(self.step - self.revealed[rows]),
            contributions=frozen(np.where(runs, sizes[:, None] + growth, 0)),
            rng=self.rng,
            room=frozen(self.memory - (0 if self.immediate else base[:, 0])),
            token_time=self._paces[0],
            overhead_tokens=self._paces[1],
            prefixes=_PromptKeys(self.key[rows], len(self.slots)),
            binds=self.immediate,
            bound_loads=None if of_bound is None else frozen(of_bound),
            endings=lambda: frozen(np.minimum(left, self.look_ahead + 1)),
            holdings=lambda: self._active(active),
        )

    def _projected(
        self, active: IntArray, left: IntArray, growth: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Return ``b_g(h)`` and the requests still running, each of shape (G, H+1)."""
        columns, num_workers = len(growth), len(self.slots)
        # A request with r steps left runs at h < r: count by last column, then sum from the right.
        cells = self.worker[active] * columns + np.minimum(left, columns) - 1
        shape = num_workers, columns
        count, tokens = (
            np.cumsum(
                np.bincount(cells, weights, num_workers * columns).reshape(shape)[:, ::-1], axis=1
            )[:, ::-1].astype(np.int64)
            for weights in (None, self.prompt[active] + self.emitted[active])
        )
        return tokens + count * growth, count

    def _remaining(self, active: IntArray) -> IntArray:
        """Return known or predicted remaining steps of running requests, at least 1."""
        if self._lengths is LengthSource.KNOWN and self.look_ahead:
            true: IntArray = np.maximum(self.output[active] - self.emitted[active], 1)
            return true
        if self.predictor is None or not self.look_ahead:
            return np.full(len(active), self.look_ahead + 1)
        if self.predictor.refresh == 1:
            # A prediction is valid for one step only, so it suffices to ask at decisions.
            self._ask(active, self.emitted[active])
        else:
            self._ask_fresh()
        left: IntArray = np.maximum(self._until[active] - self.emitted[active], 1)
        return left

    def _steps_of_waiting(self, rows: IntArray) -> IntArray:
        """Return the predicted steps of waiting requests; H + 1 if the window has none."""
        beyond = np.full(len(rows), self.look_ahead + 1)
        if self.options.window_knows is not WindowKnows.ALL or not self.look_ahead:
            return beyond
        if self._lengths is LengthSource.KNOWN:
            true: IntArray = np.maximum(self.output[rows] - self.emitted[rows], 1)
            return true
        if self.predictor is None:
            return beyond
        return self.predictor.remaining(rows, self.emitted[rows], self.look_ahead)

    def _ask_fresh(self) -> None:
        if self._fresh:
            rows, ages = np.array(list(self._fresh.items())).T
            self._fresh.clear()
            if self.predictor is not None and self.look_ahead and self.predictor.refresh > 1:
                self._ask(rows, ages)

    def _ask(self, rows: IntArray, ages: IntArray) -> None:
        assert self.predictor is not None
        if len(rows) == 0:
            return
        steps = self.predictor.remaining(rows, ages, self.look_ahead)
        if not self.predictor.counts_down:
            steps = np.where(steps > self.look_ahead, FAR, steps)
        self._asked[rows], self._until[rows] = ages, ages + steps

    def _sums(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return the number and the total load [tokens] of rows by worker, each of shape (G,)."""
        workers, tokens = self.worker[rows], self.prompt[rows] + self.emitted[rows]
        G = len(self.slots)
        return np.bincount(workers, minlength=G), np.bincount(workers, tokens, G).astype(np.int64)

    def _sent(self) -> IntArray:
        return np.flatnonzero((self.status == RUNNING) | (self.status == BOUND))

    def _active(self, active: IntArray) -> ActiveRequests:
        loads = self.prompt[active] + self.emitted[active]
        columns = (active, self.worker[active], loads, np.zeros_like(active), self.prompt[active])
        return ActiveRequests(*(frozen(column) for column in columns))


def check_live(
    policy: ChosenPolicy, made: object, cluster: Cluster, options: RunOptions, steps: int
) -> None:
    """Raise InputError if a policy or an option of runs cannot be used with live requests."""
    where = f"policy {policy.name}"
    if max_pauses_of(made) is not None:
        what = "pauses requests, but serving engines cannot pause a request on demand"
        raise InputError(where, what, "use the policy of its option base")
    if not policy.spec.interruptible:
        what = "assumes that requests run to their end, but clients may cancel and workers fail"
        raise InputError(where, what, "use another policy")
    check_together(Asked(policy.name, policy.spec, cluster, options, steps))
    if options.drift != LLM:
        raise InputError("drift", "live requests grow by one token per step", "leave it out")


@dataclass(frozen=True)
class _PromptKeys:
    """Prefix information of waiting prompts: only keys, because worker caches are unknown."""

    key: IntArray
    num_workers: int

    @property
    def cached_tokens(self) -> IntArray:
        """See `DecodeState.cached_tokens`."""
        return frozen(np.zeros((len(self.key), self.num_workers), dtype=np.int64))

    def keys(self, num_blocks: int) -> IntArray:
        """See `DecodeState.routing_keys`; equal whole prompts have equal keys."""
        return frozen(self.key)
