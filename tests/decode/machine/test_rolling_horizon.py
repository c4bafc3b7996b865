"""Compiled runs of `rolling-horizon` make the decisions of its plain statement."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode import rolling
from bfio.decode.cluster import Cluster
from bfio.decode.metrics import measure_steady
from bfio.decode.replay import run_violations
from bfio.decode.rolling import DECIDED
from bfio.decode.simulation import simulate
from bfio.testing.runs import Scenario, scenarios
from tests.decode.machine.equality import (
    assert_same_run,
    differences,
    run_compiled,
    run_reference,
)
from tests.decode.machine.test_greedy import lengths
from tests.decode.rolling.statement import stated

NAME = "rolling-horizon"


def assert_same_as_statement(scenario: Scenario, horizon: int, moves: int) -> None:
    """Assert that both engines give the same run, or that the compiled one declines."""
    chosen = scenario.options | {"dispatch": "pooled", "margin": None}
    options = dict(horizon=horizon, moves=moves)

    def statement(*decision: Any) -> int:
        free, base, running, contribution, _, count, assignment = decision
        found = stated(free, base, running, contribution, count)
        assignment[:] = [-1 if worker is None else worker for worker in found]
        return DECIDED

    given = (scenario.workload, NAME, options, scenario.cluster)
    # Before the patch: what is first compiled under it would call the statement.
    compiled = run_compiled(*given, **chosen)
    with patch.object(rolling, "plan_admissions", statement):
        reference = run_reference(*given, **chosen)
    if compiled is None:
        assert scenario.workload.prompt_tokens.max() > 10**6
    else:
        assert differences(compiled, reference) == []


@given(scenarios(), st.integers(0, 9), st.integers(1, 6))
def test_every_decision_is_the_same(scenario: Scenario, horizon: int, moves: int) -> None:
    """Any options of the engine, on any small machine: the same run, bit by bit."""
    assert_same_as_statement(scenario, horizon, moves)


@pytest.mark.deep
@given(scenarios(), st.integers(0, 9), st.integers(1, 20))
def test_thousands_of_runs_are_the_same(scenario: Scenario, horizon: int, moves: int) -> None:
    """As above, with the whole budget of examples."""
    assert_same_as_statement(scenario, horizon, moves)


@pytest.mark.parametrize("predictor", ["none", "oracle"])
def test_a_longer_run_is_the_same(predictor: str) -> None:
    """300 requests on 6 workers, a window of 20 steps; nothing is lost."""
    requests, cluster = lengths(300, seed=8), Cluster(workers=6, slots=9)
    options = dict(horizon=20, moves=500)
    run = assert_same_run(
        requests, NAME, cluster, options, pool=20, predictor=predictor, projection="growing"
    )
    assert run_violations(run, requests, cluster) == {}
    assert run.is_drained


def test_known_ends_bring_balance() -> None:
    """On 8 workers a plan with known ends has 0.55 of the imbalance of `br-h`."""
    requests = lengths(1200, seed=3)
    found = []
    for policy in ("br-h", f"{NAME}:moves=5000"):
        run = simulate(
            requests,
            policy,
            Cluster(workers=8, slots=16),
            pool=64,
            predictor="oracle",
            projection="growing",
            engine="compiled",
        )
        steady = measure_steady(run)
        assert steady is not None
        found.append(float(steady["avg_imbalance"] or 0))
    assert found[1] < 0.6 * found[0]
