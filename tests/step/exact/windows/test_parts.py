"""Parts of the method for windows, by hand and against enumeration."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from bfio.step.exact.effort import Effort
from bfio.step.exact.prepare import prepare_windows
from bfio.step.exact.simplex import Simplex
from bfio.step.exact.windows import search
from bfio.step.exact.windows.aggregate import aggregate
from bfio.step.exact.windows.bounds import Bounded, Bounds
from bfio.step.exact.windows.boxes import Boxes
from bfio.step.exact.windows.model import StepModel, step_model
from bfio.step.exact.windows.pricing import BLOCK, Priced, find_highest, most_units
from bfio.step.exact.windows.program import Duals, ShareProgram, Solution
from bfio.step.exact.windows.refit import refit
from bfio.step.exact.windows.shares import Columns, Cuts, rounded_weights
from bfio.step.exact.windows.solve import solve_window
from bfio.step.exact.windows.splits import Splits
from bfio.step.interval_bound import interval_bound
from formulations.arrays import IntArray
from formulations.step import StepProblem
from formulations.step.problem import Objective, geometric_weights
from tests.step.exact.windows.cases import crowded_window, optimum, small_problems

#: A worker at 10 that takes a request of 5.
ONE_OF_ONE = StepProblem(
    np.array([1]), np.array([[10]]), np.array([[5]]), objective=Objective.MAX_LOAD
)


@pytest.fixture(scope="module", autouse=True)
def _kernels() -> None:
    prepare_windows()


def models(seed: int, number: int) -> list[tuple[StepModel, int]]:
    """Return models of feasible small problems with moderate tokens, and their optima."""
    found = []
    for problem in small_problems(seed, number):
        heaviest = max(problem.base.max(), problem.contribution.max(initial=0))
        best = optimum(problem)
        if best is None or heaviest > 10**6 or problem.num_admitted == 0:
            continue
        model = step_model(problem)
        boxes = Boxes.of(model)
        if boxes is not None and not boxes.is_empty:
            found.append((model, best))
    return found


def boxes_of(model: StepModel) -> Boxes:
    """Return all modes of a problem that has not too many."""
    boxes = Boxes.of(model)
    assert boxes is not None
    return boxes


def _halves(*weights: float) -> Solution:
    """Return a solution of columns of two workers, two of each."""
    nothing = np.zeros(0)
    duals = Duals(nothing, nothing, 0.0)
    return Solution(0.0, nothing, np.array(weights), duals, nothing, [])


def test_splits_learn_which_workers_raise_bounds() -> None:
    """The load that differs most is split first, later one where both parts rose."""
    problem = StepProblem(np.array([1, 1]), np.array([[10], [10]]), np.array([[1], [9], [1], [7]]))
    model = step_model(problem)
    splits = Splits(model)
    columns = Columns(np.array([0, 0, 1, 1]), np.array([[11], [19], [11], [17]]))
    chosen = splits.choose(columns, _halves(0.5, 0.5, 0.5, 0.5))
    # Half the time 11, half 19: 4 from the mean of 15, and a level of the peak costs 2.
    assert chosen == ((0, 0, 15), 8.0)
    splits.learn(chosen[0], high=False, spread=8.0, rise=80)
    splits.learn(chosen[0], high=True, spread=8.0, rise=0)
    again = splits.choose(columns, _halves(0.5, 0.5, 0.5, 0.5))
    assert again == ((1, 0, 14), 6.0)
    splits.learn(chosen[0], high=True, spread=8.0, rise=160)
    assert splits.choose(columns, _halves(0.5, 0.5, 0.5, 0.5)) == chosen
    assert splits.choose(columns, _halves(1, 0, 0.5, 0.5)) == again
    assert splits.choose(columns, _halves(1, 0, 0, 1)) is None


def test_sums_per_worker_bound_every_problem() -> None:
    """No bound is above the optimum; full slots give at least the interval relaxation's."""
    close = 0
    for model, best in models(11, 250):
        boxes, effort = boxes_of(model), Effort()
        sums = aggregate(model, boxes.floors, boxes.ceilings(), effort)
        if sums is None:
            continue
        bounds = Bounds(model, effort)
        bounds.fine = True
        found = bounds.of(boxes, sums.duals, sums.cuts)
        assert found.total <= bounds.scale * best
        close += 2 * found.total > bounds.scale * best
    assert close > 40
    for seed in range(6):
        problem = crowded_window(seed)
        window = step_model(problem)
        boxes, effort = boxes_of(window), Effort()
        sums = aggregate(window, boxes.floors, boxes.ceilings(), effort)
        assert sums is not None
        bounds = Bounds(window, effort)
        bounds.fine = True
        total = bounds.of(boxes, sums.duals, sums.cuts).total
        assert -(-total // bounds.scale) >= interval_bound(problem)


def test_duals_of_the_sums_stand_at_their_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among all cuts of the program they prove what they prove alone."""
    totals: list[int] = []
    bounded = Bounds.of

    def recorded(*args: Any) -> Bounded:
        found = bounded(*args)
        totals.append(found.total)
        return found

    monkeypatch.setattr(Bounds, "of", recorded)
    # The second bound is at the duals of the first, then.
    monkeypatch.setattr(search, "_SMOOTHING", 1.0)
    assert solve_window(crowded_window(0), None, Effort()) is not None
    assert totals[1] >= totals[0]


def test_the_primal_simplex_goes_on_where_the_dual_one_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the dual simplex makes but one pivot, the optimum is proven all the same."""
    problem = crowded_window(0)
    usual = solve_window(problem, None, Effort())
    whole, used = Simplex.run, []

    def run(simplex: Simplex, most: int | None = None, *, primal: bool = False) -> bool:
        used.append(primal)
        return whole(simplex, most if primal or most is None else 1, primal=primal)

    monkeypatch.setattr(Simplex, "run", run)
    found = solve_window(problem, None, Effort())
    assert any(used)
    assert usual is not None
    assert found is not None
    assert found.proven
    assert found.objective == usual.objective


def test_tables_of_32_bits_lose_what_they_say() -> None:
    """A bound from rounded values is below that from exact ones, by less than ``lost``."""
    lost = 0
    weights, scale = geometric_weights(Fraction(86, 100), 9)
    for seed in range(4):
        model = step_model(replace(crowded_window(seed), weights=weights, scale=scale))
        boxes, effort = boxes_of(model), Effort()
        sums = aggregate(model, boxes.floors, boxes.ceilings(), effort)
        assert sums is not None
        bounds = Bounds(model, effort)
        coarse = bounds.of(boxes, sums.duals, sums.cuts).total
        said = bounds.lost
        bounds.fine = True
        exact = bounds.of(boxes, sums.duals, sums.cuts).total
        assert exact - said <= coarse <= exact
        lost += coarse < exact
    assert lost > 0


def test_a_bound_leaves_whatever_beats_the_placement() -> None:
    """The loads of an optimum stay in the boxes as long as its objective is below the value."""
    for model, best in models(12, 150):
        boxes, effort = boxes_of(model).narrowed(best + 1), Effort()
        sums = aggregate(model, boxes.floors, boxes_of(model).ceilings(), effort)
        if sums is None:
            continue
        bounds = Bounds(model, effort)
        found = bounds.of(boxes, sums.duals, sums.cuts)
        left = bounds.left(boxes, found, best + 1)
        assert not left.is_empty
        again = bounds.of(left, sums.duals, sums.cuts)
        assert found.total <= again.total <= bounds.scale * best


def test_sums_that_cost_too_much_alone_are_left_out() -> None:
    """Of each mode the sums up to the last are left at which its peaks alone beat the value."""
    for model, best in models(13, 60):
        boxes = boxes_of(model)
        goal, modes, H1 = model.goal, boxes.modes, boxes.modes.loads.shape[1]
        if len(goal.pays) > H1:
            continue
        marked = replace(boxes, modes=modes._replace(weight=np.arange(len(modes.low))))
        narrowed = marked.narrowed(best + 1).modes
        left = dict(zip(narrowed.weight.tolist(), narrowed.high.tolist(), strict=True))
        total = boxes._largest_total()  # noqa: SLF001
        for m in range(len(modes.low)):
            tau = model.workers.token_time[modes.worker[m]]
            sums = np.arange(modes.low[m], modes.high[m] + 1)[:, None]
            costs = np.maximum(tau * (modes.loads[m] + sums), boxes.floors) @ goal.pays
            within = sums[costs - goal.fixed - total <= best, 0]
            assert left.get(m) == (within[-1] if len(within) else None)


def test_largest_entries_of_ranges() -> None:
    """The largest entry of the blocks that hold a range, however many these are."""
    rng = np.random.default_rng(14)
    row = rng.integers(0, 1000, 9 * BLOCK + 5).astype(np.int32)
    sizes = np.array([0])
    blocks = len(row) // BLOCK + 1
    tables = np.zeros((1, 2, len(row)), np.int32)
    highest = np.zeros((1, 2, blocks.bit_length(), blocks), np.int32)
    priced = Priced(sizes, sizes[None], np.zeros((1, 1), np.int32), 0, tables, highest, sizes)
    find_highest(row, highest[0, 1])
    for first in range(0, len(row), 30):
        for last in range(first, len(row), 30):
            inside = row[first // BLOCK * BLOCK : (last // BLOCK + 1) * BLOCK]
            assert most_units(priced, 0, 1, first, last) == inside.max()


def placed_sums(model: StepModel, owner: IntArray) -> tuple[int, list[int]]:
    """Return the objective of a placement and how many requests each worker has."""
    value = model.problem.objective_value(model.assignment(owner))
    return value, [int((owner == k).sum()) for k in range(len(model.open))]


def first_placement(model: StepModel, rng: np.random.Generator) -> IntArray:
    """Return a random placement with the number of admissions that the problem requires."""
    owner = np.full(len(model.order), -1, dtype=np.int64)
    slots = np.repeat(np.arange(len(model.open)), model.workers.slots)
    chosen = rng.permutation(len(owner))[: model.problem.num_admitted]
    owner[chosen] = rng.permutation(slots)[: len(chosen)]
    return owner


def test_one_worker_and_the_pool_are_dealt_out_best() -> None:
    """With one open worker the best set of its number is found, for every objective."""
    rng = np.random.default_rng(4)
    for k in range(60):
        N, H = int(rng.integers(2, 8)), int(rng.integers(0, 4))
        slots = int(rng.integers(1, N + 1))
        sizes = rng.integers(0, 20, (N, 1))
        problem = StepProblem(
            np.array([slots, 0]),
            rng.integers(0, 60, (2, H + 1)),
            sizes + np.arange(H + 1),
            objective=list(Objective)[k % len(Objective)],
        )
        model = step_model(problem)
        owner = first_placement(model, rng)
        spent = np.zeros(1, dtype=np.int64)
        value = refit(model.requests, model.workers, model.goal, owner, model.admits_all, spent)
        assert (value, [slots]) == placed_sums(model, owner)
        choices = [
            problem.objective_value(tuple(0 if i in chosen else None for i in range(N)))
            for chosen in combinations(range(N), slots)
        ]
        assert value == min(choices)


def test_dealing_out_never_makes_a_placement_worse() -> None:
    """Numbers stay, limits hold where they held, and the objective told is that of the answer."""
    rng = np.random.default_rng(5)
    better = 0
    for model, best in models(13, 250):
        owner = first_placement(model, rng)
        required = model.requests.required
        if (required & (owner < 0)).any():
            continue
        loads = model.workers.base.copy()
        np.add.at(loads, owner[owner >= 0], model.requests.rows[owner >= 0])
        if (loads > model.workers.limit[:, None]).any():
            continue
        before, numbers = placed_sums(model, owner)
        spent = np.zeros(1, dtype=np.int64)
        value = refit(model.requests, model.workers, model.goal, owner, model.admits_all, spent)
        assert (value, numbers) == placed_sums(model, owner)
        assert best <= value <= before
        assert not (required & (owner < 0)).any()
        better += value < before
    assert better > 10


def test_more_requests_wait_than_a_table_can_name() -> None:
    """The only request of 3 tokens stands behind 70,000 of one: the objective told is true."""
    sizes = np.ones((70_001, 1), dtype=np.int64)
    sizes[-1] = 3
    model = step_model(StepProblem(np.array([1, 0]), np.array([[10], [13]]), sizes))
    owner, spent = np.full(len(sizes), -1), np.zeros(1, dtype=np.int64)
    owner[0] = 0
    value = refit(model.requests, model.workers, model.goal, owner, model.admits_all, spent)
    assert (value, [1]) == placed_sums(model, owner)


def program_of_one() -> ShareProgram:
    """Return the program of `ONE_OF_ONE`, with its only set and a floor at 10."""
    model = step_model(ONE_OF_ONE)
    program = ShareProgram(model, np.array([10]), Effort())
    program.add_columns([(0, np.array([0]))])
    return program


def test_cuts_lie_above_floors_that_have_risen() -> None:
    """A cut of levels above 10 says no more of a peak that is known to reach 13."""
    program = program_of_one()
    nobody = np.zeros(1, dtype=np.int64)
    cut = Cuts(nobody, np.array([0, 1]), nobody, np.array([10]), np.array([20]))
    program.add_cuts(cut, np.array([13]))
    program.raise_floors(np.array([13]))
    solution = program.solve()
    assert solution is not None
    assert solution.peaks == pytest.approx([15])


def test_cuts_are_dropped_only_when_idle() -> None:
    """Of two cuts the weaker goes, after some solutions, and the value stays."""
    program = program_of_one()
    step, first = np.zeros(2, dtype=np.int64), np.arange(3)
    program.add_cuts(Cuts(step, first, step, np.array([10, 10]), np.array([12, 20])), step + 10)
    for _ in range(30):
        solution = program.solve()
        assert solution is not None
        assert solution.peaks == pytest.approx([15])
        program.drop_cuts()
    assert program.cuts.to.tolist() == [20]
    assert program.cuts.first.tolist() == [0, 1]


def test_cuts_of_the_best_duals_stay() -> None:
    """However long they are idle; the weights of the duals stay those of the same cuts."""
    program = program_of_one()
    step, first = np.zeros(3, dtype=np.int64), np.arange(4)
    tops = np.array([12, 14, 20])
    program.add_cuts(Cuts(step, first, step, step + 10, tops), step + 10)
    # The last cut came after these duals.
    program.behind = Duals(np.zeros(1), np.array([0.0, 1.0]), 0.0)
    for _ in range(30):
        assert program.solve() is not None
        program.drop_cuts()
    assert program.cuts.to.tolist() == [14, 20]
    assert program.behind.cut_weights.tolist() == [1]


@pytest.mark.parametrize(
    ("exact", "whole", "expected"),
    [
        # 0.4 + 0.6 of a whole of 1: the unit goes to who loses most.
        ([0.4, 0.6], 1, [0, 1]),
        ([1.7, 1.6, 1.7], 5, [2, 1, 2]),
        # The whole is the limit, whatever the sum.
        ([2.0, 2.0], 3, [2, 1]),
        ([-0.5, 3.0], 4, [0, 3]),
        ([], 4, []),
    ],
)
def test_weights_keep_their_sum(exact: list[float], whole: int, expected: list[int]) -> None:
    """Rounded weights sum to the rounded sum, and to the whole at most."""
    number = len(exact)
    nobody = np.zeros(number, dtype=np.int64)
    cuts = Cuts(nobody, np.arange(number + 1), nobody, nobody, nobody + 1)
    weights = rounded_weights(cuts, np.array(exact, dtype=float), np.array([whole]))
    assert weights.tolist() == expected
