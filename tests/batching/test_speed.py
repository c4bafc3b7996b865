"""Speed of the compiled machine, and memory that does not grow with the number of slots."""

import time
import tracemalloc

import pytest

from bfio.batching.engine import compile_kernels
from bfio.batching.hardware import hardware
from bfio.batching.registry import build
from bfio.batching.scenario import Scenario, Serving
from bfio.batching.simulation import simulate
from formulations.batching import Agent, AgentNetwork, BatchTime, Route, Stage, single_engine

#: One-slot batches of ten tokens, 78 % full: the most work per slot of small engines.
ONE = Scenario(single_engine("0.6", 1, 12, budget=10), sizes="fixed", arrivals="bernoulli")


def line_of_agents(num: int, time_of: BatchTime, budget: int, sizes: int, rate: str) -> Scenario:
    """Return agents that requests pass one after the other."""
    agents = tuple(Agent(f"a{j}", budget, time_of) for j in range(num))
    stages = tuple(
        Stage("r", f"a{j}", sizes, sizes, "0" if j else rate)  # type: ignore[arg-type]
        for j in range(num)
    )
    routes = tuple(Route(stages[j].name, stages[j + 1].name) for j in range(num - 1))
    return Scenario(AgentNetwork(agents, stages, routes))


def slots_per_second(scenario: Scenario, slots: int) -> float:
    """Return slots per second of processor time, the best of three whole calls."""
    compile_kernels()
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        simulate(scenario, engine="compiled", horizon=slots * (scenario.network.slot or 1))
        best = min(best, time.process_time() - begin)
    return slots / best


@pytest.mark.deep
@pytest.mark.parametrize("policy", ["sarathi", "orca", "vllm-chunked", "faster-transformer"])
def test_five_million_slots_of_one_engine_per_second(policy: str) -> None:
    """Every slot has a batch."""
    served = Scenario(
        ONE.network, Serving(build(policy), policy), sizes="fixed", arrivals="bernoulli"
    )
    assert slots_per_second(served, 2_000_000) > 5e6


@pytest.mark.deep
def test_many_more_slots_where_batches_are_long() -> None:
    """Llama-3-70B in slots of 0.1 ms at a load of 0.9."""
    network = hardware("llama-3-70b-2xa100").network("10.6", 129, 112)
    assert slots_per_second(Scenario(network), 100_000_000) > 1e8


@pytest.mark.deep
def test_a_million_slots_of_ten_agents_per_second() -> None:
    """Batches of Llama-3-70B: of one-slot batches see below, and docs/batching.md."""
    time_of = hardware("llama-3-70b-2xa100").batch_time
    served = line_of_agents(10, time_of, 512, 120, "0.001")
    assert slots_per_second(served, 20_000_000) > 1e6


def peak_bytes(slots: int) -> int:
    """Return the most memory that a run takes, measured by Python."""
    tracemalloc.start()
    simulate(ONE, engine="compiled", horizon=slots, blocks=50)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_is_flat_in_the_horizon() -> None:
    """Ten times the slots take no more memory."""
    compile_kernels()
    short, long = peak_bytes(200_000), peak_bytes(2_000_000)
    assert long < 1.1 * short + 10**5
