"""Schedules by insertion against their rule, place by place, and against enumeration."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from bfio.hindsight.makespan import filling, list_interval
from bfio.hindsight.makespan.filling import Filling, filled, takes_insertions
from bfio.hindsight.makespan.search import search_form
from bfio.hindsight.makespan.solve import best_list
from bfio.testing.instances import makespan_problem, makespan_problems
from formulations.deadline import UNLIMITED, Deadline
from formulations.hindsight_makespan import (
    MakespanObjective,
    MakespanProblem,
    brute_force,
    lower_bound,
    solve_by_enumeration,
    trajectory,
    violations,
)
from formulations.hindsight_makespan.bound import part
from formulations.hindsight_makespan.problem import Schedule

#: 20 tokens below the peaks weigh as much as one above them.
_GAPS = 20


def _plain(problem: MakespanProblem, order: list[int], gaps: int) -> Schedule:
    """Try every worker and every start for one request after the other, by the checker alone."""
    per_step, per_token = problem.rates
    starts: list[int] = []
    workers: list[int] = []
    for r, i in enumerate(order):
        placed, output = part(problem, order[: r + 1]), int(problem.output[i])
        ends = [k + int(problem.output[j]) for j, k in zip(order, starts, strict=False)]
        early, late = min(starts, default=0) - output, max(ends, default=0)
        places = []
        for worker in range(problem.workers):
            for start in range(max(early, late) if not starts else early, late + 1):
                # The checker knows no steps below 0.
                shift = -min([start, *starts])
                schedule = [k + shift for k in (*starts, start)], [*workers, worker]
                if violations(_from_zero(placed), *schedule):
                    continue
                path = trajectory(placed, *schedule)
                at = np.searchsorted(path.steps, np.arange(output) + start + shift)
                below = int((path.peaks[at] - path.loads[at, worker]).sum())
                cost = per_step * len(path.steps) + per_token * int(path.peaks.sum())
                places.append((_GAPS * cost + gaps * per_token * below, worker, -start))
        _, worker, start = min(places)
        starts.append(-start)
        workers.append(worker)
    of_request = dict(zip(order, zip(starts, workers, strict=True), strict=True))
    first = min(starts) - int(problem.arrival.max())
    rows = [of_request[i] for i in range(problem.num_requests)]
    return tuple(k - first for k, _ in rows), tuple(g for _, g in rows)


def _from_zero(problem: MakespanProblem) -> MakespanProblem:
    arrival = np.zeros_like(problem.arrival)
    options = {"memory": None if problem.memory is None else problem.memory.tolist()}
    rows = zip(arrival, problem.prompt, problem.output, strict=True)
    return makespan_problem(problem.workers, problem.slots, list(rows), **options)


def _drawn(rng: np.random.Generator, size: int, most_output: int = 40) -> MakespanProblem:
    """Draw requests longer than a block, some alike; memory and overhead as it happens."""
    workers = int(rng.integers(1, 4))
    prompts, outputs = rng.integers(1, 30, size), rng.integers(1, most_output, size)
    prompts[: size // 3], outputs[: size // 3] = prompts[0], outputs[0]
    memory = None
    if rng.integers(2):
        peak = int((prompts + outputs).max())
        memory = [peak + int(rng.integers(0, 40))] * workers
        memory[-1] = int(rng.integers(1, peak)) if workers > 1 else memory[-1]
    rows = list(zip(rng.integers(0, 3, size), prompts, outputs, strict=True))
    overhead = Fraction(int(rng.choice([0, 0, 3, 100])))
    return makespan_problem(
        workers, int(rng.integers(1, 4)), rows, memory=memory, step_overhead=overhead
    )


def test_by_hand() -> None:
    """Loads 9, 10 and 10: lists start at once, 10 + 10; inserted, the tens meet, 9 + 10."""
    problem = makespan_problem(2, 1, [(0, 9, 2), (0, 10, 1)])
    schedules = list(filled(search_form(problem), UNLIMITED))
    assert best_list(problem)[0] == 20
    assert {objective for objective, _ in schedules} == {19}
    # The latest start of least price: the first request at its only one, the second beside it.
    assert schedules[0][1] == ((0, 1), (0, 1))


def test_gaps_below_the_peaks_decide_between_equal_prices() -> None:
    """Beside loads 5 and 6 a request of 4 costs nothing: the later step, or the tighter one."""
    form = search_form(makespan_problem(2, 1, [(0, 5, 2), (0, 4, 1)]))
    found = []
    for gaps in (0, 1):
        inserted = Filling(form, gaps)
        assert inserted.insert(np.array([0, 1]), UNLIMITED, 10**6)
        found.append(inserted.schedule())
    assert found == [((0, 1), (0, 1)), ((0, 0), (0, 1))]


@given(makespan_problems(min_requests=1, max_requests=4))
def test_every_schedule_is_one_and_none_beats_enumeration(problem: MakespanProblem) -> None:
    """Feasible, worth what it says, and no less than the optimum."""
    form = search_form(problem)
    if not takes_insertions(form):
        assert problem.work_conserving or problem.objective is not MakespanObjective.WALL_CLOCK
        return
    schedules = list(filled(form, UNLIMITED))
    best, _, _ = brute_force(problem) if problem.num_requests < 4 else (lower_bound(problem), 0, 0)
    assert len(schedules) == 6
    for objective, schedule in schedules:
        assert violations(problem, *schedule, objective) == {}
        assert objective >= best


@pytest.mark.parametrize("seed", range(5))
def test_insertions_take_the_cheapest_place(seed: int) -> None:
    """Bounds of blocks, growing arrays and samples change nothing of what is chosen."""
    rng = np.random.default_rng(seed)
    problem = _drawn(rng, 7)
    order = rng.permutation(7)
    for gaps in (0, 1):
        inserted = Filling(search_form(problem), gaps)
        assert inserted.insert(order, UNLIMITED, 10**9)
        assert inserted.schedule() == _plain(problem, order.tolist(), gaps)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 300))
def test_insertions_take_the_cheapest_place_in_depth(seed: int) -> None:
    """More of them, and more requests."""
    rng = np.random.default_rng(seed)
    problem = _drawn(rng, 12, most_output=60)
    order = rng.permutation(12)
    for gaps in (0, 1):
        inserted = Filling(search_form(problem), gaps)
        assert inserted.insert(order, UNLIMITED, 10**9)
        assert inserted.schedule() == _plain(problem, order.tolist(), gaps)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(20))
def test_bound_optimum_and_insertions_are_in_order(seed: int) -> None:
    """100 enumerated instances each: bound <= optimum <= every schedule by insertion."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        problem = _drawn(rng, int(rng.integers(1, 4)), most_output=4)
        optimum = solve_by_enumeration(problem).objective
        assert optimum is not None
        schedules = list(filled(search_form(problem), UNLIMITED))
        assert lower_bound(problem) <= optimum <= min(value for value, _ in schedules)


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        ({}, True),
        ({"memory": 200}, True),
        ({"work_conserving": True}, False),
        ({"objective": MakespanObjective.IMBALANCE}, False),
        ({"objective": MakespanObjective.LATENCY}, False),
        ({"token_time": Fraction(10**12), "step_overhead": Fraction(1, 999_983)}, False),
    ],
)
def test_where_insertions_are_made(rule: dict[str, object], fits: bool) -> None:
    """Only where idling is free; elsewhere the lists stand alone, as before."""
    problem = makespan_problem(2, 2, [(0, 9, 2), (3, 10, 1)], **rule)
    assert takes_insertions(search_form(problem)) is fits
    result = list_interval(problem)
    assert result.objective is not None
    assert (result.objective < best_list(problem)[0]) <= fits
    assert dict(result.violations) == {}


def test_limits_leave_the_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without time, effort or arrays there are no insertions, and no wrong ones."""
    problem = makespan_problem(2, 1, [(0, 9, 2), (0, 10, 1)])
    form = search_form(problem)
    assert list(filled(form, Deadline(0.0))) == []
    for limit in ("_MAX_EFFORT", "_MAX_CELLS", "_MAX_BLOCKS"):
        with monkeypatch.context() as patched:
            patched.setattr(filling, limit, -1)
            assert list(filled(form, UNLIMITED)) == []
            assert list_interval(problem).objective == best_list(problem)[0]
    assert list_interval(problem).objective == 19


def test_outputs_of_any_length_end() -> None:
    """A million steps are too many to look at; the answer is that of the lists."""
    problem = makespan_problem(2, 1, [(0, 9, 10**6), (0, 10, 10**6), (0, 10, 1)])
    assert list(filled(search_form(problem), UNLIMITED)) == []


def test_hundreds_of_requests_are_balanced() -> None:
    """Eight workers, peaks: certified within 8 %, where the lists leave over 20 %."""
    rng = np.random.default_rng(5)
    prompts = np.clip(rng.lognormal(np.log(800), 1.1, 512), 1, 32768).astype(np.int64)
    rows = list(zip([0] * 512, prompts, rng.geometric(1 / 100, 512), strict=True))
    problem = makespan_problem(8, 8, rows)
    result = list_interval(problem)
    assert result.gap is not None
    assert result.bound is not None
    assert result.gap < 0.08
    assert 1 - result.bound / best_list(problem)[0] > 0.2
    assert list_interval(problem).starts == result.starts
