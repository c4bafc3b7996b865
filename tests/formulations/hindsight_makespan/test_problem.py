"""Problem data, documents and the checker, one rule at a time."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import TOKEN_TIME_S
from bfio.testing.instances import makespan_problem, makespan_problems
from formulations import CapabilityError, InputError
from formulations.hindsight_makespan import (
    MakespanObjective,
    MakespanProblem,
    list_schedule,
    objective_value,
    trajectory,
    violations,
)
from formulations.scalars import exact_rational
from tests.formulations.hindsight_makespan.cases import HAND_CHECKED

DOCUMENT: dict[str, Any] = {
    "workers": 2,
    "slots": 1,
    "requests": [{"prompt": 9, "output": 2}, {"arrival": 1, "prompt": 10, "output": 1}],
}


@given(makespan_problems())
def test_documents_read_back(problem: MakespanProblem) -> None:
    """What is written is read, exactly."""
    again = MakespanProblem.from_mapping(problem.to_mapping())
    assert again.to_mapping() == problem.to_mapping()


def test_defaults() -> None:
    """Arrival 0, published times, wall clock, no work conservation."""
    problem = MakespanProblem.from_mapping(DOCUMENT)
    assert problem.arrival.tolist() == [0, 1]
    assert (problem.objective, problem.work_conserving) == (MakespanObjective.WALL_CLOCK, False)
    # 4.8875e-3 = 391/80,000 and 1.0052490234375e-7 = 1,647/(2^14 10^6): 2^14 10^6 units a second.
    assert problem.scale == 2**14 * 10**6
    assert problem.rates == (80_076_800, 1_647)
    assert problem.token_time == Fraction(TOKEN_TIME_S).limit_denominator(10**12)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"workers": 0}, "workers"),
        ({"slots": True}, "slots"),
        ({"requests": {}}, "requests: an object"),
        ({"requests": [None]}, r"requests\[0\]: null"),
        ({"requests": [{"prompt": 1}]}, r"requests\[0\]\.output"),
        ({"requests": [{"prompt": 0, "output": 1}]}, r"requests\[0\]\.prompt"),
        ({"requests": [{"prompt": 1, "output": 3.0}]}, r"requests\[0\]\.output"),
        ({"requests": [{"prompt": 1, "output": 1, "arrival": -1}]}, r"requests\[0\]\.arrival"),
        ({"requests": [{"prompt": 1, "output": 1, "age": 1}]}, r"requests\[0\]\.age"),
        ({"surprise": 1}, "surprise"),
        ({"step_overhead": 0.5}, "step_overhead"),
        ({"token_time": "-1"}, "token_time"),
        ({"token_time": "1/0"}, "token_time"),
        ({"token_time": "nan"}, "token_time"),
        ({"token_time": "1e99"}, "token_time"),
        ({"token_time": 0, "step_overhead": 0}, "token_time"),
        ({"objective": "speed"}, "objective"),
        ({"work_conserving": None, "objective": None}, "objective: null"),
        ({"work_conserving": 1}, "work_conserving"),
        ({"objective": "imbalance", "work_conserving": False}, "work_conserving"),
    ],
)
def test_bad_documents_are_named(change: dict[str, Any], where: str) -> None:
    """Where, what, and what to do."""
    with pytest.raises(InputError, match=f"{where}.*; "):
        MakespanProblem.from_mapping(DOCUMENT | change)


def test_missing_and_ragged_fields() -> None:
    """A document without slots; arrays of different lengths; a list in place of an object."""
    with pytest.raises(InputError, match="slots: missing"):
        MakespanProblem.from_mapping({"workers": 1, "requests": []})
    with pytest.raises(InputError, match="different lengths"):
        MakespanProblem(1, 1, np.zeros(2, int), np.ones(1, int), np.ones(2, int))
    with pytest.raises(InputError, match="list"):
        MakespanProblem.from_json("[]")


@pytest.mark.parametrize(
    ("text", "value"),
    [("1/3", Fraction(1, 3)), ("0.0049", Fraction(49, 10_000)), ("1e-7", Fraction(1, 10**7))],
)
def test_exact_times(text: str, value: Fraction) -> None:
    """Fractions, decimals and exponents, without a float in between."""
    assert exact_rational(text, "t", exponents=True) == value


@pytest.mark.parametrize(("problem", "best", "starts"), HAND_CHECKED)
def test_objectives_by_hand(problem: MakespanProblem, best: int, starts: tuple[int, ...]) -> None:
    """Objectives as computed by hand next to the cases."""
    workers = [(0, 0) if problem.workers == 1 else (0, 1), (0, 0, 1)][len(starts) - 2]
    assert objective_value(problem, starts, workers) == best
    assert violations(problem, starts, workers, best) == {}


def _plain_value(problem: MakespanProblem, starts: list[int], workers: list[int]) -> Fraction:
    """Return the objective in its own unit, cell by cell."""
    ends = [k + int(o) for k, o in zip(starts, problem.output, strict=True)]
    if problem.objective is MakespanObjective.LATENCY:
        return Fraction(sum(e - int(a) for e, a in zip(ends, problem.arrival, strict=True)))
    total = Fraction(0)
    for step in range(max(ends, default=0)):
        active = [i for i in range(len(starts)) if starts[i] <= step < ends[i]]
        loads = [0] * problem.workers
        for i in active:
            loads[workers[i]] += int(problem.prompt[i]) + step - starts[i]
        if problem.objective is MakespanObjective.IMBALANCE:
            total += sum(max(loads) - load for load in loads)
        elif active:
            total += problem.step_overhead + problem.token_time * max(loads)
    return total


@given(makespan_problems(), st.data())
def test_the_objective_equals_its_definition(problem: MakespanProblem, data: Any) -> None:
    """Difference arrays against one cell after the other; gaps included."""
    starts = [int(a) + data.draw(st.integers(0, 5)) for a in problem.arrival]
    workers = [data.draw(st.integers(0, problem.workers - 1)) for _ in starts]
    value = objective_value(problem, starts, workers)
    assert Fraction(value, problem.scale) == _plain_value(problem, starts, workers)


@pytest.mark.parametrize(
    ("starts", "workers", "objective", "found"),
    [
        ((0, 0), (0, 1), 20, {}),
        ((0,), (0, 1), None, {"starts": 1}),
        ((0, 0), (0,), None, {"workers": 1}),
        ((0, 0.0), (0, 1), None, {"starts[1]": 1}),
        ((0, True), (0, 1), None, {"starts[1]": 1}),
        ((-2, 0), (0, 1), None, {"arrival[0]": 2}),
        ((0, 0), (0, 2), None, {"workers[1]": 1}),
        # Both on worker 0, of one slot, at step 0.
        ((0, 0), (0, 0), None, {"slots[0,0]": 1}),
        # One waits at step 0 although worker 1 is free.
        ((0, 1), (0, 1), None, {"work_conserving[0]": 1}),
        ((0, 0), (0, 1), 17, {"objective": 3}),
    ],
)
def test_the_checker_measures_each_violation(
    starts: Any, workers: Any, objective: int | None, found: dict[str, int]
) -> None:
    """Two requests, loads 9, 10 and 10, on two workers of one slot, work conserved."""
    problem = makespan_problem(2, 1, [(0, 9, 2), (0, 10, 1)], work_conserving=True)
    assert violations(problem, starts, workers, objective) == found


def _conserves(problem: MakespanProblem, starts: tuple[int, ...]) -> bool:
    """Whether as many requests as possible start at every step."""
    ends = [k + int(o) for k, o in zip(starts, problem.output, strict=True)]
    for step in range(max(ends, default=0)):
        running = sum(k < step < e for k, e in zip(starts, ends, strict=True))
        ready = zip(problem.arrival.tolist(), starts, strict=True)
        waiting = sum(a <= step <= k for a, k in ready)
        if starts.count(step) != min(problem.total_slots - running, waiting):
            return False
    return True


@given(makespan_problems(max_requests=3).filter(lambda p: bool(p.work_conserving)))
def test_work_conservation_is_min_of_free_and_waiting(problem: MakespanProblem) -> None:
    """For every vector of starts near the arrivals that fits the slots, each on any worker."""
    windows = [range(a, a + 4) for a in problem.arrival.tolist()]
    for starts in itertools.product(*windows):
        found = violations(problem, starts, [0] * len(starts))
        rows = list(zip(starts, problem.output.tolist(), strict=True))
        depth = [sum(k <= t < k + o for k, o in rows) for t in starts]
        if max(depth, default=0) <= problem.total_slots:
            kept = not any(name.startswith("work_conserving") for name in found)
            assert kept == _conserves(problem, starts)


@given(makespan_problems(max_requests=6))
def test_list_schedules_are_feasible_in_any_order(problem: MakespanProblem) -> None:
    """Also where work must be conserved."""
    for order in (range(problem.num_requests), range(problem.num_requests - 1, -1, -1)):
        assert violations(problem, *list_schedule(problem, list(order))) == {}


def test_arrivals_far_apart_cost_nothing() -> None:
    """Two busy steps with a billion idle steps between them; idle steps are not stored."""
    problem = makespan_problem(1, 1, [(0, 3, 1), (10**9, 4, 1)], work_conserving=True)
    path = trajectory(problem, (0, 10**9), (0, 0))
    assert (path.steps.tolist(), path.peaks.tolist()) == ([0, 10**9], [3, 4])
    assert objective_value(problem, (0, 10**9), (0, 0)) == 7


def test_endless_outputs_are_refused() -> None:
    """Before anything is allocated."""
    problem = makespan_problem(1, 1, [(0, 1, 10**9)])
    with pytest.raises(CapabilityError, match="steps"):
        objective_value(problem, (0,), (0,))
