"""Compiled runs of `br-0` and `br-h` make the same decisions as the readable heuristic."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.machine import two_stage
from bfio.decode.policies import balance_route
from bfio.decode.replay import run_violations
from bfio.step.two_stage.heuristic import two_stage_reference
from bfio.testing.runs import Scenario
from formulations.errors import InputError
from tests.decode.cases import compiled_scenarios, workload
from tests.decode.machine.equality import (
    assert_same_run,
    both_engines,
    differences,
    run_compiled,
)
from tests.decode.machine.test_greedy import lengths
from tests.pairs import pairs

NAMES = ("br-0", "br-h")


@contextmanager
def readable_heuristic() -> Iterator[None]:
    """Let the policies of the reference run decide in plain Python."""
    with patch.object(balance_route, "two_stage", two_stage_reference):
        yield


@st.composite
def policy_options(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the options that the two-stage policies read."""
    return dict(
        threshold=draw(st.integers(0, 12)),
        candidates=draw(st.none() | st.integers(1, 8)),
        alpha=draw(st.sampled_from([Fraction(0), Fraction(1), Fraction(7, 3)])),
        beta=draw(st.none() | st.sampled_from([Fraction(0), Fraction(1), Fraction(9, 2)])),
        gamma=draw(st.none() | st.sampled_from([Fraction(1), Fraction(1, 2)])),
        horizon=draw(st.none() | st.integers(0, 9)),
        key=draw(st.sampled_from(["lexicographic", "product"])),
        max_wait=draw(st.none() | st.integers(0, 6)),
    )


def assert_same_as_readable(scenario: Scenario, name: str, options: dict[str, Any]) -> None:
    """Assert that both engines give the same run, or that the compiled one declines."""
    with readable_heuristic():
        compiled, reference = both_engines(
            scenario.workload, name, scenario.cluster, options, **scenario.options
        )
    # Prompts of 10^12 tokens can overflow a score in 64 bits.
    if compiled is None:
        assert scenario.workload.prompt_tokens.max() > 10**6
    else:
        assert differences(compiled, reference) == []


@given(compiled_scenarios(), st.sampled_from(NAMES), policy_options())
def test_every_decision_is_the_same(
    scenario: Scenario, name: str, options: dict[str, Any]
) -> None:
    """Any options of policy and engine, on any small machine: the same run, bit by bit."""
    assert_same_as_readable(scenario, name, options)


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
@given(compiled_scenarios(), policy_options())
def test_thousands_of_runs_of_each_are_the_same(
    name: str, scenario: Scenario, options: dict[str, Any]
) -> None:
    """As above, with the whole budget of examples for each policy."""
    assert_same_as_readable(scenario, name, options)


LOOK_AHEAD: dict[str, dict[str, str]] = {
    "constant": {"projection": "constant"},
    "growing": {"projection": "growing"},
    "ends of all": {"projection": "constant", "predictor": "oracle", "window_knows": "all"},
    "growing with ends": {"projection": "growing", "predictor": "oracle"},
    "all known": {"projection": "growing", "predictor": "oracle", "window_knows": "all"},
}
RUNS = [f"{name} {arrivals}" for arrivals in ("pool", "timed") for name in NAMES]


@pytest.mark.parametrize(("look_ahead", "which"), pairs([*LOOK_AHEAD], RUNS, each=1))
def test_a_longer_run_is_the_same(look_ahead: str, which: str) -> None:
    """300 requests on 6 workers with a window of 20 steps."""
    name, arrivals = which.split()
    requests, cluster = lengths(300, seed=8), Cluster(workers=6, slots=9)
    options: dict[str, Any] = {**LOOK_AHEAD[look_ahead], "arrivals": arrivals}
    if arrivals == "pool":
        options["pool"] = 20
    run = assert_same_run(requests, name, cluster, **options)
    assert run_violations(run, requests, cluster) == {}
    assert run.is_drained


@pytest.mark.parametrize("horizon", [1, 2, 5, 40])
def test_windows_of_any_length_under_uneven_growth(horizon: int) -> None:
    """What ends within the window is known at every step, with increments by global step."""
    drift = Drift((0, 3, 1), DriftReading.GLOBAL_STEP)
    assert_same_run(
        lengths(150, seed=9),
        "br-h",
        Cluster(workers=4, slots=5),
        dict(horizon=horizon),
        pool=9,
        drift=drift,
        projection="growing",
        predictor="oracle",
        window_knows="all",
    )


def test_the_horizon_of_a_run_is_that_of_its_policy() -> None:
    """What is given is used and recorded, shorter or longer than the policy's own."""
    for horizon in (0, 30):
        run = assert_same_run(
            lengths(100, seed=10),
            "br-h",
            Cluster(3, 4),
            pool=9,
            horizon=horizon,
            predictor="oracle",
        )
        assert run.policy_options["horizon"] == horizon


def test_scores_that_overflow_are_left_to_the_reference() -> None:
    """The kernel gives up in the middle of a run; the reference decides in Python integers."""
    requests = workload([1] * 6 + [10**12] * 6, [1] * 12)
    options = dict(beta=Fraction(10**6))
    assert run_compiled(requests, "br-h", options, Cluster(2, 2), pool=4) is None


@pytest.mark.parametrize(("name", "value"), [("LARGEST_FACTOR", 10), ("MAX_CONTRIBUTIONS", 10)])
def test_numbers_too_large_for_the_kernels(name: str, value: int) -> None:
    """Factors or windows beyond the limits are declined before anything is computed."""
    requests = workload([1] * 6, [1] * 6)
    with patch.object(two_stage, name, value):
        assert run_compiled(requests, "br-h", None, Cluster(2, 2)) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_longer_run_with_queues_is_the_same(name: str) -> None:
    """Immediate dispatch under load, on unequal workers with memory that overflows."""
    cluster = Cluster(5, (6, 6, 6, 9, 3), memory=1500, speed=(1.0, 1.0, 1.0, 2.0, 0.5))
    requests = lengths(200, seed=4)
    requests = requests.part(requests.prompt_tokens + requests.output_tokens < 1500)
    options: dict[str, Any] = {"dispatch": "immediate", "predictor": "oracle"}
    for arrivals, pool in (("pool", 40), ("timed", 128)):
        options |= {"arrivals": arrivals, "pool": pool, "projection": "growing"}
        run = assert_same_run(requests, name, cluster, **options)
        assert run_violations(run, requests, cluster) == {}
        assert run.is_drained
        assert run.options.margin == 2


def test_immediate_dispatch_is_refused_by_every_engine() -> None:
    """Where it has no meaning, one line says why."""
    requests = workload([1] * 6, [1] * 6)
    for name in ("balance-scheduling", "rolling-horizon", "adaptive"):
        with pytest.raises(InputError, match="cannot bind a request when it arrives: it "):
            run_compiled(requests, name, None, Cluster(2, 2), dispatch="immediate")
