"""Solve a step with a window: place, bound by shares and prices, place anew, until both meet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bfio.step.exact.effort import CALL, Effort
from bfio.step.exact.place import place_under_peak
from bfio.step.exact.windows.aggregate import Aggregate, aggregate
from bfio.step.exact.windows.anneal import anneal
from bfio.step.exact.windows.costs import NEVER, Costs, price_workers, shrink_modes
from bfio.step.exact.windows.model import Modes, Split, WindowModel
from bfio.step.exact.windows.near_best import NearBest, choose_disjoint, collect_near_best
from bfio.step.exact.windows.pricing import (
    BLOCK,
    LARGE,
    MOST_UNITS,
    Priced,
    collect_exact,
    fill_tables,
    prefix_bests,
)
from bfio.step.exact.windows.program import Duals, ShareProgram, Solution
from bfio.step.exact.windows.refit import refit
from bfio.step.exact.windows.shares import Columns, Cuts, broken_cuts, rounded_weights, weighted
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.step.bound import lower_bound
from formulations.step.share_bound import ShareRound, largest_objective

#: Most units of duals to one of the objective, and largest scaled objective.
_MAX_SCALE = 1 << 20
_MAX_VALUE = 1 << 58
#: Most modes whose sums are looked at one by one.
_FEW_MODES = 2048
#: Most cells of all tables, and most that one price after the other is filled into.
_MAX_CELLS = 1 << 25
_MAX_FILLING = 1 << 29
#: Turns of the first placement per request, and of those from solutions of the program.
_FIRST_TURNS = 150
_FIRST_TEMPERATURES = (0.02,)
_LATER_TURNS = 400
#: Temperatures of those in turn, in parts of a mean request, and how many follow at the end.
_LATER_TEMPERATURES = (0.02, 0.005, 0.05, 0.002)
_LAST_PLACEMENTS = 8
_CASE_PLACEMENTS = 1
#: Workers filled anew under given peaks.
_FILLING_ROUNDS = 400
#: Rounds of cuts between two rounds of prices, and between two placements.
_PRICE_EVERY = 3
_PLACE_EVERY = 4
#: Part of the best duals so far in those that prices are taken from.
_SMOOTHING = 0.6
#: Least part of what is left between bound and placement that rounding may lose, inverted.
_LOST = 4
#: Sums of each mode that columns are made of, and requests looked at for one.
_SUMS = 4
_SCANS = 200_000
#: Weight from which on a column of the program's solution counts.
_LEAST_WEIGHT = 1e-9
#: Most sets that a last search starts from, and that it looks at.
_MAX_COLUMNS = 1 << 12
_MAX_LOOKS = 40_000
_SEED = 88172645463325252


@dataclass(frozen=True)
class IntegerDuals:
    """Integer shares and prices.

    Parameters
    ----------
    cut_weights : IntArray
        Shape (R,).
    prices : IntArray
        Shape (N,): of each position.
    admit_price : int
        Of the number of requests.
    """

    cut_weights: IntArray
    prices: IntArray
    admit_price: int


@dataclass(frozen=True)
class Bounded:
    """What shares and prices prove: the scaled total, the least of each worker in it.

    Of each mode there is a lower bound on its cost.
    """

    total: int
    least: IntArray
    bounds: IntArray
    costs: Costs


@dataclass
class Case:
    """Bounds of one case, and into which two it falls."""

    rounds: list[ShareRound]
    split: Split | None = None


@dataclass(frozen=True)
class _Open:
    """A case still to be closed: what is left of the modes, and how it came about."""

    modes: Modes
    floors: IntArray
    bound: int
    path: tuple[tuple[Split, bool], ...]


class WindowSearch:
    """The search on one problem.

    Parameters
    ----------
    model : WindowModel
        Data.
    effort : Effort
        Limits.

    Attributes
    ----------
    model : WindowModel
        Data.
    owner : IntArray or None
        Shape (N,): worker of each position, -1 for none, in the best placement so far.
    value : int
        Its objective; a number above all of them if there is none.
    bound : int
        Lower bound on the objective.
    closed_form : int
        Lower bound that needs no search.
    cases : list of Case
        What proves it, in depth-first order.
    closed : bool
        Whether all cases are closed; else only the first one's rounds prove the bound.
    """

    def __init__(self, model: WindowModel, effort: Effort) -> None:
        self.model = model
        self._effort = effort
        self._modes = model.modes
        fitting = _MAX_VALUE // max(1, largest_objective(model.problem))
        self.scale = min(_MAX_SCALE, 1 << max(0, fitting.bit_length() - 1))
        self._state = np.array([_SEED], dtype=np.uint64)
        _, speed = np.unique(model.workers.token_time, return_inverse=True)
        self._speed = speed.reshape(-1).astype(np.int64)
        self._behind: Duals | None = None
        self.owner: IntArray | None = None
        self.value = largest_objective(model.problem) + 1
        self.bound = -self.value
        self.closed_form = lower_bound(model.problem)
        self.cases: list[Case] = []
        self.closed = False
        self.searched = False
        self._found: list[tuple[int, IntArray]] = []
        self._placements = 0
        # Exchanges of two requests do as much where workers have one or two slots.
        self._refits = bool(model.workers.slots.sum() > 2 * len(model.open))
        self._last: Bounded | None = None
        # Whether tables have 64 bits, and what rounding values up may cost a bound.
        self._fine = False
        self._lost = 0
        self.floors = self._least_peaks(self._modes)
        self._ceilings = self._highest_peaks()

    @property
    def proven(self) -> bool:
        """Whether the best placement is optimal."""
        return max(self.bound, self.closed_form) >= self.value

    # -- Placements

    def place(self, owner: IntArray, temperature: float, turns: int) -> None:
        """Exchange requests of a placement at random; keep the best."""
        model = self.model
        value, excess = anneal(
            model.requests,
            model.workers,
            model.goal,
            temperature,
            turns,
            not model.fills,
            owner,
            self._state,
            self._effort.spent,
        )
        if excess > 0:
            return
        if self._refits:
            value = refit(model.requests, model.workers, model.goal, owner, self._effort.spent)
        self._found += self._columns_of(owner)
        if value < self.value:
            self.value = int(value)
            self.owner = owner.copy()

    def first_placement(self) -> IntArray:
        """Fill slots in turn: required requests first, then the smallest."""
        model = self.model
        owner = np.full(len(model.order), -1, dtype=np.int64)
        load = model.workers.base.max(axis=1) * model.workers.token_time
        free = model.workers.slots.copy()
        weight = model.requests.rows.max(axis=1)
        order = np.lexsort((weight, ~model.requests.required))
        for i in order[: model.problem.num_admitted][::-1].tolist():
            k = int(np.argmin(np.where(free > 0, load, NEVER)))
            owner[i] = k
            free[k] -= 1
            load[k] += int(model.workers.token_time[k] * weight[i])
        return owner

    def _place_again(self, owner: IntArray) -> None:
        """Improve a placement at the next of the temperatures."""
        share = _LATER_TEMPERATURES[self._placements % len(_LATER_TEMPERATURES)]
        self._placements += 1
        self.place(owner, self._temperature(share), _LATER_TURNS * len(owner))

    def _fill_margins(self, peaks: FloatArray) -> None:
        """Place anew, of the requests that differ by size only, as much as these peaks take."""
        assert self.owner is not None
        model, owner = self.model, self.owner.copy()
        sizes = model.requests.sizes
        if model.requests.required.any() and not model.admits_all:
            return
        of_worker = [np.flatnonzero(owner[: len(sizes)] == k) for k in range(len(model.open))]
        number = np.array([len(members) for members in of_worker])
        loads = model.workers.base.copy()
        others = np.flatnonzero(owner[len(sizes) :] >= 0) + len(sizes)
        np.add.at(loads, owner[others], model.requests.rows[others])
        if len(sizes):
            loads += number[:, None] * (model.requests.rows[0] - sizes[0])
        whole = np.floor(peaks + 1e-6).astype(np.int64)
        margins = (whole // model.workers.token_time[:, None] - loads).min(axis=1)
        margins = np.minimum(margins, model.workers.limit - loads.max(axis=1))
        chosen = np.flatnonzero(number > 0)
        if len(chosen) == 0:
            return
        placed = np.full(len(sizes), -1, dtype=np.int64)
        total = place_under_peak(
            margins[chosen],
            number[chosen],
            sizes,
            np.zeros_like(sizes),
            np.argsort(number[chosen], kind="stable"),
            int(margins[chosen].sum()),
            _FILLING_ROUNDS,
            placed,
            self._state,
            self._effort.spent,
        )
        if total < 0:
            return
        owner[: len(sizes)] = np.where(placed >= 0, chosen[placed], -1)
        self.place(owner, self._temperature(_LATER_TEMPERATURES[-1]), _LATER_TURNS * len(owner))

    def _deal(self, sums: Aggregate) -> None:
        """Deal all requests out, the largest first, to who lacks most per request of its sum."""
        model = self.model
        sizes, slots = model.requests.sizes, model.workers.slots
        if not model.admits_all or len(sizes) < len(model.order):
            return
        left = _rounded(sums.numbers, len(sizes), slots)
        lacking = sums.sums.copy()
        owner = np.empty(len(sizes), dtype=np.int64)
        for i in range(len(sizes) - 1, -1, -1):
            need = np.where(left > 0, lacking / np.maximum(left, 1), -np.inf)
            k = int(np.argmax(need))
            owner[i] = k
            left[k] -= 1
            lacking[k] -= sizes[i]
        # As it is, and after exchanges.
        self.place(owner, 0.0, 0)
        self._place_again(owner.copy())

    def _temperature(self, share: float) -> float:
        mean = float(self.model.requests.rows.mean())
        return share * mean * float(self.model.goal.pays.sum()) / self.model.problem.num_workers

    def _positions(self) -> dict[int, list[int]]:
        """Return the positions of the requests of each kind."""
        positions: dict[int, list[int]] = {}
        for position, kind in enumerate(self.model.requests.kind.tolist()):
            positions.setdefault(kind, []).append(position)
        return positions

    def _round_solution(self, solution: Solution) -> IntArray:
        """Place disjoint columns, those that weigh most first, and the rest anyhow."""
        model, weights = self.model, solution.weights
        kinds = model.requests.kind
        left = self._positions()
        owner = np.full(len(kinds), -1, dtype=np.int64)
        done = np.zeros(len(model.open), dtype=np.bool_)
        for j in np.argsort(-weights, kind="stable").tolist():
            k, members = solution.worker[j], solution.members[j]
            if weights[j] <= _LEAST_WEIGHT or done.all():
                break
            if done[k] or any(len(left[c]) < members.count(c) for c in set(members)):
                continue
            for c in members:
                owner[left[c].pop()] = k
            done[k] = True
        return self._completed(owner)

    def _completed(self, owner: IntArray) -> IntArray:
        """Admit or dismiss requests until the required ones are in and the number is right."""
        model = self.model
        required = model.requests.required
        excess = int((owner >= 0).sum() + (required & (owner < 0)).sum())
        excess -= model.problem.num_admitted
        dismissed = np.flatnonzero((owner >= 0) & ~required)[: max(0, excess)]
        owner[dismissed] = -1
        free = model.workers.slots - np.bincount(owner[owner >= 0], minlength=len(model.open))
        places = np.repeat(np.arange(len(free)), free)
        waiting = np.flatnonzero(owner < 0)
        waiting = waiting[np.argsort(~required[waiting], kind="stable")]
        missing = model.problem.num_admitted - int((owner >= 0).sum())
        owner[waiting[:missing]] = places[:missing]
        return owner

    # -- Bounds

    def _least_peaks(self, modes: Modes) -> IntArray:
        """Levels that no peak is below: of closed workers, and of what the modes leave."""
        model = self.model
        steps = modes.loads.shape[1]
        tau = model.workers.token_time[modes.worker][:, None]
        at_low = (modes.loads + modes.low[:, None]) * tau
        ends = at_low
        if len(model.goal.pays) > steps:
            ends = np.concatenate([at_low, -(modes.loads + modes.high[:, None]) * tau], axis=1)
        floors: IntArray = model.goal.closed
        order = np.argsort(modes.worker, kind="stable")
        first = np.searchsorted(modes.worker[order], np.arange(len(model.open)))
        if len(order):
            floors = np.maximum(floors, np.minimum.reduceat(ends[order], first).max(axis=0))
        return floors

    def _highest_peaks(self) -> IntArray:
        """Levels that no column exceeds."""
        model, modes = self.model, self._modes
        tau = model.workers.token_time[modes.worker][:, None]
        highest = ((modes.loads + modes.high[:, None]) * tau).max(axis=0)
        if len(model.goal.pays) > len(highest):
            lowest = ((modes.loads + modes.low[:, None]) * tau).min(axis=0)
            highest = np.concatenate([highest, -lowest])
        ceilings: IntArray = np.maximum(highest, self.floors) + 1
        return ceilings

    def narrow(self) -> None:
        """Lower the largest sum of each mode to what can beat the placement in hand."""
        model, modes = self.model, self._modes
        if len(model.goal.pays) > modes.loads.shape[1]:
            return
        fixed = model.goal.fixed + self._largest_total()
        modes = _kept(modes, self._alone(modes, modes.low) - fixed < self.value)
        low, high = modes.low.copy(), modes.high.copy()
        while (low < high).any():
            middle = (low + high + 1) // 2
            over = self._alone(modes, middle) - fixed >= self.value
            high = np.where(over & (low < high), middle - 1, high)
            low = np.where(over, low, np.minimum(middle, high))
        self._modes = modes._replace(high=high)

    def _alone(self, modes: Modes, sums: IntArray) -> IntArray:
        """Return what the peaks cost at least where modes have these sums."""
        tau = self.model.workers.token_time[modes.worker]
        times = (modes.loads + sums[:, None]) * tau[:, None]
        cost: IntArray = np.maximum(times, self.floors) @ self.model.goal.pays
        return cost

    def _largest_total(self) -> int:
        """Largest weighted total that any admission adds."""
        model = self.model
        worth = np.sort(model.requests.rows @ model.goal.weights)[::-1]
        times = np.sort(np.repeat(model.workers.token_time, model.workers.slots))[::-1]
        number = model.problem.num_admitted
        return int((worth[:number] * times[:number]).sum())

    def integers(self, duals: Duals, cuts: Cuts) -> IntegerDuals:
        """Make duals integers: shares of a level within the whole, prices of the right sign."""
        goal, requests, scale = self.model.goal, self.model.requests, self.scale
        weights = rounded_weights(cuts, duals.cut_weights * scale, goal.pays * scale)
        prices = np.rint(duals.request_prices * scale).astype(np.int64)[requests.kind]
        prices = np.where(requests.required, prices, np.maximum(prices, 0))
        admit = 0 if self.model.fills else round(duals.admit_price * scale)
        return IntegerDuals(weights, prices, admit)

    def bounded(
        self, duals: IntegerDuals, cuts: Cuts
    ) -> tuple[Bounded, list[tuple[int, IntArray]]]:
        """Return what duals prove, and the sets that come closest to it."""
        model, modes = self.model, self._modes
        shares = weighted(cuts, duals.cut_weights, self.floors, len(model.open))
        costs = Costs(modes, model.workers, shares, self._priced(duals), self._fixed(duals))
        shape = (len(model.open), _SUMS)
        least, mode, sums = (np.empty(shape, dtype=np.int64) for _ in range(3))
        bounds = np.empty(len(modes.low), dtype=np.int64)
        price_workers(costs, mode, sums, least, bounds, self._effort.spent)
        constant = self.scale * int((model.goal.pays * self.floors).sum() - model.goal.fixed)
        constant -= int(duals.prices.sum()) + duals.admit_price * model.problem.num_admitted
        # A worker without any set left proves everything.
        nothing = bool((mode[:, 0] < 0).any())
        total = NEVER if nothing else constant + int(least[:, 0].sum())
        return Bounded(total, least[:, 0], bounds, costs), self._sets(costs, mode, sums)

    def _fixed(self, duals: IntegerDuals) -> IntArray:
        """Cost of each mode whatever the sum."""
        modes = self._modes
        own = np.where(modes.own >= 0, duals.prices[np.maximum(modes.own, 0)], 0).sum(axis=1)
        number = modes.number + (modes.own >= 0).sum(axis=1)
        fixed: IntArray = own - self.scale * modes.weight + duals.admit_price * number
        return fixed

    def _priced(self, duals: IntegerDuals) -> Priced:
        """Return the requests that differ by size only with filled tables."""
        model, modes = self.model, self._modes
        sizes = model.requests.sizes
        times = np.unique(model.workers.token_time)
        weight = self.scale * int(model.goal.weights.sum()) * times[:, None]
        values = weight * sizes - duals.prices[: len(sizes)]
        most = int(modes.number.max(initial=0))
        reach = np.zeros(most + 1, dtype=np.int64)
        np.maximum.at(reach, modes.number, modes.high)
        reach = np.maximum.accumulate(reach[::-1])[::-1]
        largest = most * int(np.abs(values).max(initial=0))
        width = np.dtype(np.int64 if self._fine else np.int32)
        largest = most * int(np.abs(values).max(initial=0))
        shift = (largest // MOST_UNITS[width.itemsize]).bit_length()
        self._lost = len(model.open) * most << shift if shift else 0
        units = (-(-values >> shift)).astype(width)
        shape = (len(times), most + 1)
        tables = np.empty((*shape, int(reach[0]) + 1), dtype=width)
        highest = np.empty((*shape, int(reach[0]) // BLOCK + 1), dtype=width)
        higher = np.empty((*shape, int(reach[0]) // (BLOCK * LARGE) + 1), dtype=width)
        priced = Priced(sizes, values, units, shift, tables, highest, higher, self._speed)
        self._effort.spend(CALL)
        fill_tables(priced, reach, self._effort.spent)
        return priced

    def _keep(self, found: Bounded, duals: IntegerDuals) -> None:
        """Keep a higher bound and what it leaves of the modes."""
        model = self.model
        # Boxes leave out what does not beat the placement in hand, so no more is proven than that.
        self.bound = min(self.value, -(-found.total // self.scale))
        shares = found.costs.shares
        worker = np.repeat(model.open, np.diff(shares.first))
        rows = [shares.step, worker, shares.above, shares.to, shares.weight]
        self.cases[-1].rounds.append(
            ShareRound(
                tuple(map(tuple, np.stack(rows, axis=1).tolist())),
                model.by_request(duals.prices),
                duals.admit_price,
            )
        )
        if self.proven:
            return
        most = found.least + (self.scale * (self.value - 1) - found.total)
        # Most of many modes go at once; only of few are the sums looked at.
        kept = found.bounds <= most[self._modes.worker]
        costs = self._without(found.costs, kept)
        if len(costs.fixed) <= _FEW_MODES:
            shrink_modes(costs, most, self._effort.spent)
            costs = self._without(costs, self._modes.low <= self._modes.high)
        self._last = replace(found, costs=costs)
        if self._is_empty(self._modes):
            self.bound = self.value
            return
        self.floors = self._least_peaks(self._modes)

    def _without(self, costs: Costs, kept: BoolArray) -> Costs:
        """Leave out the modes that are not kept, here and in costs."""
        self._modes = _kept(self._modes, kept)
        return costs._replace(modes=self._modes, fixed=costs.fixed[kept])

    # -- The program

    def run(self, start: Sequence[int | None] | None = None) -> None:
        """Search until the bound meets the placement, nothing moves, or a limit strikes."""
        if self._is_empty(self._modes):
            return
        self._begin(start)
        if self.owner is None:
            return
        self.narrow()
        if self._is_empty(self._modes):
            # No worker's sets can beat the placement.
            self.bound, self.closed = self.value, True
            self.cases.append(Case([]))
            return
        if self.proven:
            return
        sums = aggregate(self.model, self.floors, self._ceilings, self._effort)
        if sums is not None:
            self._fill_margins(sums.peaks)
            self._deal(sums)
        if self.proven or not self._fits():
            return
        program = ShareProgram(self.model, self.floors, self._effort)
        program.add_columns(self._columns_of(self.owner))
        weights = np.ones(len(program.worker))
        program.add_columns(self._found)
        cuts = self._broken(program, weights, None)
        if cuts is not None:
            program.add_cuts(cuts, self.floors)
        self._explore(program, sums)

    def _start(self, program: ShareProgram, start: Aggregate) -> None:
        """Bound by shares and prices of sums per worker, from which all others start."""
        program.add_cuts(start.cuts, self.floors)
        duals = self.integers(start.duals, start.cuts)
        found, columns = self.bounded(duals, start.cuts)
        self._behind = start.duals
        self._keep(found, duals)
        program.add_columns(columns)

    def _explore(self, program: ShareProgram, start: Aggregate | None) -> None:
        """Close the problem case by case, in depth-first order."""
        waiting = [_Open(self._modes, self.floors, self.bound, ())]
        while waiting and not self._effort.is_over:
            case = waiting.pop()
            self._enter(program, case)
            if start is not None and len(self.cases) == 1:
                self._start(program, start)
            if self._is_empty(self._modes):
                continue
            solution = self._converge(program)
            if self.proven or self._closed_otherwise(solution):
                continue
            split = None if solution is None else self._split(program, solution)
            if split is None or self._effort.is_over:
                waiting.append(replace(case, bound=self.bound))
                break
            self.cases[-1].split = split
            # The last one is taken first.
            waiting += [self._part(case, split, high=True), self._part(case, split, high=False)]
        self.bound = min([self.value, *(case.bound for case in waiting)])
        self.closed = not waiting

    def _enter(self, program: ShareProgram, case: "_Open") -> None:
        self._modes, self.floors, self.bound = case.modes, case.floors, case.bound
        self._last = None
        self.cases.append(Case([]))
        if len(self.cases) > 1:
            program.restrict(case.path, self.floors)

    def _is_empty(self, modes: Modes) -> bool:
        """Whether a worker has nothing left."""
        return len(np.unique(modes.worker)) < len(self.model.open)

    def _closed_otherwise(self, solution: Solution | None) -> bool:
        """Place anew and search, where the program has come to its end; whether that closes it."""
        for turn in range(_LAST_PLACEMENTS if len(self.cases) == 1 else _CASE_PLACEMENTS):
            if self.proven or self._effort.is_over or solution is None:
                break
            owner = self.owner if turn % 2 else self._round_solution(solution)
            assert owner is not None
            self._place_again(owner.copy())
        return self.proven or (not self._effort.is_over and self._finish())

    def _split(self, program: ShareProgram, solution: Solution) -> Split | None:
        """Return the worker and step whose load differs most in a solution, and its mean."""
        columns = program.columns
        used = np.flatnonzero(solution.weights > _LEAST_WEIGHT)
        steps = self._modes.loads.shape[1]
        weights, worker = solution.weights[used], columns.worker[used]
        loads = columns.times[used, :steps] // self.model.workers.token_time[worker][:, None]
        K = len(self.model.open)
        mean = np.zeros((K, steps))
        np.add.at(mean, worker, weights[:, None] * loads)
        spread = np.zeros((K, steps))
        np.add.at(spread, worker, weights[:, None] * np.abs(loads - mean[worker]))
        paid = spread * self.model.goal.pays[:steps] * self.model.workers.token_time[:, None]
        k, step = np.unravel_index(int(np.argmax(paid)), paid.shape)
        if spread[k, step] < 1e-3:
            return None
        level = int(np.floor(mean[k, step]))
        return Split(int(k), int(step), level)

    def _part(self, case: "_Open", split: Split, *, high: bool) -> "_Open":
        """Return a case with the loads of a worker above a level, or not above it."""
        modes = self._modes._replace(low=self._modes.low.copy(), high=self._modes.high.copy())
        of_worker = modes.worker == split.worker
        sums = split.level - modes.loads[:, split.step]
        if high:
            modes.low[of_worker] = np.maximum(modes.low, sums + 1)[of_worker]
        else:
            modes.high[of_worker] = np.minimum(modes.high, sums)[of_worker]
        modes = _kept(modes, modes.low <= modes.high)
        floors = self.floors
        if not self._is_empty(modes):
            floors = self._least_peaks(modes)
        return _Open(modes, floors, self.bound, (*case.path, (split, high)))

    def _converge(self, program: ShareProgram) -> Solution | None:
        """Add cuts and columns until the bound meets the placement or nothing moves."""
        priced, placed, turn = -1, -1, 0
        solution = None
        while not self.proven and not self._effort.is_over:
            solution = program.solve()
            if solution is None:
                break
            fresh = 0
            if turn - placed >= _PLACE_EVERY:
                placed = turn
                self._found = []
                self._place_again(self._round_solution(solution))
                fresh = program.add_columns(self._found, solution)
            cuts = self._broken(program, solution.weights, solution.peaks)
            added = 0
            if (cuts is None and not fresh) or turn - priced >= _PRICE_EVERY:
                priced = turn
                added = self._price(program, solution)
            if self.proven or (cuts is None and not added and not fresh):
                break
            self._drop_cuts(program)
            if cuts is not None:
                program.add_cuts(cuts, self.floors)
            program.raise_floors(self.floors)
            turn += 1
        return solution

    def _drop_cuts(self, program: ShareProgram) -> None:
        """Drop cuts that bind no longer, neither in the program nor at the best duals."""
        wanted = np.zeros(len(program.cuts.step), dtype=np.bool_)
        behind = self._behind
        if behind is not None:
            wanted[: len(behind.cut_weights)] = behind.cut_weights > 0
        kept = program.drop_cuts(wanted)
        if behind is not None:
            weights = behind.cut_weights[kept[: len(behind.cut_weights)]]
            self._behind = behind._replace(cut_weights=weights)

    def rehearse(self) -> None:
        """Call every kernel, so that it is compiled: a short run that pretends to know little."""
        self._refits = True
        self._begin(None)
        self.cases.append(Case([]))
        assert self.owner is not None
        self._fill_margins(self._ceilings.astype(float))
        self.value += 1000
        program = ShareProgram(self.model, self.floors, self._effort)
        program.add_columns(self._columns_of(self.owner))
        cuts = self._broken(program, np.ones(len(program.worker)), None)
        assert cuts is not None
        program.add_cuts(cuts, self.floors)
        solution = program.solve()
        assert solution is not None
        for fine in (True, False):
            self._fine = fine
            self._price(program, solution)
            self._finish()

    def _finish(self) -> bool:
        """Search through all sets that the last bound leaves; whether that came to its end."""
        if self._last is None:
            return False
        found = self._last
        model, modes = self.model, self._modes
        budget = self.scale * (self.value - 1) - found.total
        most = max(1, int(modes.number.max()))
        width = most + modes.own.shape[1]
        worker = np.empty(_MAX_COLUMNS, dtype=np.int64)
        cost = np.empty(_MAX_COLUMNS, dtype=np.int64)
        members = np.empty((_MAX_COLUMNS, width), dtype=np.int64)
        bests = np.stack([prefix_bests(values, most) for values in found.costs.priced.values])
        number = collect_near_best(
            found.costs,
            bests,
            found.least,
            budget,
            _SCANS,
            worker,
            cost,
            members,
            self._effort.spent,
        )
        if number < 0:
            return False
        near = self._near_best(worker[:number], cost[:number], members[:number])
        chosen = np.full(len(model.open), -1, dtype=np.int64)
        value, complete = choose_disjoint(
            near,
            model.requests,
            model.goal,
            self.floors,
            len(model.open),
            model.problem.num_admitted,
            budget,
            self.scale,
            self.value,
            _MAX_LOOKS,
            chosen,
            self._effort.spent,
        )
        if value < self.value:
            self.value = int(value)
            self.owner = self._dealt(near, chosen)
        self.searched |= complete
        return complete

    def _near_best(self, worker: IntArray, cost: IntArray, members: IntArray) -> NearBest:
        """Return columns with their times and weights, the cheapest first."""
        model = self.model
        order = np.argsort(cost, kind="stable")
        worker, cost, members = worker[order], cost[order], members[order]
        rows = np.concatenate([model.requests.rows, np.zeros_like(model.requests.rows[:1])])
        added = rows[members].sum(axis=1)
        tau = model.workers.token_time[worker]
        times = (model.workers.base[worker] + added) * tau[:, None]
        if len(model.goal.pays) > times.shape[1]:
            times = np.concatenate([times, -times], axis=1)
        return NearBest(worker, cost, tau * (added @ model.goal.weights), members, times)

    def _dealt(self, near: NearBest, chosen: IntArray) -> IntArray:
        """Return the placement of chosen sets: of equal requests, each set gets different ones."""
        kinds = self.model.requests.kind
        left = self._positions()
        owner = np.full(len(kinds), -1, dtype=np.int64)
        for k, j in enumerate(chosen.tolist()):
            for position in near.members[j].tolist():
                if position >= 0:
                    owner[left[int(kinds[position])].pop()] = k
        return owner

    def _begin(self, start: Sequence[int | None] | None) -> None:
        owner = self.first_placement()
        if start is not None:
            owner = self.model.owner_of(tuple(start))
        turns = _FIRST_TURNS * len(owner)
        self.place(owner, self._temperature(0.25), turns)
        for share in _FIRST_TEMPERATURES:
            if self.owner is not None:
                self.place(self.owner.copy(), self._temperature(share), turns)

    def _fits(self) -> bool:
        """Whether the tables are small enough, and soon filled."""
        modes = self._modes
        cells = (int(modes.number.max()) + 1) * (int(modes.high.max()) + 1)
        cells *= int(self._speed.max()) + 1
        return cells <= _MAX_CELLS and cells * len(self.model.requests.sizes) <= _MAX_FILLING

    def _columns_of(self, owner: IntArray) -> list[tuple[int, IntArray]]:
        return [(k, np.flatnonzero(owner == k)) for k in range(len(self.model.open))]

    def _broken(
        self, program: ShareProgram, weights: np.ndarray, peaks: np.ndarray | None
    ) -> Cuts | None:
        """Return the inequalities that a solution breaks, None if there is none."""
        columns = program.columns
        used = np.flatnonzero(weights > _LEAST_WEIGHT)
        S = len(self.floors)
        segments = np.empty((S * len(used) + 1, 3), dtype=np.int64)
        step = np.empty(S, dtype=np.int64)
        first = np.empty(S + 1, dtype=np.int64)
        number = broken_cuts(
            Columns(columns.worker[used], columns.times[used]),
            weights[used],
            self.floors.astype(float) if peaks is None else peaks,
            self.floors,
            self._ceilings,
            len(self.model.open),
            segments,
            step,
            first,
        )
        if number == 0:
            return None
        parts = segments[: first[number]].T.copy()
        return Cuts(step[:number].copy(), first[: number + 1].copy(), *parts)

    def _price(self, program: ShareProgram, solution: Solution) -> int:
        """Bound at smoothed duals, then at those of the solution; add the best columns."""
        cuts = program.cuts
        for mixed in self._smoothed(solution.duals):
            duals = self.integers(mixed, cuts)
            found, columns = self.bounded(duals, cuts)
            if found.total > self.bound * self.scale:
                self._behind = mixed
                self._keep(found, duals)
                if self.proven:
                    return 0
            added = program.add_columns(columns, solution)
            if added:
                return added
        if not self._fine and _LOST * self._lost > self.scale * (self.value - self.bound):
            # Rounding up may hide what is left between bound and placement.
            self._fine = True
            return self._price(program, solution)
        return 0

    def _smoothed(self, duals: Duals) -> list[Duals]:
        behind = self._behind
        return [duals] if behind is None else [duals.towards(behind, _SMOOTHING), duals]

    def _sets(self, costs: Costs, modes: IntArray, sums: IntArray) -> list[tuple[int, IntArray]]:
        """Return sets of requests behind modes and sums of each worker."""
        priced = costs.priced
        most = int(costs.modes.number.max())
        bests = [prefix_bests(values, most) for values in priced.values]
        row = np.empty((1, max(1, most)), dtype=np.int64)
        found = []
        for k, rank in zip(*np.nonzero(modes >= 0), strict=True):
            m, total = modes[k, rank], sums[k, rank]
            count, speed = int(costs.modes.number[m]), self._speed[k]
            # Of a value that rounding up its requests cannot tell from the best.
            value = (int(priced.tables[speed, count, total]) - count) << priced.shift
            number, _ = collect_exact(
                priced, speed, bests[speed], count, total, value, _SCANS, row, self._effort.spent
            )
            if number:
                own = costs.modes.own[m]
                found.append((int(k), np.concatenate([row[0, :count], own[own >= 0]])))
        return found


def _rounded(numbers: FloatArray, total: int, most: IntArray) -> IntArray:
    """Round numbers so that they sum to a total, each at most so much."""
    whole = np.minimum(np.floor(numbers + 1e-6).astype(np.int64), most)
    order = np.argsort(whole - numbers, kind="stable")
    while whole.sum() < total:
        rest = total - int(whole.sum())
        whole[order[(whole < most)[order]][:rest]] += 1
    return whole


def _kept(modes: Modes, kept: BoolArray) -> Modes:
    """Return some of the modes."""
    return modes if kept.all() else Modes(*(part[kept] for part in modes))
