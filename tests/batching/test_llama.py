"""Saturation of Llama-3-70B on two A100: section 5.2 (D) of the specification."""

from fractions import Fraction

import pytest

from bfio.batching.hardware import hardware
from bfio.batching.registry import build
from bfio.batching.run import BatchRun
from bfio.batching.scenario import Scenario, Serving
from bfio.batching.simulation import simulate
from formulations.stability import capacity

LLAMA = hardware("llama-3-70b-2xa100")


def run_at(
    rate: str, policy: str, *, budget: int = 512, initial: int = 0, s: int = 3600
) -> BatchRun:
    """Return a run at a given rate of requests of 129 and 112 tokens [1/s]."""
    network = LLAMA.network(rate, 129, 112, budget=budget)
    scenario = Scenario(
        network,
        Serving(build(policy), policy),
        sizes="fixed",
        initial={"1@engine": initial} if initial else {},
    )
    return simulate(scenario, seed=2, engine="compiled", horizon=s, warmup=s // 6)


def test_capacity() -> None:
    """512 tokens take 179.9 ms: 2,846.0 tokens and 11.809 requests per second."""
    network = LLAMA.network(1, 129, 112)
    assert float(capacity(network).factor) == pytest.approx(11.809, abs=0.0005)
    assert LLAMA.batch_time.slots(512) * LLAMA.slot == Fraction("0.1799")


@pytest.mark.parametrize(
    ("policy", "saturation"),
    [
        ("faster-transformer", 0.7523),
        ("faster-transformer:group=4", 0.752),
        ("faster-transformer:group=16", 2.730),
        ("faster-transformer:group=64", 7.980),
        ("faster-transformer:group=128", 9.795),
        ("faster-transformer:group=256", 11.052),
    ],
)
def test_saturation_of_faster_transformer(policy: str, saturation: float) -> None:
    """Offered 11.5 requests per second; what departs is the derived rate within 2 %."""
    throughput = run_at("11.5", policy).summary()["throughput"]
    assert throughput == pytest.approx(saturation, rel=0.02)


@pytest.mark.parametrize(
    ("policy", "budget", "saturation"),
    [
        ("vllm", 512, 10.85),
        ("vllm:limit=256", 512, 9.86),
        ("vllm", 256, 9.41),
        ("vllm:limit=128", 2048, 8.68),
    ],
)
def test_saturation_of_vllm(policy: str, budget: int, saturation: float) -> None:
    """From a large state the queue falls below the derived rate, and rises above it."""
    drifts = []
    for share in ("0.95", "1.05"):
        rate = str(Fraction(saturation).limit_denominator(1000) * Fraction(share))
        present = run_at(rate, policy, budget=budget, initial=6000).course.present.sum(axis=1)
        drifts.append(int(present[-1]) - int(present[len(present) // 3]))
    assert drifts[0] < 0 < drifts[1]


@pytest.mark.parametrize("policy", ["sarathi", "orca"])
def test_sarathi_and_orca_keep_up(policy: str) -> None:
    """At 0.95 of the capacity, where both others overflow."""
    run = run_at("11.2", policy)
    assert run.summary()["throughput"] == pytest.approx(11.2, rel=0.02)
    assert run.course.present.sum(axis=1).max() < 1000
