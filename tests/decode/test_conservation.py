"""Conservation of work, tokens and requests in every run, for every policy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode import policy_registry as registry
from bfio.decode.cluster import Cluster
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.replay import run_violations, total_work
from bfio.decode.simulation import simulate
from bfio.testing.runs import Scenario, scenarios
from bfio.workloads.workload import Workload
from tests.decode.cases import Together, first_come, least_projected

SPECS = registry.specs()


@pytest.mark.parametrize("policy", [first_come, None, least_projected, Together()])
@given(scenario=scenarios(delays=True, prefill=True, telemetry=True))
def test_no_run_breaks_a_rule(policy: Any, scenario: Scenario) -> None:
    """The independent replay finds nothing, with or without trajectory."""
    policy = policy or scenario.erratic_policy()
    for keep in (True, False):
        run = scenario.simulate(policy, keep_trajectory=keep)
        assert run_violations(run, scenario.workload, scenario.cluster) == {}


@pytest.mark.parametrize("policy", [first_come, None, least_projected])
@given(scenario=scenarios(drained=True, delays=True, prefill=True, telemetry=True))
def test_a_drained_run_does_all_its_work(policy: Any, scenario: Scenario) -> None:
    """Sum of loads = sum of profiles and tokens = sum of outputs, in exact integers.

    Of a request whose client gives up, tokens = what it had emitted.
    """
    run = scenario.simulate(policy or scenario.erratic_policy())
    load, drift = scenario.workload, run.options.drift
    requests = zip(
        load.prompt_tokens.tolist(),
        run.start_step.tolist(),
        load.output_tokens.tolist(),
        strict=True,
    )
    gone = run.cancel_step >= 0
    assert run.completed + run.cancelled == run.num_requests
    left = load.output_tokens[gone] - run.emitted_tokens[gone]
    assert run.tokens == load.total_output_tokens - int(left.sum())
    # What grows by the step at hand weighs more or less if it was interrupted in between.
    if len(run.interruptions) == 0 and not gone.any():
        assert sum(run.total_load.tolist()) == sum(total_work(drift, *r) for r in requests)
    assert np.all(run.active > 0)


@given(scenario=scenarios(), data=st.data())
def test_a_longer_run_continues_a_shorter_one(scenario: Scenario, data: st.DataObject) -> None:
    """Cutting a run at K steps gives the first K steps of the whole run."""
    whole = scenario.simulate(scenario.erratic_policy(), steps=None)
    K = data.draw(st.integers(0, whole.steps))
    cut = scenario.simulate(scenario.erratic_policy(), steps=K)
    assert cut.steps == K
    assert np.array_equal(cut.max_load, whole.max_load[:K])
    assert np.array_equal(cut.start_s, whole.start_s[:K])


@pytest.mark.parametrize(
    ("spec", "dispatch"),
    [pytest.param(s, d, id=f"{s.name}-{d}") for s in SPECS for d in s.dispatch],
)
@pytest.mark.parametrize("options", [{}, {"predictor": "oracle", "projection": "growing"}])
def test_every_registered_policy_keeps_the_rules(
    spec: PolicySpec, dispatch: str, options: dict[str, str]
) -> None:
    """60 requests on 3 workers of 4 slots: nothing is lost and no rule is broken."""
    rng = np.random.default_rng(7)
    load = Workload(rng.integers(1, 500, 60), rng.geometric(1 / 8, 60))
    cluster = Cluster(workers=3, slots=4)
    run = simulate(
        load, spec.factory(spec.options), cluster, pool=20, dispatch=dispatch, **options
    )
    assert run.is_drained
    assert run_violations(run, load, cluster) == {}
