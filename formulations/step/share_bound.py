"""Lower bounds on steps with a look-ahead window: each worker pays a share of the peaks.

Write ``t_g(h)`` for the time of worker g at look-ahead step h under some decision, ``P(h)`` for
the largest of them, and ``l(h) <= P(h)`` for a floor that holds for every decision of interest.
Let each worker hold a share ``π_g(θ) >= 0`` of each level ``θ > l(h)``; the shares of a level sum
to at most one. Then

    1[P(h) >= θ]  >=  Σ_g π_g(θ) · 1[t_g(h) >= θ],

since every term on the right is 0 if the left-hand side is. Summed over the levels,

    P(h)  >=  l(h) + Σ_g Σ_{l(h) < θ <= t_g(h)} π_g(θ),

whose right-hand side is a sum over workers, each term a function of this worker's requests. With
prices ``λ_i`` on the requests (>= 0 unless request i must be admitted) and ``μ`` on the number of
admitted requests, the program decomposes into one choice of requests per worker:

    J  >=  constant − Σ_i λ_i − μ·U
           + Σ_g min_S { cost of the levels that S reaches on g − weight of S in the total
                         + Σ_{i in S} λ_i + μ·|S| }.

*Common* requests differ in size only (most rows of a window are equal up to this shift). For them,
a table of the best priced value of c requests of each sum gives the inner minimum. All other
requests, such as requests that end inside the window, are the *own* ones: their sets are
enumerated. A set of own requests and a number of common ones is a *mode* of its worker.

For the gap, the trough of step h is the peak of the negated times; its index is ``H + 1 + h``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from formulations.arrays import BoolArray, IntArray
from formulations.errors import InputError
from formulations.step.bound import most_benefit, peak_bounds
from formulations.step.exhaustion import with_requests
from formulations.step.problem import Objective, StepProblem

#: A share: step, worker, lower level (exclusive), upper level (inclusive), weight.
Share = tuple[int, int, int, int, int]

_UNREACHABLE = -(1 << 61)
#: Real sums of values lie above this; `_UNREACHABLE` plus any sum of values stays below.
REACHABLE = -(1 << 60)
#: Largest scaled objective and largest total of prices, so that no 64-bit sum overflows.
MAX_VALUE = 1 << 58
#: Largest number of modes of all workers together.
_MAX_MODES = 1 << 17


@dataclass(frozen=True)
class ShareRound:
    """Shares and prices of one bound, in units of ``1 / scale`` of the objective.

    Parameters
    ----------
    shares : tuple of Share
        At each level, their weights sum to at most the objective's weight of the peak.
    prices : tuple of int
        One per request, in the order of the problem.
    admit_price : int
        ``μ``.
    """

    shares: tuple[Share, ...]
    prices: tuple[int, ...]
    admit_price: int = 0


@dataclass
class Mode:
    """A mode of a worker: a set of own requests, and a number of common requests.

    Parameters
    ----------
    worker : int
        Index of the worker.
    own : tuple of int
        Indices of the own requests that the worker takes.
    count : int
        Number of common requests that it takes.
    loads : IntArray
        Shape (H+1,): load without the sizes of the common requests [tokens].
    low, high : int
        Range of the sum of the common sizes ("box") [tokens]; empty if ``low > high``.
    """

    worker: int
    own: tuple[int, ...]
    count: int
    loads: IntArray
    low: int
    high: int

    def copy(self) -> "Mode":
        """Return a copy of the mode, whose range of sums can shrink independently."""
        return replace(self)

    def part(self, step: int, level: int, *, high: bool) -> "Mode":
        """Return the mode restricted to loads above ``level`` at a step, or at most ``level``."""
        sums = level - int(self.loads[step])
        if high:
            return replace(self, low=max(self.low, sums + 1))
        return replace(self, high=min(self.high, sums))


@dataclass(frozen=True)
class Windows:
    """A step problem with its requests split into common and own ones; see the module docstring.

    Parameters
    ----------
    problem : StepProblem
        Data.
    growth : IntArray
        Shape (H+1,): ``c(h)`` of the requests with ``v_i(h) = s_i + c(h)`` [tokens].
    common, own : IntArray
        Indices of the common requests, ascending by size, and of the own requests.
    """

    problem: StepProblem
    growth: IntArray
    common: IntArray
    own: IntArray

    @classmethod
    def of(cls, problem: StepProblem) -> "Windows":
        """Split the requests into common ones, of the most frequent growth, and own ones."""
        shifts = problem.contribution - problem.contribution[:, :1]
        if len(shifts) == 0:
            nobody = np.empty(0, dtype=np.int64)
            return cls(problem, np.zeros(problem.num_steps, dtype=np.int64), nobody, nobody)
        _, first, counts = np.unique(shifts, axis=0, return_index=True, return_counts=True)
        growth = shifts[min(first[counts == counts.max()])]
        shares_it = (shifts == growth).all(axis=1)
        members = np.flatnonzero(shares_it)
        order = np.argsort(problem.contribution[members, 0], kind="stable")
        return cls(problem, growth, members[order], np.flatnonzero(~shares_it))

    @property
    def sizes(self) -> IntArray:
        """Sizes of the common requests, ascending [tokens]."""
        sizes: IntArray = self.problem.contribution[self.common, 0]
        return sizes

    @property
    def counts_peaks(self) -> bool:
        """Whether the objective contains the total load besides the peaks (imbalance)."""
        return self.problem.objective is Objective.IMBALANCE

    @property
    def pays(self) -> IntArray:
        """Objective weight of each peak, shape (H+1,); for the gap, those of troughs follow."""
        weights = np.array(self.problem.weights, dtype=np.int64)
        if self.problem.objective is Objective.IMBALANCE:
            return self.problem.num_workers * weights
        if self.problem.objective is Objective.GAP:
            return np.concatenate([weights, weights])
        return weights

    @property
    def total_weights(self) -> IntArray:
        """Shape (H+1,): weight of the total time subtracted at each step; 0 if there is none."""
        weights = np.array(self.problem.weights, dtype=np.int64)
        return weights if self.counts_peaks else np.zeros_like(weights)

    def times(self, worker: int | IntArray, loads: IntArray) -> IntArray:
        """Return the times of loads, both of shape (..., H+1); for the gap, negated times follow.

        ``worker`` is one worker, or one per row of the loads.
        """
        times: IntArray = loads * self.problem.time_weights[worker, None]
        if self.problem.objective is Objective.GAP:
            times = np.concatenate([times, -times], axis=-1)
        return times

    def modes(self) -> list[Mode]:
        """Return all modes of each worker with free slots, within its slots and token capacity."""
        below = np.concatenate([[0], np.cumsum(self.sizes)])
        found = []
        for worker, slots in enumerate(self.problem.capacity.tolist()):
            for own, count in self._choices(slots) if slots else ():
                mode = self._mode(worker, own, count, below)
                if mode.low <= mode.high:
                    found.append(mode)
                if len(found) > _MAX_MODES:
                    what = "too many sets of requests to verify"
                    raise InputError("certificate", what, "solve with another method")
        return found

    def _choices(self, slots: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield each set of own requests and number of common requests that fit the slots."""
        fills = self.problem.num_admitted == int(self.problem.capacity.sum())
        for taken in range(min(slots, len(self.own)) + 1):
            least = slots - taken if fills else 0
            most = min(slots - taken, len(self.common))
            for own in combinations(self.own.tolist(), taken):
                for count in range(least, most + 1):
                    yield own, count

    def _mode(self, worker: int, own: tuple[int, ...], count: int, below: IntArray) -> Mode:
        problem = self.problem
        loads = problem.base[worker] + count * self.growth
        for i in own:
            loads = loads + problem.contribution[i]
        high = int(below[-1] - below[len(below) - 1 - count])
        if problem.token_capacity is not None:
            high = min(high, int(problem.token_capacity[worker] - loads.max()))
        return Mode(worker, own, count, loads, int(below[count]), high)

    def narrowed(self, modes: list[Mode], claim: int) -> list[Mode]:
        """Cut the sums at which one worker alone raises the objective to the claim.

        The admitted total is at most the largest contributions, matched to the slowest slots.
        """
        problem = self.problem
        workers = set(np.flatnonzero(problem.capacity > 0).tolist())
        if problem.objective is Objective.GAP or not workers <= {m.worker for m in modes}:
            return modes
        slots = np.sort(np.repeat(problem.time_weights, problem.capacity))[::-1]
        worth = np.sort(problem.contribution @ self.total_weights)[::-1]
        most = int((slots[: problem.num_admitted] * worth[: problem.num_admitted]).sum())
        before = (problem.base * problem.time_weights[:, None]).sum(axis=0) @ self.total_weights
        limit = claim + int(before) + most
        floors = self.floors(modes)

        def costs_less(chosen: list[Mode], sums: IntArray) -> BoolArray:
            """Return whether the bound of each mode at its sum is below the claim."""
            times = self.times(*_stacked(chosen, sums))
            less: BoolArray = np.maximum(floors, times) @ self.pays < limit
            return less

        kept = costs_less(modes, np.array([m.low for m in modes]))
        modes = [m for m, less in zip(modes, kept.tolist(), strict=True) if less]
        if not modes:
            return modes
        low, high = np.array([(m.low, m.high) for m in modes]).T
        while (low < high).any():
            middle = (low + high + 1) // 2
            less = costs_less(modes, middle)
            low, high = np.where(less, middle, low), np.where(less, high, middle - 1)
        for mode, end in zip(modes, high.tolist(), strict=True):
            mode.high = end
        return modes

    def floors(self, modes: list[Mode]) -> IntArray:
        """Return lower bounds on the peaks, from full workers and from the remaining modes."""
        problem = self.problem
        closed = np.flatnonzero(problem.capacity == 0)
        workers, lowest = _stacked(modes, np.array([m.low for m in modes]))
        _, highest = _stacked(modes, np.array([m.high for m in modes]))
        ends = np.minimum(self.times(workers, lowest), self.times(workers, highest))
        least = np.full((problem.num_workers, ends.shape[1]), np.iinfo(np.int64).max)
        np.minimum.at(least, workers, ends)
        rows = [self.times(closed, problem.base[closed]), least[np.unique(workers)]]
        floors: IntArray = np.concatenate(rows).max(axis=0)
        return floors


def _stacked(modes: list[Mode], sums: IntArray) -> tuple[IntArray, IntArray]:
    """Return workers, shape (M,), and loads, shape (M, H+1), of M modes with one sum each."""
    workers = np.array([m.worker for m in modes])
    return workers, np.stack([m.loads for m in modes]) + sums[:, None]


@dataclass
class PricedRound:
    """The costs of the modes at each sum of common sizes, for one round of shares and prices.

    Parameters
    ----------
    windows : Windows
        Problem.
    scale : int
        Units of shares, prices and costs per unit of the objective.
    shares : ShareRound
        Shares and prices.
    floors : IntArray
        Lower bounds on the peaks.
    claim : int
        The bound to prove.
    reach : int
        Largest sum of common sizes in any box.
    """

    windows: Windows
    scale: int
    shares: ShareRound
    floors: IntArray
    claim: int
    reach: int
    tables: dict[int, IntArray] = field(default_factory=dict)
    held: dict[int, IntArray] = field(default_factory=dict)

    def paid(self, peaks: IntArray) -> int:
        """Return the objective at given peaks, without the term of the admitted total."""
        return int((self.windows.pays * peaks).sum()) - self._before

    @cached_property
    def _before(self) -> int:
        """Weighted total of all worker times before admissions."""
        problem = self.windows.problem
        times = (problem.base * problem.time_weights[:, None]).sum(axis=0)
        return int((self.windows.total_weights * times).sum())

    def constant(self) -> int:
        """Return the part of the bound that does not depend on the assignment."""
        admitted = self.windows.problem.num_admitted
        returned = sum(self.shares.prices) + self.shares.admit_price * admitted
        return self.scale * self.paid(self.floors) - returned

    def values(self, worker: int) -> IntArray:
        """Return the priced value of each common request on a worker, without its growth."""
        windows = self.windows
        tau = int(windows.problem.time_weights[worker])
        prices = np.array(self.shares.prices, dtype=np.int64)[windows.common]
        weight = self.scale * tau * int(windows.total_weights.sum())
        return weight * windows.sizes - prices

    def costs(self, mode: Mode) -> IntArray:
        """Return the cost of each sum ``low..high`` of a mode, without common requests' values."""
        windows, problem = self.windows, self.windows.problem
        tau = int(problem.time_weights[mode.worker])
        added = mode.loads - problem.base[mode.worker]
        fixed = -self.scale * tau * int((windows.total_weights * added).sum())
        fixed += sum(self.shares.prices[i] for i in mode.own)
        fixed += self.shares.admit_price * (len(mode.own) + mode.count)
        return self._paid_for_levels(mode) + fixed

    def _paid_for_levels(self, mode: Mode) -> IntArray:
        """Return the cost of the levels that a mode reaches, at each of its sums.

        Each share is piecewise linear in the sum with two kinks, so its cost is stored as second
        differences at the kinks.
        """
        problem = self.windows.problem
        step, above, to, weight = self._held(mode.worker)
        tau = int(problem.time_weights[mode.worker])
        falls = step >= problem.num_steps
        lowest = tau * (mode.loads[step % problem.num_steps] + mode.low)
        first = np.clip(np.where(falls, -lowest, lowest), above, to) - above
        number = mode.high - mode.low + 1
        bends = np.zeros(number + 1, dtype=np.int64)
        bends[:2] = weight @ first, -(weight @ first)
        # A trough is a peak of negated times: mirror its levels and negate its slope.
        begin, end = np.where(falls, -to, above), np.where(falls, -above, to)
        gain = np.where(falls, -weight, weight)
        for level, slope in ((begin, gain), (end, -gain)):
            level = np.clip(level, lowest, lowest + tau * (number - 1))
            kink = -((lowest - level) // tau)
            beyond = lowest + tau * kink - level
            np.add.at(bends, kink, slope * beyond)
            np.add.at(bends, kink + 1, slope * (tau - beyond))
        return np.cumsum(np.cumsum(bends))[:number]

    def _held(self, worker: int) -> IntArray:
        """Return the shares of a worker above the floors, shape (4, number of shares).

        Rows are step, lower level, upper level and weight.
        """
        if not self.held:
            rows: dict[int, list[tuple[int, ...]]] = {}
            for step, holder, above, to, weight in self.shares.shares:
                above = max(above, int(self.floors[step]))
                if to > above:
                    rows.setdefault(holder, []).append((step, above, to, weight))
            self.held = {
                g: np.array(rows.get(g, ()), dtype=np.int64).reshape(-1, 4).T
                for g in range(self.windows.problem.num_workers)
            }
        return self.held[worker]

    def table(self, worker: int) -> IntArray:
        """Return the best priced value per number and sum of common requests."""
        problem, sizes = self.windows.problem, self.windows.sizes
        tau = int(problem.time_weights[worker])
        if tau not in self.tables:
            most = min(int(problem.capacity.max()), len(sizes))
            best = np.full((most + 1, self.reach + 1), _UNREACHABLE, dtype=np.int64)
            best[0, 0] = 0
            self.tables[tau] = with_requests(best, sizes, self.values(worker))
        return self.tables[tau]


def largest_objective(problem: StepProblem) -> int:
    """Return an upper bound on |objective| and on |each part| of a share bound."""
    heaviest = int(np.abs(peak_bounds(problem)[1]).max())
    of_loads = heaviest * problem.num_workers * max(1, sum(problem.weights))
    return of_loads + most_benefit(problem)
