"""Admit all requests under the least peak: bound, spread, rebalance, price."""

from collections.abc import Collection

import numpy as np

from bfio.step.exact.columns import PRICE_SCALE
from bfio.step.exact.core_search import CoreSearch
from bfio.step.exact.effort import CALL, Effort, Phase
from bfio.step.exact.fill import FillProblem
from bfio.step.exact.pack_bound import PackBound, least_peak_by_sums
from bfio.step.exact.place import spread
from bfio.step.exact.rebalance import rebalance
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


def prepare_packing(core: FillProblem) -> None:
    """Compile the kernels for packings that are hard to find, by any small problem."""
    owner = np.empty_like(core.sizes)
    state = np.ones(1, dtype=np.uint64)
    loads = spread(core.base, core.capacity, core.sizes, owner)
    effort = Effort()
    pricing = PackBound(core, int(loads.max()) + 1, effort)
    pricing.prepare()
    pricing.raise_peak(core.peak, lambda: False)
    rebalance(0, core.capacity, core.sizes, owner, loads, 1, state, effort.spent)


class PackSearch(CoreSearch):
    """One solve of a fill problem that admits every request."""

    def __init__(self, core: FillProblem, effort: Effort, skip: Collection[Phase] = ()) -> None:
        super().__init__(core, effort, skip)
        self._state = np.array([_SEED], dtype=np.uint64)
        self._current: IntArray = np.empty_like(self._owner)
        self._seen: list[IntArray] = []

    def open_peaks(self) -> tuple[int, int]:
        """Return the peaks from the bound to below the incumbent."""
        return self._low, max(self._low, self._peak - 1)

    @property
    def _low(self) -> int:
        """The lower bound on the peak."""
        return self._core.peak_of(self._lower)

    @property
    def _peak(self) -> int:
        """The peak of the incumbent."""
        return self._core.peak_of(self._best)

    def _search(self) -> None:
        core = self._core
        self._effort.spend(CALL)
        self._lower = core.value(core.least_peak_for_all(), int(core.sizes.sum()))
        self._loads = spread(core.base, core.capacity, core.sizes, self._current)
        self._accept(self._current)
        uses_prices = Phase.PACKING_PRICES not in self._skip
        if self._open and uses_prices:
            # By reachable sums of limited numbers of requests, which are prices of 0.
            raised = least_peak_by_sums(core, self._low, self._peak, self._effort)
            self._raise_low(raised, np.zeros_like(core.sizes))
        cells = len(core.sizes) * (self._peak - int(core.base.min()))
        self._rebalance(_FIRST_TURNS if cells <= _FEW_CELLS else _MORE_TURNS)
        if self._open and not self._effort.is_over and uses_prices:
            with self._bounding():
                self._raise_by_prices()
        self._rebalance(_TURNS)

    def _rebalance(self, turns: int) -> None:
        """Rebalance to the lower bound, or sometimes halfway between bound and best peak."""
        core, owner, state, spent = self._core, self._current, self._state, self._effort.spent
        rebalances = Phase.REBALANCING not in self._skip
        met, low = False, self._low
        for turn in range(turns):
            if not self._open or self._effort.is_over:
                return
            target = (low + self._peak - 1) // 2 if met or turn % 4 == 3 else low
            met = rebalances and rebalance(
                target, core.capacity, core.sizes, owner, self._loads, _ROUNDS, state, spent
            )
            self._accept(owner)
            self._seen.append(owner.copy())

    def _raise_by_prices(self) -> None:
        """Exclude peaks by prices."""
        pricing = PackBound(self._core, self._peak, self._effort)
        if not pricing.is_small:
            return
        pricing.prepare()
        low = self._low
        for owner in (self._owner, *self._seen):
            pricing.add_placement(low, owner)
        raised = pricing.raise_peak(low, self._effort.part(_BOUND_SHARE))
        self._raise_low(raised, pricing.prices)

    def _raise_low(self, peak: int, prices: IntArray) -> None:
        """Raise the bound to a peak if it is higher; prices exclude the next lower one."""
        if peak > self._low:
            self._lower = self._core.value(peak, int(self._core.sizes.sum()))
            self._prices = [prices]
            self._method = "bound"

    def _certificate(self, bound: int) -> Certificate:
        if self._method == "enumeration":
            return Certificate("enumeration", bound, nodes=self._nodes)
        prices = tuple(self._core.by_request(vector) for vector in self._prices)
        return Certificate("sums", bound, prices, PRICE_SCALE)
