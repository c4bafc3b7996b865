"""The exact method and the heuristic against enumeration, and the command."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from bfio.pausing import fill, pack, quick_step, solve_pausing
from formulations import InputError
from formulations.pausing import (
    PausingProblem,
    Relaxation,
    brute_force,
    least_ratio,
    least_times,
    time_and_tokens,
    violations,
)
from formulations.results import Termination
from tests.cli.conftest import Bfio
from tests.cli.conftest import bfio as bfio
from tests.formulations.pausing.cases import HAND, drawn


def compare(seed: int) -> bool:
    """Compare with enumeration; return whether the heuristic was as good."""
    problem = drawn(seed)
    best, found = brute_force(problem), solve_pausing(problem)
    if best is None:
        assert found.termination is Termination.INFEASIBLE
        assert quick_step(problem) is None
        return True
    assert found.is_optimal
    assert found.objective == problem.ratio(*best[0])
    assert found.runs is not None
    assert found.assignment is not None
    assert found.time is not None
    assert found.tokens is not None
    claimed = found.time, found.tokens
    assert violations(problem, found.runs, found.assignment, claimed) == {}
    quick = quick_step(problem)
    if quick is None:
        # Only where it could not place the requests that must start.
        assert problem.must_start.any()
        return False
    assert violations(problem, *quick) == {}
    ratio = problem.ratio(*time_and_tokens(problem, *quick))
    assert ratio >= found.objective
    if not problem.num_requests or not problem.capacity.any():
        assert ratio == found.objective
    return ratio == found.objective


def test_equals_enumeration() -> None:
    """The exact method always; the heuristic without waiting requests, and mostly with them."""
    assert sum(compare(seed) for seed in range(60)) >= 50


@pytest.mark.deep
@pytest.mark.parametrize("chunk", range(10))
def test_equals_enumeration_deep(chunk: int) -> None:
    """2,000 problems."""
    assert sum(compare(seed) for seed in range(200 * chunk, 200 * chunk + 200)) >= 170


def test_steps_of_a_given_length() -> None:
    """By hand, in 22 units 12 tokens of load: 4 + 5 + 3 on worker 0, 6 on worker 1."""
    relaxation = Relaxation(PausingProblem.from_mapping(HAND))
    for made in (fill, pack):
        found = made(relaxation, 22)
        assert found is not None
        assert (found.time, found.tokens) == (22, 4)
        assert found.solution(relaxation) == ((True, True, True, False), (0,))
        assert made(relaxation, 12) is None
    # In 19 units 9: the waiting 3 goes before the 5 if the smallest go first.
    first, packed = fill(relaxation, 19), pack(relaxation, 19)
    assert first is not None
    assert packed is not None
    assert first.solution(relaxation) == ((True, True, True, False), (None,))
    assert packed.solution(relaxation) == ((True, False, True, False), (0,))


def test_at_the_size_of_a_cluster() -> None:
    """16 workers of 72 slots, five of them free: proven without a solver."""
    rng = np.random.default_rng(0)
    worker = np.repeat(np.arange(16), 72)[rng.permutation(1152)[:1147]]
    problem = PausingProblem(
        capacity=72 - np.bincount(worker, minlength=16),
        worker=worker,
        load=rng.geometric(1 / 600, 1147),
        paused=rng.integers(0, 4, 1147),
        waiting=rng.geometric(1 / 600, 128),
        max_pauses=3,
        step_overhead=48_620,
        token_time=1,
    )
    result = solve_pausing(problem, fallback=None)
    assert result.is_optimal
    assert result.rounds == 0
    everyone = problem.ratio(*time_and_tokens(problem, [True] * 1147, [None] * 128))
    assert result.objective is not None
    assert result.objective < everyone
    quick = quick_step(problem)
    assert quick is not None
    assert problem.ratio(*time_and_tokens(problem, *quick)) <= result.objective * Fraction(
        101, 100
    )


def test_what_is_open_goes_to_cp_sat() -> None:
    """Somewhere requests cannot be divided as the relaxation does: its bound is not met."""
    closed = 0
    for seed in range(200):
        problem = drawn(seed)
        own = solve_pausing(problem, fallback=None)
        if own.termination is not Termination.FEASIBLE:
            continue
        whole = solve_pausing(problem)
        assert whole.rounds > 0
        assert whole.is_optimal
        assert own.bound is not None
        assert whole.objective is not None
        assert own.bound <= whole.objective
        bound = least_ratio(least_times(Relaxation(problem)).tolist())
        assert bound is not None
        assert own.bound == bound / problem.scale
        closed += 1
        if closed == 4:
            return
    raise AssertionError("none was open")


def test_no_time_leaves_the_heuristic() -> None:
    """A feasible step, not called optimal."""
    result = solve_pausing(PausingProblem.from_mapping(HAND), time_limit=0)
    assert result.termination is Termination.TIME_LIMIT
    assert result.objective is not None
    assert result.violations == {}


def test_bad_options() -> None:
    """An unknown method, a negative limit, a seed beyond all."""
    problem = PausingProblem.from_mapping(HAND)
    for options, error in (
        ({"method": "abacus"}, "method"),
        ({"time_limit": -1.0}, "time_limit"),
        ({"seed": -1}, "seed"),
    ):
        with pytest.raises(InputError, match=error):
            solve_pausing(problem, **options)


def test_the_command(bfio: Bfio, tmp_path: Path) -> None:
    """The hand-worked step, as text and as a document; that nothing fits is an answer."""
    path = tmp_path / "step.json"
    path.write_text(json.dumps(HAND))
    shown = bfio("pause", str(path))
    assert shown.status == 0
    assert "5.5 s per token, bound 5.5" in shown.out
    assert "rest: 3; start: 0->0" in shown.out
    assert "bound 5.5 s per token, no solution" in bfio("pause", str(path), "--method", "lp").out
    answer = bfio("pause", str(path), "--json").json
    assert answer["exact"] == {"objective": "11/2", "bound": "11/2"}
    assert answer["actions"] == ["keep", "keep", "keep", "pause"]
    assert (answer["assignment"], answer["frozen_workers"]) == ([0], [])
    path.write_text(json.dumps(HAND | {"required": [True], "token_capacity": [11, 30]}))
    done = bfio("pause", str(path), "--json")
    assert (done.status, done.json["termination"]) == (0, "infeasible")
    path.write_text(json.dumps(HAND | {"max_pauses": -1}))
    done = bfio("pause", str(path))
    assert (done.status, done.err.count("\n")) == (2, 1)
