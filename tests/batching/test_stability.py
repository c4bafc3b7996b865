"""Verdicts by simulation: instances of the specification, and networks against the program."""

import os
from fractions import Fraction

import numpy as np
import pytest

from bfio.batching.registry import build
from bfio.batching.scenario import Scenario, Serving
from bfio.batching.stability import Stability, drift, judge
from formulations.batching import Agent, AgentNetwork, BatchTime, Route, Stage, single_engine
from formulations.stability import capacity
from tests.batching.test_worked_instances import A, B, C

#: Random networks of the default profile, and of the long one.
_NETWORKS = 500 if os.environ.get("BFIO_TEST_PROFILE") == "deep" else 20


@pytest.mark.parametrize(
    ("instance", "policy", "verdict"),
    [
        (A, "vllm", Stability.UNSTABLE),
        (A, "sarathi", Stability.STABLE),
        (B, "faster-transformer", Stability.UNSTABLE),
        (B, "orca", Stability.STABLE),
        (C, "sarathi:kd=2", Stability.UNSTABLE),
        (C, "sarathi:kd=10", Stability.STABLE),
    ],
)
def test_instances(instance: tuple[str, int, int], policy: str, verdict: Stability) -> None:
    """Counterexamples of section 5.2 are told from policies that keep up."""
    network = single_engine(*instance, budget=10)
    scenario = Scenario(
        network, Serving(build(policy), policy), sizes="fixed", arrivals="bernoulli"
    )
    assert judge(scenario, horizon=5000, engine="compiled").verdict is verdict


@pytest.mark.parametrize("policy", ["sarathi", "orca", "sjf", "vllm-chunked"])
def test_beyond_capacity_the_drift_is_the_excess(policy: str) -> None:
    """At a load of 1.1 work-conserving policies gain λ(m_p + m_d) - b/t_b = 2 tokens a slot."""
    network = single_engine("1.1", 10, 10, budget=20)
    scenario = Scenario(network, Serving(build(policy), policy))
    found = drift(scenario, 20_000, range(8), "compiled")
    assert abs(found.mean - 2) < 3 * found.half_width
    assert found.half_width < 0.5


def random_network(rng: np.random.Generator) -> AgentNetwork:
    """Return a network without cycles, whose load is 0.5 to 0.85 or 1.15 to 1.6."""
    agents = tuple(
        Agent(f"a{j}", int(rng.integers(4, 25)), BatchTime(int(rng.integers(1, 4))))  # type: ignore[arg-type]
        for j in range(rng.integers(1, 4))
    )
    num = int(rng.integers(1, 5))
    stages = tuple(
        Stage(
            "r",
            agents[int(rng.integers(len(agents)))].name,
            Fraction(int(rng.integers(1, 9))),
            Fraction(int(rng.integers(1, 9))),
            Fraction(int(rng.integers(k == 0, 4)), 10),
            f"s{k}",
        )
        for k in range(num)
    )
    pairs = [(i, j) for i in range(num) for j in range(i + 1, num) if rng.random() < 0.4]
    routes = tuple(Route(f"s{i}", f"s{j}", Fraction(1, num)) for i, j in pairs)
    network = AgentNetwork(agents, stages, routes)
    low, high = ((0.5, 0.85), (1.15, 1.6))[int(rng.integers(2))]
    load = Fraction(float(rng.uniform(low, high))).limit_denominator(100)
    return network.scaled(capacity(network).factor * load)


@pytest.mark.parametrize("part", range(4))
def test_random_networks(part: int) -> None:
    """Away from the boundary the load condition is what long runs say."""
    rng = np.random.default_rng(part)
    for _ in range(_NETWORKS // 4):
        network = random_network(rng)
        policy = str(rng.choice(["sarathi", "orca", "sjf", "vllm-chunked"]))
        scenario = Scenario(network, Serving(build(policy), policy))
        found = judge(scenario, horizon=4000, doublings=6, engine="compiled")
        expected = capacity(network).load_condition
        assert found.verdict is (Stability.STABLE if expected else Stability.UNSTABLE), network
