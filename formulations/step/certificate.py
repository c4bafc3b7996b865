"""Certificates of lower bounds on the step program, and their verifier.

A certificate covers problems in which the imbalance of every look-ahead step is that of the first
(docs/exact.md, the one-dimensional core). Their objective is a multiple of

    G·M − Σ_g b_g − T,

with ``M`` the peak and ``T`` the admitted total. For every peak ``M`` that could beat the claim,
the verifier derives an integer bound. For every price vector λ ≥ 0 on the requests,

    T(M) ≤ Σ_i λ_i + Σ_g max { Σ_{i ∈ S} (s_i − λ_i) : |S| = cap_g, Σ_{i ∈ S} s_i ≤ M − b_g },

since adding Σ_i λ_i (1 − times i is used) ≥ 0 to the total relaxes "at most once". With λ = 0 the
right-hand side is the sum over workers of the largest reachable sums. If every request is admitted
(then ``|S| ≤ cap_g``), ``T`` is known, and a peak is excluded if the bound on the total is below
``T``.

If these bounds do not exclude every peak, the kind of the certificate decides:

- ``"branches"`` divides the problem into cases (`closes_all`), each with further prices.
- ``"enumeration"`` leaves the rest to a search by the verifier (`formulations.step.exhaustion`).
  It lists the subsets of each worker whose loss against the best subset is within the distance of
  claim and bound, and shows that no disjoint choice exists. If this takes too long, a small
  problem is searched placement by placement.

A branch splits on a worker and a size. In one case the worker takes a request of this size, and
the rest is a smaller problem of the same kind. In the other case it takes none. For prices λ >= 0
on the remaining requests, the total that fits under a peak M is at most

    Σ_i λ_i + Σ_g max { Σ_{i ∈ S} (s_i − λ_i) : |S| = cap_g, Σ_{i ∈ S} s_i ≤ M − b_g, S allowed },

where ``b_g`` includes the requests already placed. The claim is proven if no case keeps a peak.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.step.bound import most_benefit
from formulations.step.exhaustion import (
    UNREACHABLE,
    PricedWorkers,
    WorkBudget,
    has_disjoint_choice,
    malformed,
    placement_beats,
    priced_sums,
)
from formulations.step.problem import Objective, StepProblem
from formulations.step.share_bound import Share, ShareRound
from formulations.step.share_proof import CaseRow as CaseRow
from formulations.step.share_proof import proves_by_shares

_NO_TREE = "cases and prices do not form a binary tree"
#: Table cells that count as one step of work.
_CELLS_PER_STEP = 256


@dataclass(frozen=True)
class Branch:
    """One case of the one-dimensional problem: requests placed so far, and peaks still possible.

    Parameters
    ----------
    num_workers, total_base, floor : int
        ``G``; sum and maximum of all workers' loads, including the requests already placed.
    workers : list of int
        Index of each worker with a free slot.
    base, capacity : list of int
        Their loads and free slots.
    requests, sizes : IntArray
        Shape (n,): indices of the remaining requests, and their sizes.
    barred : dict from int to frozenset of int
        Sizes that workers must not take, by index of the worker.
    peaks : IntArray
        Shape (P,): peaks not yet excluded.
    """

    num_workers: int
    total_base: int
    floor: int
    workers: list[int]
    base: list[int]
    capacity: list[int]
    requests: IntArray
    sizes: IntArray
    barred: dict[int, frozenset[int]]
    peaks: IntArray

    def possible(self) -> "Branch":
        """Return this case without the peaks under which no choice of requests fills the slots."""
        below = np.concatenate([[0], np.cumsum(np.sort(self.sizes))])
        slots = sum(self.capacity)
        if slots > len(self.sizes):
            return replace(self, peaks=self.peaks[:0])
        forced = _forced_peak(
            np.array(self.base, dtype=np.int64), np.array(self.capacity, dtype=np.int64), below, 0
        )
        peaks = self.peaks[self.peaks >= max(self.floor, forced)]
        if slots:
            fitting = np.searchsorted(np.sort(self.sizes), peaks - min(self.base), side="right")
            peaks = peaks[fitting >= slots]
        return replace(self, peaks=peaks)

    def below(self, target: int, total: IntArray | int) -> "Branch":
        """Return this case with only the peaks at which the admitted total beats the target."""
        values = self.num_workers * self.peaks - self.total_base - total
        return replace(self, peaks=self.peaks[values < target])

    def bounded(self, prices: IntArray, scale: int, target: int, work: WorkBudget) -> "Branch":
        """Return this case without the peaks excluded by the bound at these prices, shape (n,)."""
        if len(self.peaks) == 0 or not self.workers:
            return self
        own = prices[self.requests]
        total = np.full(len(self.peaks), int(own.sum()))
        fits = np.ones(len(self.peaks), dtype=np.bool_)
        groups: dict[frozenset[int], list[int]] = {}
        for k, worker in enumerate(self.workers):
            groups.setdefault(self.barred.get(worker, frozenset()), []).append(k)
        for barred, members in groups.items():
            allowed = ~np.isin(self.sizes, list(barred))
            limit = int(self.peaks.max()) - min(self.base[k] for k in members)
            most = max(self.capacity[k] for k in members)
            work.spend(len(self.sizes) * (most + 1) * (limit + 1) // _CELLS_PER_STEP)
            sizes = self.sizes[allowed]
            table = priced_sums(sizes, scale * sizes - own[allowed], most, limit)
            for k in members:
                best = table[self.capacity[k], self.peaks - self.base[k]]
                fits &= best > UNREACHABLE // 2
                total = total + np.where(fits, best, 0)
        return replace(self, peaks=self.peaks[fits]).below(target, total[fits] // scale)

    def divided(self, worker: int, size: int) -> tuple["Branch", "Branch"]:
        """Split this case in two: the worker takes a request of this size, or takes none.

        Raises
        ------
        InputError
            If the worker has no free slot, or no request has this size.
        """
        found = np.flatnonzero(self.sizes == size)
        if worker not in self.workers or len(found) == 0:
            raise malformed("cases", "a case names an unknown worker or size")
        k, i = self.workers.index(worker), int(found[0])
        load, left = self.base[k] + size, self.capacity[k] - 1
        others = (self.workers, self.base, self.capacity)
        workers, base, capacity = ([*part[:k], *part[k + 1 :]] for part in others)
        if left:
            workers, base, capacity = [*workers, worker], [*base, load], [*capacity, left]
        taking = replace(
            self,
            total_base=self.total_base + size,
            floor=max(self.floor, load),
            workers=workers,
            base=base,
            capacity=capacity,
            requests=np.delete(self.requests, i),
            sizes=np.delete(self.sizes, i),
        )
        barred = self.barred.get(worker, frozenset()) | {size}
        return taking, replace(self, barred={**self.barred, worker: barred})


def closes_all(
    branch: Branch,
    cases: Iterator[CaseRow],
    prices: Iterator[IntArray],
    scale: int,
    target: int,
) -> bool:
    """Return whether all cases together exclude every peak.

    Cases come depth first; the case that takes the request precedes the case that does not.

    Raises
    ------
    InputError
        If the cases do not form a binary tree, their price counts are wrong, or they exceed the
        work limit.
    """
    work = WorkBudget()
    waiting = [branch]
    for number, worker, size, _ in cases:
        if not waiting or number < 0:
            raise malformed("cases", _NO_TREE)
        left = waiting.pop().possible()
        for _ in range(number):
            vector = next(prices, None)
            if vector is None:
                raise malformed("cases", _NO_TREE)
            left = left.bounded(vector, scale, target, work)
        if worker >= 0:
            waiting += left.divided(worker, size)[::-1]
        elif len(left.below(target, 0).peaks if not left.workers else left.peaks):
            return False
    if waiting or next(prices, None) is not None:
        raise malformed("cases", _NO_TREE)
    return True


def _forced_peak(base: IntArray, capacity: IntArray, below: IntArray, spare: int) -> int:
    """Return a lower bound on the peak if at most ``spare`` slots stay free; 0 without workers.

    Some workers together take at least the ``below[c]`` tokens of the c smallest requests.
    """
    alone = base + below[np.maximum(capacity - spare, 0)]
    load, slots, forced = 0, 0, 0
    for count, g in enumerate(np.argsort(-alone, kind="stable").tolist(), start=1):
        load, slots = load + int(base[g]), slots + int(capacity[g])
        forced = max(forced, -(-(load + int(below[max(slots - spare, 0)])) // count))
    return forced


#: Largest sum of scaled sizes and prices: below it no 64-bit sum of the verifier wraps around.
_MAX_VALUE = 1 << 58
#: Largest absolute bound that a certificate may claim.
_MAX_BOUND = 1 << 62
#: Most table cells (cardinalities x sums) and peaks the verifier visits.
_MAX_CELLS = 1 << 27
_MAX_PEAKS = 1 << 20
#: Margins (workers x peaks) held at once.
_MARGINS = 1 << 22
#: Most requests of a problem whose placements are searched one by one.
_MAX_PLACED = 32


@dataclass(frozen=True)
class Certificate:
    """A proof of a lower bound on a step: multipliers and cases from which to derive the bound.

    Parameters
    ----------
    kind : str
        For problems with a common shift per look-ahead step (see the module): ``"sums"``,
        ``"branches"`` (with cases) or ``"enumeration"`` (the verifier searches as well). For all
        other problems: ``"shares"`` or ``"shares-search"`` (the verifier searches as well).
    bound : int
        The scaled objective claimed to be a lower bound.
    prices : tuple of tuple of int
        Price vectors, one entry per request, in units of ``1 / price_scale`` token.
    price_scale : int
        Denominator of the prices.
    nodes : int
        For ``"enumeration"``: nodes of the solver's exhausted search; not used by the verifier.
    shares : tuple of tuple of Share
        For ``"shares"`` and ``"shares-search"``: one tuple for each price vector. Shares and
        prices are then in units of ``1 / price_scale`` of the objective
        (`formulations.step.share_bound`).
    admit_prices : tuple of int
        For the same two kinds: one price on the number of admitted requests for each vector.
    cases : tuple of CaseRow
        Cases in depth-first order. For the same two kinds: the number of rounds and the split of
        each case (`formulations.step.share_proof`); if empty, one case with all rounds. For
        ``"branches"``: the number of price vectors, then worker, size and 0, or -1, 0 and 0 for a
        case that is not divided.
    slot_prices : tuple of int
        For a problem with a benefit: one price >= 0 per worker, which bounds the benefit
        (`formulations.step.bound.most_benefit`). All other fields then refer to the problem
        without its benefit.
    """

    kind: str
    bound: int
    prices: tuple[tuple[int, ...], ...] = ()
    price_scale: int = 1
    nodes: int = 0
    shares: tuple[tuple[Share, ...], ...] = ()
    admit_prices: tuple[int, ...] = ()
    cases: tuple[CaseRow, ...] = ()
    slot_prices: tuple[int, ...] = ()


def certified_bound(problem: StepProblem, certificate: Certificate) -> int:
    """Derive the bound of a certificate again from the problem data, and return it.

    Returns
    -------
    int
        ``certificate.bound``, verified as a lower bound on the scaled objective.

    Raises
    ------
    InputError
        If the certificate does not prove its bound, is malformed, or its search exceeds
        `formulations.step.exhaustion.WORK_LIMIT`.
    """
    _check_types(certificate)
    if problem.benefit is not None:
        worth = most_benefit(problem, certificate.slot_prices)
        of_loads = replace(certificate, bound=certificate.bound + worth, slot_prices=())
        return certified_bound(problem.without_benefit(), of_loads) - worth
    if certificate.slot_prices:
        raise malformed("slot_prices", "given, but the step has no benefit")
    by_shares = certificate.kind in ("shares", "shares-search")
    if not (_proven_by_shares if by_shares else _proven_by_sums)(problem, certificate):
        what = f"does not prove the bound {certificate.bound}"
        raise InputError("certificate", what, "solve again")
    return certificate.bound


def _proven_by_sums(problem: StepProblem, certificate: Certificate) -> bool:
    _check_form(problem, certificate)
    core = _Core(problem)
    if core.multiplier == 0:
        return certificate.bound <= 0
    # Objectives are multiples of the multiplier, so a claim between two of them is rounded up.
    target = -(-certificate.bound // core.multiplier)
    if certificate.kind == "branches":
        return _closed_by_branches(core, certificate, target)
    if certificate.kind == "enumeration":
        return _none_beats(core, certificate, target)
    return _left_open(core, certificate, target) == []


def _closed_by_branches(core: "_Core", certificate: Certificate, target: int) -> bool:
    """Return whether the prices of the first case, then of all others, exclude every peak."""
    cases = certificate.cases or ((len(certificate.prices), -1, 0, 0),)
    (number, worker, size, none), *others = cases
    if core.admits_all:
        return False
    if number < 0:
        raise malformed("cases", "a case has a negative number of prices")
    left = _left_open(core, replace(certificate, prices=certificate.prices[:number]), target)
    if not left:
        return left == []
    branch = Branch(
        core.num_workers,
        core.total_base,
        core.peak,
        core.workers.tolist(),
        core.base.tolist(),
        core.capacity.tolist(),
        np.arange(len(core.sizes)),
        core.sizes,
        {},
        np.array(left),
    )
    return closes_all(
        branch,
        iter([(0, worker, size, none), *others]),
        (np.array(vector, dtype=np.int64) for vector in certificate.prices[number:]),
        certificate.price_scale,
        target,
    )


def _proven_by_shares(problem: StepProblem, certificate: Certificate) -> bool:
    number = len(certificate.prices)
    if len(certificate.shares) != number or len(certificate.admit_prices) != number:
        raise malformed("shares", "not one tuple per price vector")
    given = zip(certificate.shares, certificate.prices, certificate.admit_prices, strict=True)
    return proves_by_shares(
        problem,
        tuple(ShareRound(*one) for one in given),
        certificate.cases or ((number, -1, 0, 0),),
        certificate.price_scale,
        certificate.bound,
        search=certificate.kind == "shares-search",
    )


def _check_types(certificate: Certificate) -> None:
    """Raise unless shares and cases hold whole numbers, and the bound is not too large."""
    shares = [share for one in certificate.shares for share in one]
    for name, length, entries in (("shares", 5, shares), ("cases", 4, certificate.cases)):
        for entry in entries:
            numbers = entry if isinstance(entry, tuple | list) else ()
            if len(numbers) != length or not all(isinstance(x, int | np.integer) for x in numbers):
                what = f"{entry!r:.60} is not {length} whole numbers"
                raise malformed(name, what)
    if abs(certificate.bound) > _MAX_BOUND:
        raise malformed("bound", "too large for 64-bit sums")


def _check_form(problem: StepProblem, certificate: Certificate) -> None:
    if certificate.kind not in ("sums", "branches", "enumeration"):
        remedy = "use sums, branches or enumeration"
        raise InputError("certificate.kind", f"{certificate.kind!r}", remedy)
    if certificate.price_scale < 1:
        raise malformed("price_scale", "below 1")
    reach = certificate.price_scale * int(problem.contribution.sum())
    for k, vector in enumerate(certificate.prices):
        if reach + sum(vector) > _MAX_VALUE:
            raise malformed(f"prices[{k}]", "too large for 64-bit sums")
        if len(vector) != problem.num_requests or min(vector, default=0) < 0:
            raise malformed(f"prices[{k}]", "not one price >= 0 per request")


class _Core:
    """The one-dimensional data of a step problem (see the module), and bounds in closed form."""

    def __init__(self, problem: StepProblem) -> None:
        _check_covered(problem)
        steps = [h for h, weight in enumerate(problem.weights) if weight > 0] or [0]
        h = steps[0]
        open_workers = problem.capacity > 0
        self.multiplier = sum(problem.weights) * int(problem.time_weights[0])
        self.num_workers = problem.num_workers
        self.peak = int(problem.base[:, h].max())
        self.total_base = int(problem.base[:, h].sum())
        self.workers: IntArray = np.flatnonzero(open_workers)
        self.base: IntArray = problem.base[open_workers, h]
        self.capacity: IntArray = problem.capacity[open_workers]
        self.sizes: IntArray = problem.contribution[:, h]
        self.ascending: IntArray = np.sort(self.sizes)
        self.below: IntArray = np.concatenate([[0], np.cumsum(self.ascending)])
        self.slots = int(self.capacity.sum())
        self.admits_all = len(self.sizes) <= self.slots
        self.total_size = int(self.below[-1])

    def value(self, peak: int, total: int) -> int:
        return self.num_workers * peak - self.total_base - total

    @property
    def first_peak(self) -> int:
        """Lower bound on the peak, from the base loads and the slots that must be filled."""
        spare = max(0, self.slots - len(self.sizes))
        return max(self.peak, _forced_peak(self.base, self.capacity, self.below, spare))

    @property
    def largest_total(self) -> int:
        admitted = min(self.slots, len(self.sizes))
        return int(self.below[-1] - self.below[len(self.sizes) - admitted])

    def closed_form(self, peak: int) -> int:
        """Return a lower bound on the scaled objective at this peak and all higher peaks."""
        room = int((peak - self.base).sum())
        return self.value(peak, min(room, self.largest_total))

    def least_peak_for_all(self) -> int:
        """Return the smallest peak at which all requests may fit, by room and counts by size."""
        peaks = range(self.first_peak, self.first_peak + self.total_size)
        return self.first_peak + bisect_left(peaks, True, key=self._may_hold_all)

    def _may_hold_all(self, peak: int) -> bool:
        margins = peak - self.base
        largest = self.total_size - self.below[len(self.sizes) - self.capacity]
        if int(np.minimum(margins, largest).sum()) < self.total_size:
            return False
        positive = np.unique(self.sizes[self.sizes > 0])
        places = np.minimum(self.capacity, margins // positive[:, None]).sum(axis=1)
        at_least = len(self.sizes) - np.searchsorted(self.ascending, positive)
        return bool((places >= at_least).all())

    def largest_sum(self, peak: int) -> int:
        """Return the largest sum of sizes that a worker can take under a peak."""
        most = int(self.below[-1] - self.below[len(self.sizes) - int(self.capacity.max())])
        return min(peak - int(self.base.min()), most)

    def priced_sums(self, prices: IntArray, scale: int, limit: int) -> IntArray:
        """Return the largest ``Σ (scale·s_i − λ_i)`` of c requests of sum <= x, per c and x."""
        values = scale * self.sizes - prices
        return priced_sums(self.sizes, values, int(self.capacity.max()), limit)

    def total(self, table: IntArray, peaks: IntArray) -> IntArray:
        """Return the sum of the workers' table entries under each peak (see `UNREACHABLE`)."""
        # In parts, as the margins of a million peaks on many workers would fill the memory.
        parts = np.array_split(peaks, 1 + len(peaks) * len(self.base) // _MARGINS)
        return np.concatenate([self._total(table, part) for part in parts])

    def _total(self, table: IntArray, peaks: IntArray) -> IntArray:
        margins = np.minimum(peaks - self.base[:, None], table.shape[1] - 1)
        parts = table[self.capacity[:, None], margins]
        # Entries near the marker stand for "no such subset" and must not be summed into overflow.
        is_there = (parts > UNREACHABLE // 2).all(axis=0)
        total: IntArray = np.where(is_there, parts.sum(axis=0), -(2**61))
        return total


def _check_covered(problem: StepProblem) -> None:
    """Raise unless a problem reduces to one dimension (see the module).

    Further constraints are allowed: they only raise the optimum, so the bound stays valid.
    """
    times = problem.time_weights
    steps = [h for h, weight in enumerate(problem.weights) if weight > 0] or [0]
    base = problem.base[:, steps]
    contribution = problem.contribution[:, steps]
    growth = contribution[:1] - contribution[:1, :1]
    per_request = (contribution - contribution[:, :1] == growth).all()
    drift = base - base[:, :1]
    if len(growth):
        drift = drift + problem.capacity[:, None] * growth
    slots = int(problem.capacity.sum())
    fills = problem.num_requests >= slots
    if (
        problem.num_admitted != min(problem.num_requests, slots)
        or problem.objective is not Objective.IMBALANCE
        or (times != times[0]).any()
        or not per_request
        or (drift != drift[0]).any()
        or (growth.any() and not fills)
    ):
        what = "its kind covers one-dimensional imbalance problems only"
        raise InputError("certificate", what, "use a solver")


def _left_open(core: _Core, certificate: Certificate, target: int) -> list[int] | None:
    """Return the peaks whose bound is below ``target``; None if there are too many to check."""
    if core.admits_all:
        return _left_of_packing(core, certificate, target)
    first = core.first_peak
    if core.closed_form(first) >= target:
        return []
    if len(core.base) == 0:
        return None
    # The closed form does not decrease: double the step, then bisect.
    low, high = first, first + 1
    while core.closed_form(high) < target:
        low, high = high, 2 * high - first + 1
    last = low + bisect_left(range(low + 1, high), target, key=core.closed_form)
    most = int(core.capacity.max())
    limit = core.largest_sum(last)
    if (most + 1) * (limit + 1) > _MAX_CELLS or last - first > _MAX_PEAKS:
        return None
    open_peaks = np.arange(first, last + 1)
    reachable = core.priced_sums(np.zeros_like(core.sizes), 1, limit)
    total = np.minimum(core.total(reachable, open_peaks), core.largest_total)
    bounds = core.num_workers * open_peaks - core.total_base - total
    open_peaks = open_peaks[bounds < target]
    scale = certificate.price_scale
    for vector in certificate.prices:
        prices = np.array(vector, dtype=np.int64)
        table = core.priced_sums(prices, scale, limit)
        total = core.total(table, open_peaks) + int(prices.sum())
        # The total is an integer, so its upper bound may be rounded down.
        bounds = core.num_workers * open_peaks - core.total_base - total // scale
        open_peaks = open_peaks[(bounds < target) & (total > UNREACHABLE)]
    WorkBudget().spend(len(open_peaks) * (len(core.sizes) + int(core.capacity.sum())))
    return [p for p in open_peaks.tolist() if _nested_bound(core, reachable, p) < target]


def _left_of_packing(core: _Core, certificate: Certificate, target: int) -> list[int] | None:
    """Return the largest peak below the claim if all requests may fit under it, else []."""
    least = -(-(target + core.total_base + core.total_size) // core.num_workers)
    peak = least - 1
    if peak < core.least_peak_for_all():
        return []
    if len(core.sizes) == 0:
        return [peak]
    limit = core.largest_sum(peak)
    if (int(core.capacity.max()) + 1) * (limit + 1) > _MAX_CELLS:
        return None
    for vector in certificate.prices:
        prices = np.array(vector, dtype=np.int64)
        table = core.priced_sums(prices, certificate.price_scale, limit)
        # If all requests are admitted, a worker may take fewer requests than it has slots.
        table = np.maximum.accumulate(table, axis=0)
        total = int(core.total(table, np.array([peak]))[0]) + int(prices.sum())
        if total // certificate.price_scale < core.total_size:
            return []
    return [peak]


def _none_beats(core: _Core, certificate: Certificate, target: int) -> bool:
    """Return whether an exhaustive search finds no placement that beats the claim."""
    try:
        left = _left_open(core, certificate, target)
        if left == []:
            return True
        if left is not None and not core.admits_all:
            work = WorkBudget()
            return not any(_beaten_under(core, certificate, target, p, work) for p in left)
    except InputError:
        if len(core.sizes) > _MAX_PLACED:
            raise
    open_workers = list(zip(core.base.tolist(), core.capacity.tolist(), strict=True))
    descending = core.ascending[::-1].tolist()
    return not placement_beats(
        core.num_workers, core.total_base, core.peak, open_workers, descending, target
    )


def _beaten_under(
    core: _Core, certificate: Certificate, target: int, peak: int, work: WorkBudget
) -> bool:
    """Return whether disjoint subsets of requests under this peak beat the claim.

    The search uses the price vector with the smallest budget, which leaves the fewest subsets.
    """
    needed = core.value(peak, 0) - target + 1
    limit = core.largest_sum(peak)
    options = [(np.zeros_like(core.sizes), 1)]
    options += [(np.array(v, dtype=np.int64), certificate.price_scale) for v in certificate.prices]
    chosen = None
    for prices, scale in options:
        table = core.priced_sums(prices, scale, limit)
        total = int(core.total(table, np.array([peak]))[0]) + int(prices.sum())
        budget = total - scale * needed
        # Compare budgets of different scales in tokens.
        if chosen is None or budget * chosen[2] < chosen[3] * scale:
            chosen = (prices, table, scale, budget)
    assert chosen is not None
    prices, table, scale, budget = chosen
    workers = PricedWorkers(
        core.sizes.tolist(),
        (scale * core.sizes - prices).tolist(),
        prices.tolist(),
        (peak - core.base).tolist(),
        core.capacity.tolist(),
        table,
    )
    return budget >= 0 and has_disjoint_choice(workers, budget, work)


def _nested_bound(core: _Core, reachable: IntArray, peak: int) -> int:
    """Return a lower bound on the objective at one peak, by greedy totals of requests.

    One total bounds all slots. The other bounds the workers with one slot; the reachable sums
    bound the other workers.
    """
    single = core.capacity == 1
    margins = peak - core.base
    slots = np.repeat(margins - core.below[core.capacity - 1], core.capacity)
    of_slots = _largest_nested_total(core.ascending, slots)
    of_single = _largest_nested_total(core.ascending, margins[single])
    of_workers = int(core.total(reachable, np.array([peak]))[0])
    if of_workers < 0 or of_slots is None or of_single is None:
        return 2**62
    reached = reachable[1, np.minimum(margins[single], reachable.shape[1] - 1)]
    total = min(of_workers - int(reached.sum()) + of_single, of_slots)
    return core.value(peak, min(total, core.largest_total))


def _largest_nested_total(ascending: IntArray, thresholds: IntArray) -> int | None:
    """Return the largest total of distinct requests, one of size at most each threshold.

    The result is None if some threshold gets no request.
    """
    fitting: list[int] = []
    following = 0
    total = 0
    places = np.searchsorted(ascending, np.sort(thresholds), side="right").tolist()
    sizes = ascending.tolist()
    for place in places:
        fitting += sizes[following:place]
        following = max(following, place)
        if not fitting:
            return None
        total += fitting.pop()
    return total
