"""The stated program, its vectorised form, windows, bounds, and the enumeration oracle."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.testing.instances import makespan_problem, makespan_problems
from formulations import CapabilityError
from formulations.hindsight_makespan import (
    MakespanObjective,
    MakespanProblem,
    MakespanProgram,
    brute_force,
    kinds,
    latest_starts,
    lower_bound,
    objective_value,
    violations,
)
from formulations.hindsight_makespan.bound import packing_bound, part, segments
from formulations.hindsight_makespan.program import build
from formulations.standard_form import compile_model
from tests.formulations.forms import assert_is_point, assert_same_form, assert_written_as_stated
from tests.formulations.hindsight_makespan.cases import HAND_CHECKED


@given(makespan_problems(min_requests=1, max_requests=3), st.booleans())
def test_the_vectorised_builder_writes_the_stated_program(
    problem: MakespanProblem, aggregate: bool
) -> None:
    """Every row, side, column, bound and cost of the statement, and no other."""
    assert_written_as_stated(MakespanProgram(problem, aggregate=aggregate))


def test_a_changed_statement_is_noticed() -> None:
    """The comparison is no formality: one coefficient more and it fails."""
    problem = makespan_problem(2, 1, [(0, 1, 2), (0, 2, 1)])
    model = build(problem)
    row = model.barrier[0, 1]
    row.set_value(row.body + model.x[0, 0, 0] <= 0)
    with pytest.raises(AssertionError):
        assert_same_form(MakespanProgram(problem).standard_form, compile_model(model))


@given(makespan_problems(min_requests=1, max_requests=3), st.booleans())
def test_an_optimum_is_a_point_of_the_program(problem: MakespanProblem, aggregate: bool) -> None:
    """It satisfies every row, costs what it costs, and is read back at the same cost."""
    best, starts, workers = brute_force(problem)
    program = MakespanProgram(problem, aggregate=aggregate)
    # An optimum with an idle step between busy ones has an equal without.
    assert_is_point(program, (tuple(starts), tuple(workers)), best, without="gapless")


@pytest.mark.parametrize(("problem", "best", "starts"), HAND_CHECKED)
def test_the_oracle_by_hand(problem: MakespanProblem, best: int, starts: tuple[int, ...]) -> None:
    """Optima as computed by hand next to the cases; starts are the smallest optimal ones."""
    objective, found, workers = brute_force(problem)
    assert (objective, tuple(found)) == (best, starts)
    assert violations(problem, found, workers, best) == {}


def _plain_optimum(problem: MakespanProblem, latest: list[int]) -> int:
    """Return the optimum over all starts up to ``latest`` and all workers, by the checker."""
    ranges = [range(a, last + 1) for a, last in zip(problem.arrival.tolist(), latest, strict=True)]
    places = list(itertools.product(range(problem.workers), repeat=len(latest)))
    return min(
        objective_value(problem, starts, workers)
        for starts in itertools.product(*ranges)
        for workers in places
        if not violations(problem, starts, workers)
    )


@given(makespan_problems(max_requests=2))
def test_the_oracle_and_the_windows(problem: MakespanProblem) -> None:
    """Nothing better lies beyond the oracle's horizon, and an optimum within the windows."""
    best, _, _ = brute_force(problem)
    latest = latest_starts(problem)
    assert best == _plain_optimum(problem, latest)
    assert best == _plain_optimum(problem, [last + 3 for last in latest])


def test_a_window_for_those_who_never_idle_is_too_short_for_the_wall_clock() -> None:
    """Without deferring, the first case costs 20 instead of 19, so the test detects the window."""
    problem = HAND_CHECKED[0][0]
    # a_i + ⌊R_i / m⌋ with m = 2: 0 + 1 // 2 and 0 + 2 // 2, but from the other request.
    assert _plain_optimum(problem, [0, 0]) == 20
    assert _plain_optimum(problem, latest_starts(problem)) == 19


@given(makespan_problems(max_requests=3))
def test_free_wall_clock_ignores_arrivals(problem: MakespanProblem) -> None:
    """All may start after the last arrival at no cost; with work conserved arrivals matter."""
    if problem.objective is not MakespanObjective.WALL_CLOCK or problem.work_conserving:
        return
    rows = zip(problem.prompt.tolist(), problem.output.tolist(), strict=True)
    together = makespan_problem(
        problem.workers,
        problem.slots,
        [(0, s, o) for s, o in rows],
        step_overhead=problem.step_overhead,
        token_time=problem.token_time,
        memory=problem.memory,
    )
    assert brute_force(problem)[0] == brute_force(together)[0]


@given(makespan_problems())
def test_the_combinatorial_bound_holds(problem: MakespanProblem) -> None:
    """No schedule beats it."""
    assert lower_bound(problem) <= brute_force(problem)[0]


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(5))
def test_the_bound_holds_thousands_of_times(seed: int) -> None:
    """1,000 draws each."""
    rng = np.random.default_rng(seed)
    for _ in range(1000):
        size = int(rng.integers(1, 5))
        objective = list(MakespanObjective)[rng.integers(3)]
        conserving = objective is MakespanObjective.IMBALANCE or bool(rng.integers(2))
        columns = (rng.integers(0, 3, size), rng.integers(1, 9, size), rng.integers(1, 4, size))
        problem = makespan_problem(
            int(rng.integers(1, 4)),
            int(rng.integers(1, 3)),
            list(zip(*columns, strict=True)),
            step_overhead=Fraction(int(rng.integers(0, 9))),
            objective=objective,
            work_conserving=conserving,
        )
        assert lower_bound(problem) <= brute_force(problem)[0]


def test_the_bound_by_hand() -> None:
    """Layers: heights 0..7 need two steps each for loads 8, 8, 8 on two workers: 16, not 12."""
    problem = makespan_problem(2, 1, [(0, 8, 1)] * 3)
    assert lower_bound(problem) == brute_force(problem)[0] == 16
    # Alone: 5 + 6 + 7; the drain of a long request that no division by G sees.
    assert lower_bound(makespan_problem(3, 2, [(0, 5, 3)])) == 18


def test_a_broken_bound_is_caught() -> None:
    """One more than the bound exceeds the optimum somewhere, so the tests above can fail."""
    problem = makespan_problem(2, 1, [(0, 8, 1)] * 3)
    assert lower_bound(problem) + 1 > brute_force(problem)[0]


@pytest.mark.parametrize(
    ("lengths", "machines", "bound"),
    [
        # ⌈12 / 2⌉ = 6; two of the three 4s share a machine: 8.
        ([4, 4, 4], 2, 8),
        ([9, 1, 1], 3, 9),
        # Five jobs of 2, two machines: three share one, 6.
        ([2] * 5, 2, 6),
        ([], 2, 0),
    ],
)
def test_packing(lengths: list[int], machines: int, bound: int) -> None:
    """Mean, longest, and jobs that must share."""
    assert packing_bound(np.array(lengths, dtype=np.int64), machines) == bound


def test_bounds_at_scale_are_exact_integers() -> None:
    """100,000 requests, and loads beyond any height that is counted one by one."""
    rng = np.random.default_rng(0)
    prompts, outputs = rng.integers(1, 3000, 10**5), rng.integers(1, 500, 10**5)
    rows = list(zip([0] * 10**5, prompts, outputs, strict=True))
    problem = makespan_problem(16, 72, rows)
    volume = -(-problem.work // 16)
    assert lower_bound(problem) >= volume
    huge = makespan_problem(2, 1, [(0, 10**9, 2)])
    assert lower_bound(huge) == 2 * 10**9 + 1


@given(makespan_problems())
def test_segments_never_meet(problem: MakespanProblem) -> None:
    """The optimum is the sum of the optima of the parts, where the split is claimed."""
    if problem.objective is MakespanObjective.WALL_CLOCK and not problem.work_conserving:
        return
    parts = segments(problem)
    assert sorted(i for members in parts for i in members) == list(range(problem.num_requests))
    assert brute_force(problem)[0] == sum(
        brute_force(part(problem, members))[0] for members in parts
    )


def test_kinds() -> None:
    """Alike by what matters; a kind's members open as many workers as they are."""
    rows = [(0, 1, 2), (1, 1, 2), (0, 1, 2)]
    free = makespan_problem(3, 1, rows)
    assert [kind.members for kind in kinds(free)] == [(0, 1, 2)]
    assert [kind.lanes for kind in kinds(free, aggregate=False)] == [1, 2, 3]
    conserving = makespan_problem(3, 1, rows, work_conserving=True)
    assert [(kind.members, kind.lanes) for kind in kinds(conserving)] == [((0, 2), 2), ((1,), 3)]
    latency = makespan_problem(3, 1, [(0, 1, 2), (0, 9, 2)], objective=MakespanObjective.LATENCY)
    assert [(kind.members, kind.lanes) for kind in kinds(latency)] == [((0, 1), 1)]


def test_huge_programs_are_refused() -> None:
    """Before anything is allocated."""
    problem = makespan_problem(4, 4, [(0, 1, 10**3)] * 40)
    with pytest.raises(CapabilityError, match="nonzeros"):
        _ = MakespanProgram(problem, aggregate=False).standard_form
    with pytest.raises(CapabilityError, match="schedules"):
        brute_force(problem)
    with pytest.raises(CapabilityError, match="output"):
        latest_starts(makespan_problem(4, 4, [(0, 1, 10**7)]))
