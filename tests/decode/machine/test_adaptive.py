"""Compiled runs of `adaptive` decide what the readable policy decides, rehearsals included."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.replay import run_violations
from tests.decode.cases import Scenario, scenarios
from tests.decode.machine.equality import assert_same_run, both_engines, differences
from tests.decode.machine.test_greedy import lengths

NAME = "adaptive"


def assert_same(scenario: Scenario, horizon: int, key: str) -> None:
    """Assert that both engines give the same run and tell the same of it, or one declines."""
    # It keeps books of requests that run to their end.
    chosen = scenario.options | {
        "dispatch": "pooled",
        "margin": None,
        "overflow": "reserve",
        "failures": "none",
        "cancellations": "none",
    }
    options = PolicyOptions(horizon=horizon, key=key)
    compiled, reference = both_engines(
        scenario.workload, NAME, scenario.cluster, options, **chosen
    )
    if compiled is None:
        cluster = scenario.cluster
        equal = cluster.keeps_one_pace and isinstance(cluster.slots, int)
        is_large = scenario.workload.prompt_tokens.max(initial=0) > 10**6
        assert is_large or not equal or cluster.memory is not None
    else:
        assert differences(compiled, reference) == []


@settings(max_examples=12)
@given(scenarios(), st.integers(0, 9), st.sampled_from(["lexicographic", "product"]))
def test_every_decision_is_the_same(scenario: Scenario, horizon: int, key: str) -> None:
    """Any options of the engine, on any small machine: the same run, bit by bit."""
    assert_same(scenario, horizon, key)


@pytest.mark.deep
@given(scenarios(), st.integers(0, 9), st.sampled_from(["lexicographic", "product"]))
def test_thousands_of_runs_are_the_same(scenario: Scenario, horizon: int, key: str) -> None:
    """As above, with the whole budget of examples."""
    assert_same(scenario, horizon, key)


@pytest.mark.parametrize("predictor", ["none", "oracle"])
def test_a_longer_run_is_the_same(predictor: str) -> None:
    """300 requests on 6 workers, many rehearsals, more than one setting; nothing is lost."""
    requests, cluster = lengths(300, seed=8), Cluster(workers=6, slots=9)
    run = assert_same_run(
        requests,
        NAME,
        cluster,
        PolicyOptions(horizon=20),
        pool=20,
        predictor=predictor,
        projection="growing",
    )
    assert run_violations(run, requests, cluster) == {}
    assert run.is_drained
    assert run.statistics["rehearsals"] > 4  # type: ignore[operator]
    assert len(run.statistics["decisions"]) > 2  # type: ignore[arg-type]
