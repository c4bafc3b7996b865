"""BF-IO with a second objective: the first as good as ever, the second least, all counted."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio import Cluster, RunOptions, simulate, synthetic
from bfio.decode.policy_registry import check_options_are_read, choose
from bfio.decode.simulation import describe_run
from bfio.decode.state import DecodeState
from bfio.testing.instances import decode_states
from bfio.testing.states import contract_violation, make_state
from formulations.errors import InputError
from formulations.second import Second, SecondProgram, second_problem, second_value
from formulations.step import StepProblem
from formulations.step.check import brute_force
from tests.decode.cases import build
from tests.decode.policies.test_bf_io import statistics


@given(
    decode_states(max_workers=3, max_waiting=5),
    st.sampled_from(list(Second)),
    st.integers(0, 2),
    st.sampled_from([0, 0, 7]),
)
def test_the_second_objective_is_least_within_the_slack(
    s: DecodeState, name: Second, H: int, slack: int
) -> None:
    """Against enumeration, with a proof of every step that has a choice and a proven optimum."""
    policy = build(
        "bf-io",
        horizon=H,
        second=name,
        slack=slack,
        second_horizon=3,
        second_proof=10**7,
        work_limit=50_000,
    )
    answer = list(policy(s))
    assert contract_violation(s, answer) is None
    step = StepProblem.from_state(s, look_ahead=H)
    best = brute_force(step)
    assert best is not None
    window = StepProblem.from_state(s, look_ahead=3) if name is Second.WINDOW else None
    problem = second_problem(step, best[0] + slack, name, window)
    counts = statistics(policy)
    if counts["unproven_steps"]:
        return
    assert step.objective_value(answer) <= problem.most
    assert counts["second_proven_steps"] == counts["steps"]
    if counts["steps"]:
        assert (
            second_value(problem, answer) == SecondProgram.solve_by_enumeration(problem).objective
        )
        assert counts["tie_rule"] == "second"


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({"second": "window"}, 20),
        ({"second": "window", "second_horizon": 5, "horizon": 7}, 7),
        ({"second": "age"}, 0),
        ({"second_horizon": 5}, 0),
    ],
)
def test_it_asks_for_the_window_it_reads(options: dict[str, object], columns: int) -> None:
    """The engine projects loads as far as either objective looks."""
    policy = build("bf-io", **options)
    assert policy.horizon == columns


def test_a_run_says_what_its_second_objective_did() -> None:
    """Counts and times beside those of the first, and only where there is one."""
    workload, cluster = synthetic("demo", 80, seed=1), Cluster(4, 6)
    options = RunOptions(pool=20)
    plain = describe_run(simulate(workload, "bf-io", cluster, options=options))
    assert "second_proven_share" not in plain
    assert not [name for name in plain["statistics"] if "second" in name]
    run = simulate(workload, "bf-io:second=age:slack=50", cluster, options=options)
    again = simulate(workload, "bf-io:second=age:slack=50", cluster, options=options)
    assert run.statistics["second_ticks"] == again.statistics["second_ticks"]
    document = describe_run(run)
    assert document["second_proven_share"] == pytest.approx(
        run.statistics["second_proven_steps"] / run.statistics["steps"]  # type: ignore[operator]
    )
    assert int(str(run.statistics["second_changed_steps"])) > 0
    assert document["waiting_age_mean"] < plain["waiting_age_mean"]


def test_an_unproven_first_objective_leaves_the_second_unproven() -> None:
    """However well it is known what is least within the limit."""
    s = make_state([30, 20, 10], [2, 2, 2], [9, 8, 7, 7, 5, 4, 2, 1])
    for limit, proven in ((1_000_000, 1), (0, 0)):
        policy = build("bf-io", second="now", work_limit=limit, second_proof=10**6)
        policy(s)
        counts = statistics(policy)
        assert counts["proven_steps"] == proven
        assert counts["second_proven_steps"] == proven
        assert counts["tie_rule"] == ("second" if proven else "backend")


def test_a_slack_is_in_tokens_whatever_the_scale_of_the_weights() -> None:
    """With a fractional discount objectives count millionths: a 6 in place of an 8 costs 3.

    With unequal workers they count times.
    """
    s = make_state(
        [10, 12, 40],
        [1, 1, 0],
        [6, 8, 8],
        projected=[[10, 10], [12, 12], [40, 40]],
        contributions=[[6, 6], [8, 8], [8, 8]],
    )
    of_hundreds = replace(s, token_time=np.full(3, 100))
    for (slack, ages), state in product(((2, {1, 2}), (3, {0, 1})), (s, of_hundreds)):
        policy = build("bf-io", horizon=1, gamma=Fraction(1, 2), second="age", slack=slack)
        answer = list(policy(state))
        assert {i for i, g in enumerate(answer) if g is not None} == ages


def test_options_without_meaning_are_refused() -> None:
    """An unknown objective, a negative slack, and options of a policy that has no optima."""
    with pytest.raises(InputError, match="second: 'agee' is unknown; use one of none, age"):
        choose("bf-io", {"second": "agee"})
    with pytest.raises(InputError, match="slack: -1 is out of range"):
        choose("bf-io", {"slack": -1})
    with pytest.raises(InputError, match="second: br-0 reads no such option"):
        choose("br-0:second=age")
    options: list[dict[str, Any]] = [{}, {"slack": 3}, {"second_proof": 9}, {"second_horizon": 3}]
    for asked in options:
        # Beside a second objective alone: without one they would change nothing.
        given: dict[str, Any] = asked | {"second": "window"}
        usual = RunOptions(), Cluster()
        check_options_are_read([choose("bf-io", given)], given, *usual)
        with pytest.raises(InputError, match=r"reads no such option; .*bf-io"):
            check_options_are_read([choose("br-h", given)], given, *usual)
