"""Both engines give the same run: every policy with a kernel, every predictor, every option."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_registry import find
from tests.decode.cases import Scenario, compiled_scenarios
from tests.decode.machine.equality import GREEDY, OTHERS, assert_same_run
from tests.decode.machine.test_greedy import policy_options as greedy_options
from tests.decode.machine.test_greedy import supported
from tests.decode.machine.test_two_stage import policy_options as two_stage_options

LEARNERS = st.builds(
    "survival:refresh={}:refit={}:window={}:gate={}:anchor={}".format,
    st.integers(1, 9),
    st.integers(1, 7),
    st.integers(1, 20),
    st.sampled_from(["0", "1/3", "1/2", "1"]),
    st.sampled_from(["hold", "decrement"]),
) | st.builds(
    "exact-match:refresh={}:refit={}:least={}:buckets={}".format,
    st.integers(1, 9),
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(1, 4),
)
ORACLES = st.sampled_from(
    [
        "oracle",
        "noisy-oracle:0.7",
        "noisy-oracle:model=lognormal:error=1.5",
        "noisy-oracle:model=bias:error=1/2",
        "noisy-oracle:model=quantile:buckets=3",
        "noisy-oracle:model=shuffled",
    ]
)
PREDICTORS = LEARNERS | ORACLES | st.just("none")


@st.composite
def kernel_runs(draw: st.DrawFn) -> tuple[Scenario, str, PolicyOptions, dict[str, Any]]:
    """Draw a small run that is compiled: scenario, policy, its options, and the rest."""
    name = draw(st.sampled_from([*OTHERS, draw(st.sampled_from(GREEDY))]))
    scenario = draw(compiled_scenarios(small=True))
    options = supported(scenario, name)
    # The window of the policy is that of the run.
    options |= {"horizon": 0, "predictor": draw(PREDICTORS), "stragglers": draw(stragglers())}
    if name in GREEDY:
        chosen = draw(greedy_options())
    elif name in ("br-0", "br-h"):
        chosen = draw(two_stage_options())
    else:
        chosen = PolicyOptions(horizon=draw(st.integers(0, 9)), moves=draw(st.integers(1, 9)))
    cluster = scenario.cluster
    if name == "rolling-horizon":
        options |= {"delay": 0}
    if not find(name).interruptible:
        options |= {"delay": 0, "telemetry": None, "prefill": None, "overflow": "reserve"}
        options |= {"failures": "none", "cancellations": "none", "stragglers": "none"}
        slots = draw(st.integers(1, 3))
        cluster = replace(cluster, slots=slots, speed=1.0, step_overhead_s=0.3, memory=None)
    options["history"] = draw(st.none() | st.just(scenario.workload.head(9)))
    return replace(scenario, cluster=cluster, options=options), name, chosen, {}


def stragglers() -> st.SearchStrategy[Any]:
    """Draw workers that are slow for a while; mostly none is."""
    events = st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 1), st.sampled_from([0.5, 1, 3])), max_size=4
    )
    return st.just("none") | events.map(lambda rows: tuple(sorted(rows)) or "none")


def assert_same(scenario: Scenario, name: str, options: PolicyOptions, more: Any) -> None:
    assert_same_run(scenario.workload, name, scenario.cluster, options, **scenario.options)


@given(kernel_runs())
def test_both_engines_give_the_same_run(run: Any) -> None:
    """Bit by bit."""
    assert_same(*run)
