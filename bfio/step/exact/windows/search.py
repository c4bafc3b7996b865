"""Solve a step with a window: alternate placements and bounds until they meet."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bfio.step.exact.effort import Effort, Phase
from bfio.step.exact.windows.aggregate import Aggregate, aggregate
from bfio.step.exact.windows.bounds import Bounded, Bounds
from bfio.step.exact.windows.boxes import Boxes
from bfio.step.exact.windows.model import Split
from bfio.step.exact.windows.placements import Placements
from bfio.step.exact.windows.program import LEAST_WEIGHT, ShareProgram, Solution
from bfio.step.exact.windows.shares import Columns, Cuts, broken_cuts
from bfio.step.exact.windows.splits import Splits
from formulations.arrays import FloatArray
from formulations.step.bound import lower_bound
from formulations.step.share_bound import ShareRound

#: Rounds of prices and cuts between two placements.
_PLACE_EVERY = 4
#: Turn at which workers are filled up to the peaks of the program.
_FILL_AT = 4
#: Placements where the program has come to its end: of the whole problem, and of a case.
_LAST_PLACEMENTS = 8
_CASE_PLACEMENTS = 1
#: Sums of each worker that first columns are made of.
_FIRST_SUMS = 8
#: Part of the best duals so far in those that prices are taken from.
_SMOOTHING = 0.6
#: Least part of what is left between bound and placement that rounding may lose, inverted.
_LOST = 4
#: Rounds in which the gap must fall to this part of itself, or a case may be split; and part of
#: the gap that the value of the program must then leave for splits.
_SLOW_ROUNDS, _SLOW_PART, _LEFT_PART = 5, 0.6, 0.3
#: Modes that are priced alone for as long as that yields sets.
_HOT_MODES = 1024


@dataclass
class Case:
    """Bounds of one case of the search, and its split into two."""

    rounds: list[ShareRound]
    split: Split | None = None


@dataclass(frozen=True)
class _Open:
    """A case that is still open: its boxes, and the splits that led to it.

    ``bound`` is the bound of the parent case, ``spread`` the spread of the last split.
    """

    boxes: Boxes
    bound: int
    path: tuple[tuple[Split, bool], ...] = ()
    spread: float = 0.0


class WindowSearch:
    """The search for a solution of one problem with a window.

    Parameters
    ----------
    boxes : Boxes
        The problem with all modes of its workers; each worker has one.

    Attributes
    ----------
    placements : Placements
        Placements, with the best one so far.
    bound : int
        Lower bound on the objective.
    closed_form : int
        Lower bound that needs no search.
    cases : list of Case
        Cases that prove the bound, in depth-first order; cases not reached have no rounds.
    """

    def __init__(self, boxes: Boxes, effort: Effort, skip: Collection[Phase] = ()) -> None:
        self.model = model = boxes.model
        self._effort = effort
        self._skip = skip
        self.placements = Placements(model, effort, refits=Phase.REFITS not in skip)
        self.bounds = Bounds(model, effort)
        self.bound = -self.placements.value
        self.closed_form = lower_bound(model.problem)
        self.cases: list[Case] = []
        self._splits = Splits(model)
        self._boxes = boxes
        # Above all sets, also those that cannot beat the placement in hand.
        self._ceilings = boxes.ceilings()
        # The best modes of the case at hand.
        self._hot: Boxes | None = None

    @property
    def value(self) -> int:
        """Objective of the best placement; larger than every objective if there is none."""
        return self.placements.value

    @property
    def proven(self) -> bool:
        """Whether the best placement is optimal."""
        return max(self.bound, self.closed_form) >= self.value

    def run(self, start: Sequence[int | None] | None = None) -> None:
        """Search until the bound meets the placement, no progress is made, or a limit ends it."""
        self.placements.begin(start)
        if self.placements.owner is None:
            return
        self._boxes = self._boxes.narrowed(self.value)
        if self._boxes.is_empty:
            # No worker's sets can beat the placement.
            self.bound = self.value
            self.cases.append(Case([]))
            return
        if self.proven:
            return
        sums = None
        if Phase.WORKER_SUMS not in self._skip:
            sums = aggregate(self.model, self._boxes.floors, self._ceilings, self._effort)
        if sums is not None:
            self.placements.aim(sums)
        if self.proven or not self.bounds.fit(self._boxes):
            return
        self._explore(self._program(), sums)

    def _program(self) -> ShareProgram:
        """Return a linear program with the sets of all placements so far, and first cuts."""
        assert self.placements.owner is not None
        floors = self._boxes.floors
        program = ShareProgram(self.model, floors, self._effort)
        program.add_columns(self.model.sets_of(self.placements.owner))
        weights = np.ones(len(program.columns.worker))
        program.add_columns(self.placements.met())
        program.add_cuts(self._broken(program, weights, floors.astype(float)), floors)
        return program

    def _explore(self, program: ShareProgram, sums: Aggregate | None) -> None:
        """Solve the problem case by case, in depth-first order."""
        waiting = [_Open(self._boxes, self.bound)]
        stopped: list[int] = []
        while waiting and not self._effort.is_over:
            case = waiting.pop()
            solution, closed = self._bounded(program, case, sums)
            if case.path:
                split, high = case.path[-1]
                rise = (self.value if closed else self.bound) - case.bound
                self._splits.learn(split, high=high, spread=case.spread, rise=rise)
            if closed:
                continue
            chosen = self._split(program, solution)
            if chosen is None or self._effort.is_over:
                stopped.append(self.bound)
                break
            split, spread = chosen
            self.cases[-1].split = split
            for high in (True, False):
                # The last one is taken first.
                boxes = self._boxes.part(split, high=high)
                waiting.append(_Open(boxes, self.bound, (*case.path, (split, high)), spread))
        self.bound = min([self.value, *stopped, *(case.bound for case in waiting)])
        self.cases += [Case([]) for _ in waiting]

    def _split(
        self, program: ShareProgram, solution: Solution | None
    ) -> tuple[Split, float] | None:
        """Return the split of the case at hand and its spread; None if there is none."""
        if solution is None or Phase.BRANCHES in self._skip:
            return None
        return self._splits.choose(program.columns, solution)

    def _bounded(
        self, program: ShareProgram, case: _Open, sums: Aggregate | None
    ) -> tuple[Solution | None, bool]:
        """Bound a case; return the last solution of its program, and whether it is closed."""
        self._boxes, self.bound = case.boxes, case.bound
        self._hot = None
        self.cases.append(Case([]))
        if len(self.cases) > 1:
            program.restrict(case.path, self._boxes.floors)
        if sums is not None and len(self.cases) == 1:
            self._bound_by_sums(program, sums)
        if self._boxes.is_empty:
            return None, True
        solution = self._converge(program)
        self._place_finally(solution)
        return solution, self.proven

    def _bound_by_sums(self, program: ShareProgram, sums: Aggregate) -> None:
        """Bound by the shares and prices of the relaxation to sums per worker."""
        before = np.zeros(len(program.cuts.step))
        program.add_cuts(sums.cuts, self._boxes.floors)
        found = self.bounds.of(self._boxes, sums.duals, sums.cuts, _FIRST_SUMS)
        # Their cuts come after those that the program has already.
        weights = np.concatenate([before, sums.duals.cut_weights])
        program.behind = sums.duals._replace(cut_weights=weights)
        self._keep(found)
        program.add_columns(found.sets)

    def _place_finally(self, solution: Solution | None) -> None:
        """Try new placements where the program has come to its end."""
        placements = self.placements
        for turn in range(_LAST_PLACEMENTS if len(self.cases) == 1 else _CASE_PLACEMENTS):
            if self.proven or self._effort.is_over or solution is None:
                break
            assert placements.owner is not None
            again = placements.owner.copy() if turn % 2 else placements.rounded(solution)
            placements.improve(again)

    def _converge(self, program: ShareProgram) -> Solution | None:
        """Add cuts and columns until the bound meets the placement or stands, or nearly so."""
        placed, turn = -1, 0
        solution = None
        gaps: list[int] = []
        while not self.proven and not self._effort.is_over:
            solution = program.solve()
            if solution is None:
                break
            fresh = 0
            if turn == _FILL_AT and len(self.cases) == 1 and Phase.MARGINS not in self._skip:
                # Mixed sets of a worker often have one sum: then only who takes which is open.
                self.placements.fill_margins(solution.peaks, self.value - self.bound)
            if turn - placed >= _PLACE_EVERY:
                placed = turn
                self.placements.met()
                self.placements.improve(self.placements.rounded(solution))
                fresh = program.add_columns(self.placements.met(), solution)
            cuts = self._broken(program, solution.weights, solution.peaks)
            added = self._price(program, solution)
            if self.proven or (len(cuts.step) == 0 and not added and not fresh):
                break
            gaps.append(self.value - self.bound)
            if self._is_slow(program, solution, gaps):
                break
            program.drop_cuts()
            program.add_cuts(cuts, self._boxes.floors)
            program.raise_floors(self._boxes.floors)
            turn += 1
        return solution

    def _is_slow(self, program: ShareProgram, solution: Solution, gaps: list[int]) -> bool:
        """Return whether a split promises more than further rounds.

        The gap has hardly fallen in the last rounds, and part of it is above the value of the
        program, which rounds cannot reach.
        """
        if len(gaps) <= _SLOW_ROUNDS or gaps[-1] <= _SLOW_PART * gaps[-1 - _SLOW_ROUNDS]:
            return False
        left = self.value - (solution.value - self.model.goal.fixed)
        reached = _LEFT_PART * gaps[-1] < left <= gaps[-1]
        return reached and self._split(program, solution) is not None

    def _broken(self, program: ShareProgram, weights: FloatArray, peaks: FloatArray) -> Cuts:
        """Return the share inequalities that a solution violates."""
        columns, floors = program.columns, self._boxes.floors
        used = np.flatnonzero(weights > LEAST_WEIGHT)
        chosen = Columns(columns.worker[used], columns.times[used])
        workers = len(self.model.open)
        return Cuts(*broken_cuts(chosen, weights[used], peaks, floors, self._ceilings, workers))

    def _price(self, program: ShareProgram, solution: Solution) -> int:
        """Bound at smoothed duals, then at those of the solution; add the best columns."""
        if self._hot is not None:
            # Sets of the modes that looked best last are enough, as long as they are new.
            hot = replace(self._hot, floors=self._boxes.floors)
            sets = self.bounds.of(hot, solution.duals, program.cuts).sets
            added = program.add_columns(sets, solution)
            if added:
                return added
        behind, sharp = program.behind, solution.duals
        for duals in [sharp] if behind is None else [sharp.towards(behind, _SMOOTHING), sharp]:
            found = self.bounds.of(self._boxes, duals, program.cuts)
            self._hot = self._best_modes(found)
            if found.total > self.bound * self.bounds.scale:
                program.behind = duals
                self._keep(found)
                if self.proven:
                    return 0
            added = program.add_columns(found.sets, solution)
            if added:
                return added
        left = self.bounds.scale * (self.value - self.bound)
        if not self.bounds.fine and _LOST * self.bounds.lost > left:
            # Rounding up may hide what is left between bound and placement.
            self.bounds.fine = True
            return self._price(program, solution)
        return 0

    def _best_modes(self, found: Bounded) -> Boxes | None:
        """Return the modes that may have least cost; None if there are few modes anyway."""
        modes = self._boxes.modes
        if len(modes.low) <= 2 * _HOT_MODES:
            return None
        above = found.of_modes - found.least[modes.worker]
        kept = np.zeros(len(above), dtype=np.bool_)
        kept[np.argpartition(above, _HOT_MODES)[:_HOT_MODES]] = True
        return self._boxes.without(kept)

    def _keep(self, found: Bounded) -> None:
        """Keep a higher bound and the boxes that it leaves."""
        # Boxes leave out what does not beat the placement in hand, so no more is proven than that.
        self.bound = min(self.value, -(-found.total // self.bounds.scale))
        self.cases[-1].rounds.append(self.bounds.round_of(found))
        if self.proven:
            return
        self._boxes = self.bounds.left(self._boxes, found, self.value)
        if self._boxes.is_empty:
            self.bound = self.value

    def rehearse(self) -> None:
        """Call every kernel once, so that it is compiled, by a short run."""
        self.placements.rehearse()
        self._boxes.narrowed(0)
        self.cases.append(Case([]))
        program = self._program()
        solution = program.solve()
        assert solution is not None
        for fine in (True, False):
            self.bounds.fine = fine
            self._price(program, solution)
