"""Theory against runs for a network with forks, loops and several types."""

from fractions import Fraction

import numpy as np
import pytest

from bfio.batching.registry import build
from bfio.batching.scenario import Balancer, Scenario, Serving
from bfio.batching.stability import Stability, judge
from formulations.stability import Verdict, capacity, theory
from tests.batching.random_networks import random_network

POLICIES = ("sarathi", "orca", "sjf", "vllm-chunked")


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
