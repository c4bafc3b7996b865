"""The state that a policy sees at one decode step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from bfio.common.array_kernels import peak_of, sum_of
from bfio.common.compilable import compilable
from bfio.decode.cluster import NO_LIMIT
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.arrays import IntArray


@compilable(allocates=True)
def window_capacity(
    base: IntArray,
    contribution: IntArray,
    loads: IntArray,
    running: IntArray,
    room: IntArray,
    needs: IntArray,
    reserves: bool,
) -> IntArray:
    """Return the largest load that each worker may have in the window, shape (G,) [tokens].

    This is the memory of the worker, or its projected load without new requests if that is more. A
    worker without requests accepts one request that fits now, however much it grows; otherwise the
    request might wait forever. The result is capped at an upper bound on all loads, which excludes
    no assignment and avoids overflow in products.

    ``base``, shape (G, H+1), and ``contribution``, (N, H+1), are projected loads of workers and of
    waiting requests [tokens]; ``loads`` [tokens], ``running`` and ``room`` [tokens], shape (G,),
    are loads, requests and free memory of workers; ``needs``, (N,), is the memory that each
    waiting request needs to start [tokens]. If peaks are reserved, growth needs no further memory.
    """
    peaks = np.zeros(len(contribution), dtype=np.int64)
    for i in range(len(contribution)):
        peaks[i] = peak_of(contribution[i])
    projected = np.empty(len(base), dtype=np.int64)
    for g in range(len(base)):
        projected[g] = peak_of(base[g])
    heaviest = peak_of(projected) + sum_of(peaks)
    capacity = np.empty(len(base), dtype=np.int64)
    for g in range(len(base)):
        most = (projected[g] if reserves else loads[g]) + room[g]
        if running[g] == 0:
            for i in range(len(peaks)):
                if needs[i] <= room[g]:
                    most = max(most, peaks[i])
        capacity[g] = min(max(most, projected[g]), heaviest)
    return capacity


class ActiveRequests(NamedTuple):
    """Requests that have a slot before a step, running or resting, in order of arrival."""

    request: IntArray  #: Shape (A,): indices of the requests in order of arrival.
    worker: IntArray  #: Shape (A,): their workers.
    #: Shape (A,): KV cache of each, which is also its load in the step if it runs [tokens].
    load: IntArray
    #: Shape (A,): number of consecutive steps that each has rested; 0 if it ran in the last step.
    rested: IntArray
    prompt: IntArray  #: Shape (A,): their prompts [tokens].


class Prefixes(Protocol):
    """Prefix information about the waiting requests of a state."""

    @property
    def cached_tokens(self) -> IntArray:
        """See `DecodeState.cached_tokens`."""

    def keys(self, num_blocks: int) -> IntArray:
        """See `DecodeState.routing_keys`."""


@dataclass(frozen=True)
class DecodeState:
    """The state of the cluster and the pool before admission at one step.

    There are G workers, N waiting requests in order of arrival, and look-ahead steps h = 0..H. All
    loads and sizes are in tokens.

    Parameters
    ----------
    step : int
        Decode step, from 0.
    slots : int
        Slots per worker, ``B``.
    loads : IntArray
        Shape (G,): current load of each worker, without new admissions.
    projected_loads : IntArray
        Shape (G, H+1): ``b_g(h)``, predicted loads without new admissions; column 0 is ``loads``.
    free_slots : IntArray
        Shape (G,): slots that can be filled in this step.
    running : IntArray
        Shape (G,): number of requests being decoded.
    projected_running : IntArray
        Shape (G, H+1): number of running requests predicted to be still running; column 0 is
        ``running``.
    queued : IntArray
        Shape (G,): number of requests bound to the worker that do not run yet (0 with pooled
        dispatch).
    queued_tokens : IntArray
        Shape (G,): prompt tokens of the requests counted in ``queued``.
    sizes : IntArray
        Shape (N,): prompt tokens ``s_i`` of the waiting requests; for an interrupted request, its
        load at that time.
    ages : IntArray
        Shape (N,): steps that each request has waited since it was revealed.
    contributions : IntArray
        Shape (N, H+1): ``v_i(h)``, predicted load of each request if admitted now; column 0 is
        ``sizes``.
    rng : numpy.random.Generator
        Random generator of the run; a policy must use no other.
    room : IntArray
        Shape (G,): memory available for requests that start now [tokens]; without a memory limit,
        more than any request needs. A worker refuses a request that does not fit; the request
        keeps waiting.
    needs : IntArray
        Shape (N,): memory that each waiting request needs to start: its size, or its peak if peaks
        are reserved.
    reserves : bool
        Whether peaks are reserved, so that growth needs no further memory.
    token_time : IntArray or None
        Shape (G,): times per token of the workers as small integers in proportion to each other;
        None if all workers have the same speed.
    overhead_tokens : IntArray or None
        Shape (G,): fixed part of each worker's step, in tokens of its own time, rounded; None if
        all workers have the same speed.
    prefixes : Prefixes or None
        Source of `cached_tokens` and `routing_keys`; None without prefix information.
    binds : bool
        Whether dispatch is immediate: requests are bound now and start when their worker has room.
        ``free_slots`` is then the number of further requests that each worker accepts.
    bound_loads : IntArray or None
        Shape (G, H+1): load of the requests that are bound to a worker but not running, as if
        all started now and none ended within the window; None if there are no such requests.
    endings : callable or None
        Function that computes `remaining`; None if the ends of requests are unknown.
    holdings : callable or None
        Function that computes `active`; None if individual requests are unknown.
    step_units : tuple of IntArray or None
        Each of shape (G,): fixed part of a step and time per token of each worker, as integers in
        a common time unit, rounded, without slowdowns by stragglers. None if a token takes no
        time, and for policies that do not pause.
    pending_prefill : IntArray
        Shape (G,): prompt tokens not yet computed of the requests of each worker; 0 without token
        budgets.

    Notes
    -----
    A resting request (``docs/pausing.md``) is active: ``loads`` and ``running`` include it.
    Projections assume that all active requests run from now on, since the policy decides at this
    step which requests rest. With token budgets (`bfio.decode.features.batching`), loads include
    whole prompts, computed or not, and projections assume that all active requests decode from now
    on.
    """

    step: int
    slots: int
    loads: IntArray
    projected_loads: IntArray
    free_slots: IntArray
    running: IntArray
    projected_running: IntArray
    queued: IntArray
    queued_tokens: IntArray
    sizes: IntArray
    ages: IntArray
    contributions: IntArray
    rng: np.random.Generator
    room: IntArray = None  # type: ignore[assignment]  # set below, as are needs
    needs: IntArray = None  # type: ignore[assignment]
    reserves: bool = False
    token_time: IntArray | None = None
    overhead_tokens: IntArray | None = None
    prefixes: Prefixes | None = None
    binds: bool = False
    bound_loads: IntArray | None = None
    endings: Callable[[], IntArray] | None = None
    holdings: Callable[[], ActiveRequests] | None = None
    step_units: tuple[IntArray, IntArray] | None = None
    pending_prefill: IntArray = None  # type: ignore[assignment]  # set below

    def __post_init__(self) -> None:
        """Set the defaults for unlimited memory and no token budgets."""
        if self.room is None:
            object.__setattr__(self, "room", np.full(len(self.loads), NO_LIMIT))
        if self.needs is None:
            object.__setattr__(self, "needs", self.sizes)
        if self.pending_prefill is None:
            object.__setattr__(self, "pending_prefill", np.zeros_like(self.loads))

    @property
    def num_workers(self) -> int:
        """Number of workers, ``G``."""
        return len(self.loads)

    @property
    def num_waiting(self) -> int:
        """Number of waiting requests, ``N``."""
        return len(self.sizes)

    @property
    def num_admissible(self) -> int:
        """Number of requests that a work-conserving policy admits, ``U = min(N, free slots)``."""
        return min(self.num_waiting, int(self.free_slots.sum()))

    @property
    def remaining(self) -> IntArray:
        """Known or predicted remaining steps of running requests, in order of arrival.

        Shape (A,), in ``1..H+1``; ``H + 1`` means that a request outlives the window. The value is
        computed on access, which must happen during the decision. If nothing is known, no request
        ends.
        """
        if self.endings is None:
            return np.full(int(self.running.sum()), self.projected_loads.shape[1])
        return self.endings()

    @property
    def active(self) -> ActiveRequests:
        """The requests that have a slot, with their workers, loads, consecutive rests and prompts.

        The value is computed on access, which must happen during the decision.

        Raises
        ------
        InputError
            If individual requests are unknown, as with telemetry.
        """
        if self.holdings is None:
            what = "the active requests are unknown"
            raise InputError("state.active", what, "run without telemetry")
        return self.holdings()

    @property
    def cached_tokens(self) -> IntArray:
        """Number of cached tokens of each waiting prompt on each worker, shape (N, G).

        The value is computed on access, which must happen during the decision. It is 0 without
        prefix caches.
        """
        if self.prefixes is None:
            return np.zeros((self.num_waiting, self.num_workers), dtype=np.int64)
        return self.prefixes.cached_tokens

    def routing_keys(self, num_blocks: int) -> IntArray:
        """Return a key for each waiting prompt, shape (N,); equal for prompts of equal beginning.

        Parameters
        ----------
        num_blocks : int
            Number of leading blocks that determine the key. If a prompt has no block hashes, its
            prompt key is used; if it has neither, its key is unique.
        """
        if self.prefixes is None:
            return -1 - np.arange(self.num_waiting)
        return self.prefixes.keys(num_blocks)

    def window_loads(self, columns: int) -> IntArray:
        """Return the loads that a step program compares, shape (G, H+1) [tokens].

        These are the projected loads plus the load of requests bound to a worker but not running.
        If workers differ in speed, each worker's fixed part of a step is added, in tokens of its
        own time. ``columns`` is H + 1.
        """
        loads = self.planned_loads(columns)
        return loads if self.overhead_tokens is None else loads + self.overhead_tokens[:, None]

    def planned_loads(self, columns: int) -> IntArray:
        """Return projected loads including requests bound to workers, shape (G, H+1) [tokens].

        BalanceRoute, D.6, calls this the virtual load of running and dispatched requests.
        """
        loads = self.projected_loads[:, :columns]
        return loads if self.bound_loads is None else loads + self.bound_loads[:, :columns]

    def token_capacity(self, columns: int) -> IntArray | None:
        """Return an upper bound on `window_loads`, shape (G,) [tokens]; None without a limit.

        The bound is that of `window_capacity`.
        """
        if int(self.room.max(initial=0)) >= NO_LIMIT // 2:
            return None
        # With immediate dispatch, room is the whole memory, shared with running requests.
        capacity = window_capacity(
            self.planned_loads(columns),
            self.contributions[:, :columns],
            np.zeros_like(self.loads) if self.binds else self.loads + self.queued_tokens,
            self.running + self.queued,
            self.room,
            self.needs,
            self.reserves and not self.binds,
        )
        return capacity if self.overhead_tokens is None else capacity + self.overhead_tokens
