"""Verdicts by simulation: instances of the specification, and networks against the program."""

import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from bfio.batching.registry import build
from bfio.batching.scenario import Balancer, Scenario, Serving, with_trace
from bfio.batching.stability import Stability, drift, judge
from bfio.workloads.workload import Workload
from formulations.batching import Agent, AgentNetwork, BatchTime, Route, Stage, single_engine
from formulations.errors import InputError
from formulations.stability import Verdict, capacity, theory
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


def acyclic_network(rng: np.random.Generator) -> AgentNetwork:
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


def test_a_trace_is_judged_before_its_last_arrival() -> None:
    """After it, the queue of an overloaded trace drains as well."""
    network = replace(single_engine("1/2", 4, 4, budget=4), slot=Fraction(1))

    def served(requests: int) -> Scenario:
        sizes = np.full(requests, 4)
        return with_trace(
            Scenario(network), Workload(sizes, sizes, [Fraction(i) for i in range(requests)])
        )

    found = judge(served(2000), engine="compiled")
    assert (found.verdict, found.horizon) == (Stability.UNSTABLE, 1999)
    with pytest.raises(InputError, match="too early to judge stability"):
        judge(served(50))


@pytest.mark.parametrize("part", range(4))
def test_random_networks(part: int) -> None:
    """Away from the boundary the load condition is what long runs say."""
    rng = np.random.default_rng(part)
    for _ in range(_NETWORKS // 4):
        network = acyclic_network(rng)
        policy = str(rng.choice(["sarathi", "orca", "sjf", "vllm-chunked"]))
        scenario = Scenario(network, Serving(build(policy), policy))
        found = judge(scenario, horizon=4000, doublings=6, engine="compiled")
        expected = capacity(network).load_condition
        assert found.verdict is (Stability.STABLE if expected else Stability.UNSTABLE), network


POLICIES = ("sarathi", "orca", "sjf", "vllm-chunked")


def random_network(rng: np.random.Generator, load: Fraction) -> AgentNetwork:
    """Return up to three agents and two types, of which one may fork; ``load`` at the bottleneck.

    Full batches are the fastest, as Theorem 1 (b) needs it.
    """
    agents = tuple(_agent(rng, f"a{j}") for j in range(int(rng.integers(1, 4))))
    stages: list[Stage] = []
    routes: list[Route] = []
    forks = bool(rng.integers(0, 2))
    for i in range(int(rng.integers(1, 3))):
        own = [_stage(rng, f"t{i}", agents, k) for k in range(int(rng.integers(1, 4)))]
        joins = i == 0 and forks
        stages += own
        routes += _tree(rng, own) if joins else _routes(rng, own)
    fork_join = ("t0",) if forks else ()
    network = AgentNetwork(agents, tuple(stages), tuple(routes), fork_join)
    return network.scaled(load * capacity(network).factor)


def _agent(rng: np.random.Generator, name: str) -> Agent:
    while True:
        c, a, b0 = int(rng.integers(1, 5)), int(rng.integers(0, 2)), int(rng.integers(0, 5))
        time, budget = BatchTime(Fraction(c), Fraction(a), b0), int(rng.integers(2, 16))
        if time.rate_check(budget).holds:
            return Agent(name, budget, time, int(rng.integers(1, 3)))


def _stage(rng: np.random.Generator, kind: str, agents: tuple[Agent, ...], k: int) -> Stage:
    prefill, decode = (Fraction(int(x), 2) for x in rng.integers(2, 13, size=2))
    agent = agents[int(rng.integers(0, len(agents)))].name
    rate = Fraction(int(rng.integers(1, 5)) if k == 0 else 0)
    return Stage(kind, agent, prefill, decode, rate, f"{kind}-{k}")


def _tree(rng: np.random.Generator, stages: list[Stage]) -> list[Route]:
    """Every stage but the first follows one before it."""
    return [
        Route(stages[int(rng.integers(0, j))].name, stages[j].name) for j in range(1, len(stages))
    ]


def _routes(rng: np.random.Generator, stages: list[Stage]) -> list[Route]:
    """Take some of all pairs; requests depart with a chance of a quarter or more."""
    routes = []
    for stage in stages:
        for other in stages:
            if rng.random() < 0.4:
                share = Fraction(3, 4 * len(stages))
                routes.append(Route(stage.name, other.name, share))
    return routes


def simulated(seed: int) -> tuple[Stability, Stability]:
    """Return what runs show of a random network at loads of 0.8 and 1.2 of its bottleneck."""
    found = []
    for load in (Fraction(4, 5), Fraction(6, 5)):
        rng = np.random.default_rng(seed)
        network = random_network(rng, load)
        # Both loads meet the same network, policy and balancer.
        policy = POLICIES[int(rng.integers(0, len(POLICIES)))]
        balancer = (Balancer.RANDOM, Balancer.REQUESTS, Balancer.TOKENS)[int(rng.integers(0, 3))]
        known = theory(capacity(network))
        assert (known.verdict is Verdict.UNSTABLE) == (load > 1)
        assert (known.verdict in (Verdict.STABLE, Verdict.OPEN)) == (load < 1)
        scenario = Scenario(network, Serving(build(policy), policy, balancer))
        found.append(judge(scenario, seed=seed, engine="compiled").verdict)
    return found[0], found[1]


#: A request comes back three times, and |X| has the tokens of its present stage alone.
_SLOW_GROWTH = 451


@pytest.mark.parametrize("seed", [*range(4), _SLOW_GROWTH])
def test_the_load_decides(seed: int) -> None:
    """Below the capacity of the program runs are stable, above it tokens grow."""
    assert simulated(seed) == (Stability.STABLE, Stability.UNSTABLE)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4, 500))
def test_the_load_decides_deep(seed: int) -> None:
    """The same of five hundred networks."""
    assert simulated(seed) == (Stability.STABLE, Stability.UNSTABLE)
