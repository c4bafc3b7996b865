"""BF-IO: optimal at every step by enumeration, feasible whatever the solver does, counted."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.policies import bf_io
from bfio.decode.policies.bf_io import BACKENDS, Answer, BFIOOptions
from bfio.decode.state import DecodeState
from bfio.testing.balance import imbalance
from bfio.testing.instances import decode_states
from bfio.testing.states import contract_violation, loads_after, make_state
from formulations.results import TieRule
from formulations.step import Objective, StepProblem, solve_by_enumeration
from formulations.step.problem import geometric_weights
from tests.decode.cases import build
from tests.decode.policies.test_baselines import P1


def statistics(policy: object) -> dict[str, object]:
    """Return what the policy reports."""
    found: dict[str, object] = policy.statistics()  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_golden_p1(backend: str) -> None:
    """The unique optimum J = 2: r0 to w0, r2 and r4 to w1 (loads 58, 60, 60)."""
    policy = build("bf-io", backend=backend)
    assert list(policy(P1)) == [0, None, 1, None, 1]
    assert imbalance(loads_after(P1, policy(P1))) == 2
    assert statistics(policy)["steps"] == 2


def test_golden_p2_with_horizon() -> None:
    """P2: capacity (1, 1), H = 2: r1 to w0, r2 to w1 is the unique optimum, J = 32."""
    s = make_state(
        [50, 30],
        [1, 1],
        [20, 8, 31],
        projected=[[50, 51, 22], [30, 31, 32]],
        contributions=[[20, 21, 22], [8, 9, 10], [31, 0, 0]],
    )
    policy = build("bf-io", horizon=2, backend="cp-sat")
    assert policy.horizon == 2
    assert list(policy(s)) == [None, 0, 1]


@given(
    decode_states(max_workers=3, max_waiting=5),
    st.integers(0, 3),
    st.sampled_from([None, Fraction(43, 50)]),
    st.sampled_from(list(Objective)),
    st.sampled_from(["exact", "cp-sat"]),
)
def test_optimal_at_every_step(
    s: DecodeState, H: int, gamma: Fraction | None, objective: Objective, backend: str
) -> None:
    """The answer attains the optimum over all assignments, for each objective and window."""
    policy = build("bf-io", horizon=H, gamma=gamma, objective=objective, backend=backend)
    answer = list(policy(s))
    assert contract_violation(s, answer) is None
    columns = min(H + 1, s.projected_loads.shape[1])
    weights, scale = geometric_weights(Fraction(1) if gamma is None else gamma, columns)
    problem = StepProblem(
        s.free_slots,
        s.projected_loads[:, :columns],
        s.contributions[:, :columns],
        weights,
        scale,
        objective,
    )
    assert problem.objective_value(answer) == solve_by_enumeration(problem).objective
    counts = statistics(policy)
    assert counts["proven_steps"] == counts["steps"]
    assert counts["trivial_steps"] == 1 - int(str(counts["steps"]))


def test_steps_without_a_choice_need_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits, no slot is free, or all go to the only open worker."""

    def refuse(options: BFIOOptions) -> object:
        def solve(problem: StepProblem, start: Sequence[int | None]) -> Answer:
            raise AssertionError("the solver was called")

        return solve

    monkeypatch.setattr(bf_io, "_solver", refuse)
    policy = build("bf-io")
    assert list(policy(make_state([5, 6], [1, 1], []))) == []
    assert list(policy(make_state([5, 6], [0, 0], [3, 4]))) == [None, None]
    assert list(policy(make_state([5, 6], [0, 2], [3, 4]))) == [1, 1]
    assert statistics(policy) == {
        "backend": "exact",
        "steps": 0,
        "proven_steps": 0,
        "unproven_steps": 0,
        "trivial_steps": 3,
        "kept_steps": 0,
        "clocked_steps": 0,
        "work_limit": 1_000_000,
        "time_limit": None,
        "ticks": None,
        "max_ticks": None,
        "solve_s": 0,
        "max_solve_s": 0.0,
        "tie_rule": "lexicographic",
    }


@pytest.mark.parametrize(
    "found",
    [
        None,  # no incumbent within the limit
        (1, None, 1, 0, 1),  # three on two slots: infeasible
        (1, None, None, 0, 1),  # feasible, loads 62, 60, 60 = 4 > 2
    ],
)
def test_unproven_steps_fall_back_to_the_heuristic(
    monkeypatch: pytest.MonkeyPatch, found: tuple[int | None, ...] | None
) -> None:
    """Without a proof the better of incumbent and heuristic is used, and the step is counted."""
    answer = Answer(found, False, TieRule.LEXICOGRAPHIC)
    monkeypatch.setattr(bf_io, "_solver", lambda options: lambda problem, start: answer)
    policy = build("bf-io")
    assert list(policy(P1)) == list(build("br-0")(P1)) == [0, None, 1, None, 1]
    counts = statistics(policy)
    assert (counts["steps"], counts["proven_steps"], counts["unproven_steps"]) == (1, 0, 1)
    assert counts["tie_rule"] == "backend"


def test_a_better_incumbent_is_used_unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heuristic is not optimal here; an unproven better assignment is taken.

    Workers 10, 14 with one slot each, G = 2; sizes 9, 5, 4: worker 0 (margin 4) takes 4, then
    margin 0 everywhere: worker 1 takes the least, 5: loads 14, 19, J = 5; 9 and 5 give 19, 19.
    """
    s = make_state([10, 14], [1, 1], [9, 5, 4])
    heuristic = list(build("br-0")(s))
    assert imbalance(loads_after(s, heuristic)) == 5
    answer = Answer((0, 1, None), False, TieRule.BACKEND)
    monkeypatch.setattr(bf_io, "_solver", lambda options: lambda problem, start: answer)
    assert list(build("bf-io")(s)) == [0, 1, None]
    assert imbalance(loads_after(s, [0, 1, None])) == 0


@pytest.mark.parametrize("proven", [True, False])
def test_the_two_stage_answer_stays_among_equals(
    monkeypatch: pytest.MonkeyPatch, proven: bool
) -> None:
    """Two equal workers and sizes: whichever of the mirrored optima a solver met has no say."""
    s = make_state([10, 10], [1, 1], [6, 6, 3])
    heuristic = list(build("br-0")(s))
    mirrored = tuple(None if g is None else 1 - g for g in heuristic)
    answer = Answer(mirrored, proven, TieRule.BACKEND, ticks=7)
    monkeypatch.setattr(bf_io, "_solver", lambda options: lambda problem, start: answer)
    policy = build("bf-io")
    assert list(policy(s)) == heuristic != list(mirrored)
    counts = statistics(policy)
    assert (counts["kept_steps"], counts["ticks"], counts["max_ticks"]) == (1, 7, 7)
    assert counts["tie_rule"] == ("oldest-first" if proven else "backend")


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({}, (1_000_000, None)),
        ({"time_limit": 2.0}, (None, 2.0)),
        ({"work_limit": 5}, (5, None)),
        ({"work_limit": 5, "time_limit": 2.0}, (5, 2.0)),
    ],
)
def test_solves_stop_by_work_unless_a_time_is_given(
    given: dict[str, Any], limits: tuple[int | None, float | None]
) -> None:
    """The limits a run states are those its solver gets."""
    counts = statistics(build("bf-io", **given))
    assert (counts["work_limit"], counts["time_limit"]) == limits


def test_steps_that_the_clock_decides_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proven or not: another machine might have met another assignment."""
    answer = Answer((0, None, 1, None, 1), True, TieRule.BACKEND, is_clocked=True)
    monkeypatch.setattr(bf_io, "_solver", lambda options: lambda problem, start: answer)
    policy = build("bf-io")
    policy(P1)
    counts = statistics(policy)
    assert (counts["clocked_steps"], counts["unproven_steps"]) == (1, 0)
