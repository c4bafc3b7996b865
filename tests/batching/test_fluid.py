"""Fluid model and simulation: drain times, phase order, growth of the Rybko–Stolyar network."""

from itertools import pairwise

import numpy as np
import pytest

from bfio.batching.fluid import fluid_trajectory
from bfio.batching.registry import build
from bfio.batching.scenario import Scenario, Serving
from bfio.batching.simulation import simulate
from formulations.arrays import FloatArray
from formulations.batching import fork_join, single_engine
from formulations.errors import InputError
from tests.batching.test_networks import rybko_stolyar_scenario


@pytest.mark.parametrize("policy", ["sarathi", "orca"])
def test_the_drain_test(policy: str) -> None:
    """N = 1,000, b = 20, load 0.8: 20,000 tokens at 4 a slot are gone after 5,000 slots.

    Section 3, (iii): simulated runs drain at about the same time, and are fluid on the way.
    """
    scenario = Scenario(
        single_engine("0.8", 10, 10, budget=20),
        Serving(build(policy), policy),
        initial={"1@engine": 1000},
    )
    fluid = fluid_trajectory(scenario, 8000, steps=8000)
    drained = float(fluid.time[np.argmax(fluid.work.sum(axis=1) < 100)])
    assert drained == pytest.approx(20_000 / 4, rel=0.02)
    run = simulate(scenario, engine="compiled", horizon=8000, blocks=80, seed=4)
    expected = np.interp(run.course.slot, fluid.time, fluid.work.sum(axis=1))
    assert np.abs(run.course.tokens - expected).max() < 0.15 * 20_000


def test_decode_never_accumulates_where_it_comes_first() -> None:
    """Sarathi serves decode tokens first; Orca prompts, and all wait in the decode phase."""
    network = single_engine("0.8", 10, 10, budget=20)
    most = {}
    for policy in ("sarathi", "orca"):
        scenario = Scenario(network, Serving(build(policy), policy), initial={"1@engine": 1000})
        most[policy] = fluid_trajectory(scenario, 5000).decoding.max()
    assert most["sarathi"] < 5
    assert most["orca"] > 500


@pytest.mark.parametrize(("load", "grows"), [(0.5, False), (0.7, True), (0.9, True)])
def test_rybko_stolyar(load: float, grows: bool) -> None:
    """Fluid drains below the virtual station and grows above; simulated runs do the same."""
    scenario = rybko_stolyar_scenario(load, backlog=2000)
    fluid = fluid_trajectory(scenario, 30_000, steps=30_000).work.sum(axis=1)
    run = simulate(scenario, engine="compiled", horizon=30_000).course.tokens
    for tokens in (fluid, run):
        assert (tokens[-len(tokens) // 10 :].mean() > tokens[0]) == grows


def test_the_growth_factor_of_a_half_cycle() -> None:
    """At 0.9 successive peaks of the two long queues grow by 4.135: λ/(768/544 - λ)."""
    scenario = rybko_stolyar_scenario(0.9, backlog=1000)
    fluid = fluid_trajectory(scenario, 40_000, steps=40_000)
    at_first = fluid.prefilling[:, 0] + fluid.prefilling[:, 1]
    peaks = _peaks(at_first, fluid.prefilling[:, 2] + fluid.prefilling[:, 3])
    # The first peak is that of the backlog, not of a half-cycle.
    ratios = [b / a for a, b in pairwise(peaks[1:])]
    assert ratios
    assert ratios[-1] == pytest.approx(4.135, rel=0.01)


def _peaks(one: FloatArray, other: FloatArray) -> list[float]:
    """Return the largest values of two alternating queues, in the order of their times."""
    ahead = one > other
    edges = np.flatnonzero(np.diff(ahead.astype(int))) + 1
    parts = np.split(np.maximum(one, other), edges)
    return [float(part.max()) for part in parts[:-1]]


def test_what_has_no_fluid_model_here() -> None:
    """Forks, and policies that do not mix phases."""
    forks = Scenario(fork_join("0.5", [(10, 10)] * 4, budgets=20))
    vllm = Scenario(single_engine("0.5", 10, 10, budget=20), Serving(build("vllm"), "vllm"))
    for scenario in (forks, vllm):
        with pytest.raises(InputError, match=r"fluid model|mixes phases"):
            fluid_trajectory(scenario, 10)
