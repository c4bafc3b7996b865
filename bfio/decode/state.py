"""What a policy sees at one decode step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

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
    """Return the most tokens that each worker is to hold at any step of the window, shape (G,).

    That is its memory, or what it will hold by itself if that is more. On a worker that runs
    nothing one request may start that fits now, however much it may grow: else it might wait for
    ever. What exceeds every load is no limit, and stays small enough to be multiplied.

    Parameters
    ----------
    base, contribution : IntArray
        Shapes (G, H+1) and (N, H+1): projected loads, and those of the waiting requests [tokens].
    loads, running, room : IntArray
        Shape (G,): loads [tokens], requests and free memory [tokens] of the workers.
    needs : IntArray
        Shape (N,): memory that each waiting request takes [tokens].
    reserves : bool
        Whether peaks are reserved, so that growth takes no room any more.
    """
    peaks = np.zeros(len(contribution), dtype=np.int64)
    for i in range(len(contribution)):
        peaks[i] = contribution[i].max()
    heaviest = base.max() + peaks.sum()
    capacity = np.empty(len(base), dtype=np.int64)
    for g in range(len(base)):
        projected = base[g].max()
        most = (projected if reserves else loads[g]) + room[g]
        if running[g] == 0:
            for i in range(len(peaks)):
                if needs[i] <= room[g]:
                    most = max(most, peaks[i])
        capacity[g] = min(max(most, projected), heaviest)
    return capacity


class ActiveRequests(NamedTuple):
    """Requests that have a slot before a step, running or at rest, in order of arrival.

    Parameters
    ----------
    request : IntArray
        Shape (A,): which, as positions in order of arrival.
    worker : IntArray
        Shape (A,): where.
    load : IntArray
        Shape (A,): what each holds, and adds to the step if it runs [tokens].
    rested : IntArray
        Shape (A,): steps in a row that each has rested until now; 0 if it ran last.
    """

    request: IntArray
    worker: IntArray
    load: IntArray
    rested: IntArray


class Prefixes(Protocol):
    """What a state knows of the prefixes of its waiting requests."""

    @property
    def cached_tokens(self) -> IntArray:
        """See `DecodeState.cached_tokens`."""

    def keys(self, num_blocks: int) -> IntArray:
        """See `DecodeState.routing_keys`."""


@dataclass(frozen=True)
class DecodeState:
    """The cluster and the wait pool before admission at one step.

    G workers, N waiting requests in arrival order, look-ahead steps h = 0..H. Tokens throughout.

    Parameters
    ----------
    step : int
        Decode step, from 0.
    slots : int
        Slots per worker, ``B``.
    loads : IntArray
        Shape (G,): load of each worker now, without new admissions.
    projected_loads : IntArray
        Shape (G, H+1): ``b_g(h)``, predicted loads without new admissions; column 0 is ``loads``.
    free_slots : IntArray
        Shape (G,): slots that can be filled at this step.
    running : IntArray
        Shape (G,): requests being decoded.
    projected_running : IntArray
        Shape (G, H+1): how many of those are predicted to run still; column 0 is ``running``.
    queued : IntArray
        Shape (G,): requests bound to the worker that do not run yet (0 with pooled dispatch).
    queued_tokens : IntArray
        Shape (G,): prompt tokens of those.
    sizes : IntArray
        Shape (N,): prompt tokens ``s_i`` of the waiting requests; of one that was interrupted,
        its load then.
    ages : IntArray
        Shape (N,): steps each has waited since it was revealed.
    contributions : IntArray
        Shape (N, H+1): ``v_i(h)``, predicted load of each if admitted now; column 0 is ``sizes``.
    rng : numpy.random.Generator
        The run's own generator; a policy draws from no other.
    room : IntArray
        Shape (G,): memory that requests starting now may take together [tokens]; where memory
        is not limited, more than any may need. A worker refuses those that find no room: they
        keep waiting.
    needs : IntArray
        Shape (N,): what each waiting request takes of it: its size, or its peak where that is
        reserved.
    reserves : bool
        Whether peaks are reserved, so that growth takes no room any more.
    token_time : IntArray or None
        Shape (G,): times per token of the workers, as small integers in their proportion; None
        if all workers are equally fast.
    overhead_tokens : IntArray or None
        Shape (G,): the fixed part of a step of each worker in tokens of its own time, rounded;
        None likewise.
    prefixes : Prefixes or None
        What `cached_tokens` and `routing_keys` ask; None where nothing is known.
    binds : bool
        Whether requests are bound here and now, and start when their worker has room (immediate
        dispatch); ``free_slots`` then says how many more each worker may be sent.
    bound_loads : IntArray or None
        Shape (G, H+1): what those that are bound to a worker and do not run would weigh if they
        all started now and ended beyond the window; None if there are none.
    endings : callable or None
        What `remaining` asks; None where nothing is known.
    holdings : callable or None
        What `active` asks; None where nothing is known.
    step_units : tuple of IntArray or None
        Each of shape (G,): the fixed part of a step of each worker and its time per token, in
        whole units of one time, rounded, at the workers' own pace. None where a token takes no
        time, and for policies that do not pause.
    pending_prefill : IntArray
        Shape (G,): prompt tokens of the requests of each worker that are not computed yet; 0
        without token budgets.

    Notes
    -----
    A request that rests (``docs/pausing.md``) is one of those that are active: ``loads`` and
    ``running`` count what workers hold, and projections let everybody run from now on, as who
    rests at this step is for the policy to say. Where workers have token budgets
    (`bfio.decode.features.batching`) prompts count in whole, computed or not, and projections let
    everybody decode from now on.
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
        """Set what a state without limited memory or token budgets need not name."""
        if self.room is None:
            object.__setattr__(self, "room", np.full(len(self.loads), NO_LIMIT))
        if self.needs is None:
            object.__setattr__(self, "needs", self.sizes)
        if self.pending_prefill is None:
            object.__setattr__(self, "pending_prefill", np.zeros_like(self.loads))

    @property
    def num_workers(self) -> int:
        """``G``."""
        return len(self.loads)

    @property
    def num_waiting(self) -> int:
        """``N``."""
        return len(self.sizes)

    @property
    def num_admissible(self) -> int:
        """``U = min(N, free slots)``: how many requests a work-conserving policy admits."""
        return min(self.num_waiting, int(self.free_slots.sum()))

    @property
    def remaining(self) -> IntArray:
        """What the window tells of those that run: steps left, in ``1..H+1``, in order of arrival.

        Shape (A,); ``H + 1`` says that a request outlives the window. Computed when it is asked
        for, which must be while deciding; where nothing is known, nobody ends.
        """
        if self.endings is None:
            return np.full(int(self.running.sum()), self.projected_loads.shape[1])
        return self.endings()

    @property
    def active(self) -> ActiveRequests:
        """The requests that have a slot, with their workers, loads and rests.

        Computed when it is asked for, which must be while deciding.

        Raises
        ------
        InputError
            Where nothing is known of requests that run, as with telemetry.
        """
        if self.holdings is None:
            what = "nothing is known of active requests"
            raise InputError("state.active", what, "use no telemetry")
        return self.holdings()

    @property
    def cached_tokens(self) -> IntArray:
        """What each worker has cached of each waiting prompt, shape (N, G) [tokens].

        Computed when it is first asked for, which must be while deciding; 0 where workers keep no
        prefixes.
        """
        if self.prefixes is None:
            return np.zeros((self.num_waiting, self.num_workers), dtype=np.int64)
        return self.prefixes.cached_tokens

    def routing_keys(self, num_blocks: int) -> IntArray:
        """Return what tells the waiting prompts apart, shape (N,): equal for equal beginnings.

        Parameters
        ----------
        num_blocks : int
            How many first blocks of a prompt count; without hashes its prompt key does, and
            without that each prompt is one of its own.
        """
        if self.prefixes is None:
            return -1 - np.arange(self.num_waiting)
        return self.prefixes.keys(num_blocks)

    def window_loads(self, columns: int) -> IntArray:
        """Return the loads that a step program compares, shape (G, H+1) [tokens].

        Those projected, with what is bound to a worker and does not run yet; where workers differ,
        with the fixed part of each one's step in tokens of its own time. ``columns`` is H + 1.
        """
        loads = self.planned_loads(columns)
        return loads if self.overhead_tokens is None else loads + self.overhead_tokens[:, None]

    def planned_loads(self, columns: int) -> IntArray:
        """Return the projected loads with what is bound to each worker, shape (G, H+1) [tokens].

        BalanceRoute, D.6: the virtual load of running and dispatched requests.
        """
        loads = self.projected_loads[:, :columns]
        return loads if self.bound_loads is None else loads + self.bound_loads[:, :columns]

    def token_capacity(self, columns: int) -> IntArray | None:
        """Return how far `window_loads` may rise, shape (G,) [tokens]; None without a limit.

        See `window_capacity`.
        """
        if int(self.room.max(initial=0)) >= NO_LIMIT // 2:
            return None
        # Where requests are bound, room is all memory: it is shared with those that run.
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
