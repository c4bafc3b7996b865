"""Admit all requests under the least peak: bound, spread, rebalance, price."""

import time
from collections.abc import Collection

import numpy as np

from bfio.step.exact.columns import PRICE_SCALE
from bfio.step.exact.effort import CALL, Effort
from bfio.step.exact.enumerate import NODE, enumerate_placements
from bfio.step.exact.fill import FillProblem
from bfio.step.exact.pack_bound import PackBound, least_peak_by_sums
from bfio.step.exact.phases import Phase
from bfio.step.exact.place import spread
from bfio.step.exact.rebalance import rebalance
from bfio.step.exact.result import ExactResult, Seconds
from formulations.arrays import IntArray
from formulations.step.certificate import Certificate

#: Start of the pseudo-random sequence: the same problem is always searched alike.
_SEED = 88172645463325252
#: Groups split anew per turn; turns before the bound is raised where that is quick and where it is
#: not, and after.
_ROUNDS = 200
_FIRST_TURNS = 16
_MORE_TURNS = 40
_TURNS = 300
#: Most table cells (requests x sums) for a bound that is raised quickly.
_FEW_CELLS = 1 << 18
#: Share of what the limits leave that raising the bound may take.
_BOUND_SHARE = 0.6
#: Requests up to which the enumeration is worth a try.
_MAX_ENUMERATED = 32


def prepare_packing(core: FillProblem) -> None:
    """Compile the kernels for packings that are hard to find, by any small problem."""
    owner = np.empty_like(core.sizes)
    state = np.ones(1, dtype=np.uint64)
    loads = spread(core.base, core.capacity, core.sizes, owner)
    effort = Effort()
    pricing = PackBound(core, int(loads.max()) + 1, effort)
    pricing.prepare()
    pricing.raise_peak(core.peak, int(loads.max()) + 1, lambda: False)
    rebalance(0, core.capacity, core.sizes, owner, loads, 1, state, effort.spent)


class PackSearch:
    """One solve of a fill problem that admits every request.

    Parameters
    ----------
    core : FillProblem
        The fill problem: at least one request, and all are admitted.
    skip : collection of Phase, optional
        Phases to skip.
    """

    def __init__(self, core: FillProblem, effort: Effort, skip: Collection[Phase] = ()) -> None:
        self._core = core
        self._skip = skip
        self._effort = effort
        self._total = int(core.sizes.sum())
        self._owner: IntArray = np.full(len(core.sizes), -1, dtype=np.int64)
        self._peak = 1 << 60
        self._lower = core.peak
        self._method = "closed-form"
        self._nodes = 0
        self._prices: tuple[IntArray, ...] = ()
        self._state = np.array([_SEED], dtype=np.uint64)
        self._current: IntArray = np.empty_like(self._owner)
        self._seen: list[IntArray] = []

    def run(self, start: tuple[int | None, ...] | None, node_limit: int) -> ExactResult:
        """Solve the problem within the limits; see `bfio.step.exact.solve.solve_exact`."""
        began = time.perf_counter()
        self._effort.spend(CALL)
        core = self._core
        self._lower = core.least_peak_for_all()
        # What is given first stays unless something beats it: so ties are broken.
        if start is not None:
            self._accept(core.owner_of(start))
        self._loads = spread(core.base, core.capacity, core.sizes, self._current)
        self._accept(self._current)
        if self._open and Phase.PACKING_PRICES not in self._skip:
            self._raise_by_sums()
        bound_seconds = 0.0
        cells = len(core.sizes) * (self._peak - int(core.base.min()))
        self._rebalance(_FIRST_TURNS if cells <= _FEW_CELLS else _MORE_TURNS)
        if self._open and not self._effort.is_over and Phase.PACKING_PRICES not in self._skip:
            before = time.perf_counter()
            self._raise_bound()
            bound_seconds = time.perf_counter() - before
        self._rebalance(_TURNS)
        small = len(core.sizes) <= _MAX_ENUMERATED
        tried = small and node_limit > 0 and Phase.ENUMERATION not in self._skip
        if self._open and tried and not self._effort.is_over:
            self._enumerate(node_limit)
        seconds = time.perf_counter() - began
        return self._result(Seconds(bound=bound_seconds, search=seconds - bound_seconds))

    def open_peaks(self) -> tuple[int, int]:
        """Return the first and last peak that could give a better placement."""
        return self._lower, max(self._lower, self._peak - 1)

    @property
    def _open(self) -> bool:
        return self._peak > self._lower

    def _accept(self, owner: IntArray) -> None:
        """Keep a placement if it beats the incumbent."""
        peak = self._core.peak_of(self._core.value_of(owner))
        if peak < self._peak:
            self._peak = peak
            self._owner = owner.copy()

    def _rebalance(self, turns: int) -> None:
        """Rebalance to the lower bound, or sometimes halfway between bound and best peak."""
        core, owner, state, spent = self._core, self._current, self._state, self._effort.spent
        rebalances = Phase.REBALANCING not in self._skip
        met = False
        for turn in range(turns):
            if not self._open or self._effort.is_over:
                return
            halfway = (self._lower + self._peak - 1) // 2
            target = halfway if met or turn % 4 == 3 else self._lower
            met = rebalances and rebalance(
                target, core.capacity, core.sizes, owner, self._loads, _ROUNDS, state, spent
            )
            self._accept(owner)
            self._seen.append(owner.copy())

    def _raise_by_sums(self) -> None:
        """Exclude peaks by reachable sums of limited numbers of requests (prices of 0)."""
        raised = least_peak_by_sums(self._core, self._lower, self._peak, self._effort)
        if raised > self._lower:
            self._lower = raised
            self._prices = (np.zeros_like(self._core.sizes),)
            self._method = "bound"

    def _raise_bound(self) -> None:
        """Exclude peaks by prices."""
        pricing = PackBound(self._core, self._peak, self._effort)
        if not pricing.is_small:
            return
        pricing.prepare()
        pricing.add_placement(self._lower, self._owner)
        for owner in self._seen:
            pricing.add_placement(self._lower, owner)
        raised = pricing.raise_peak(self._lower, self._peak, self._effort.part(_BOUND_SHARE))
        if self._open and Phase.RESTART not in self._skip:
            self._restart(pricing.clearest())
        if raised > self._lower:
            self._lower = raised
            self._prices = (pricing.prices,)
            self._method = "bound"

    def _restart(self, owner: IntArray) -> None:
        """Continue from a partial placement; its missing requests are spread."""
        core = self._core
        out = owner < 0
        loads = core.base.copy()
        np.add.at(loads, owner[~out], core.sizes[~out])
        free = core.capacity - np.bincount(owner[~out], minlength=len(loads))
        part = np.empty(int(out.sum()), dtype=np.int64)
        self._loads = spread(loads, free, core.sizes[out], part)
        owner[out] = part
        self._current = owner
        self._accept(owner)

    def _enumerate(self, node_limit: int) -> None:
        core = self._core
        owner = self._owner.copy()
        best, target = (core.value(peak, self._total) for peak in (self._peak, self._lower))
        _, self._nodes, exhausted = enumerate_placements(
            core.open_workers, core.sizes, best, target, node_limit, owner
        )
        self._effort.spend(self._nodes * NODE)
        self._accept(owner)
        if exhausted and self._open:
            self._lower = self._peak
            self._method = "enumeration"

    def _result(self, seconds: Seconds) -> ExactResult:
        core = self._core
        bound = core.value(self._lower, self._total) * core.multiplier
        if self._method == "enumeration":
            certificate = Certificate("enumeration", bound, nodes=self._nodes)
        else:
            prices = tuple(core.by_request(vector) for vector in self._prices)
            certificate = Certificate("sums", bound, prices, PRICE_SCALE)
        return ExactResult(
            method=self._method,
            assignment=core.assignment(self._owner),
            objective=core.value(self._peak, self._total) * core.multiplier,
            bound=bound,
            certificate=certificate,
            seconds=seconds,
            nodes=self._nodes,
        )
