"""The small counterexamples of the specification, section 5.2: t = 1 slot, b = 10."""

from fractions import Fraction

import numpy as np
import pytest

from bfio.batching.registry import build
from bfio.batching.run import BatchRun, run_figure
from bfio.batching.scenario import Scenario, Serving, reasons, remarks
from bfio.batching.simulation import simulate
from bfio.batching.tallies import DEPARTED
from bfio.common.statistics import half_width
from formulations.batching import BatchTime, single_engine
from formulations.batching.network import Agent

#: λ, v_p, v_d of the instances, and a slot's Bernoulli arrivals.
A, B, C = ("0.6", 1, 12), ("0.3", 10, 10), ("0.5", 1, 9)


def run_of(instance: tuple[str, int, int], policy: str, slots: int = 300_000) -> BatchRun:
    """Return a long run of one engine with a budget of 10, every batch in one slot."""
    network = single_engine(*instance, budget=10)
    scenario = Scenario(
        network, Serving(build(policy), policy), sizes="fixed", arrivals="bernoulli"
    )
    return simulate(scenario, seed=1, engine="compiled", horizon=slots, warmup=slots // 10)


def rate_of(run: BatchRun) -> tuple[float, float]:
    """Return departures per slot, and half the width of their interval."""
    blocks = run.measured(run.course.departed), run.measured(run.course.slot)
    half = half_width(*blocks)
    assert half is not None
    return int(run.tallies.run[DEPARTED]) / run.tallies.slot, half


@pytest.mark.parametrize(
    ("instance", "policy", "saturation"),
    [
        # vLLM: prefills take the slots with an arrival, decodes P(a = 0)·b / m_d = 4/12.
        (A, "vllm", Fraction(1, 3)),
        # FasterTransformer: a batch of one prompt and ten decode batches for each request.
        (B, "faster-transformer", Fraction(1, 11)),
        # K_d = 2: two decode tokens a slot, nine a request.
        (C, "sarathi:kd=2", Fraction(2, 9)),
        # In groups of one: 1 + v_d slots for each request.
        (A, "faster-transformer:group=1", Fraction(1, 13)),
    ],
)
def test_a_saturated_engine_completes_as_much_as_derived(
    instance: tuple[str, int, int], policy: str, saturation: Fraction
) -> None:
    """The rate is within the interval around the derived one, and the queue grows."""
    run = run_of(instance, policy)
    rate, half = rate_of(run)
    assert abs(rate - saturation) <= max(half, 5 / run.tallies.slot)
    assert run.course.present[-1].sum() > 0.9 * float(Fraction(instance[0]) - saturation) * 300_000


@pytest.mark.parametrize(
    ("instance", "policy"),
    [
        *((A, name) for name in ("sarathi", "orca", "faster-transformer", "vllm-chunked", "sjf")),
        *((B, name) for name in ("sarathi", "orca", "vllm", "vllm-chunked", "sjf")),
        *((C, name) for name in ("sarathi", "sarathi:kd=10", "orca:kp=10:kd=10")),
    ],
)
def test_policies_that_keep_up(instance: tuple[str, int, int], policy: str) -> None:
    """Elsewhere the same load is served: the rate is that of the arrivals, the queue short."""
    run = run_of(instance, policy)
    rate, half = rate_of(run)
    assert abs(rate - float(instance[0])) <= 3 * half
    assert run.course.present.sum(axis=1).max() < 100


def test_a_load_beyond_full_batches_may_be_stable() -> None:
    """Instance (E): c < a·b0, so that Theorem 1 (b) does not apply; batches stay small."""
    time = BatchTime(1, 1, 8)  # type: ignore[arg-type]
    network = single_engine("0.9", 3, 3, budget=16, batch_time=time)
    assert float(Fraction("0.9") * 6) > float(time.rate(16))
    scenario = Scenario(network, sizes="fixed", arrivals="bernoulli")
    run = simulate(scenario, engine="compiled", horizon=100_000)
    assert run.course.present.sum(axis=1).max() < 20
    assert "Theorem 1 (b) does not apply, loads from 16/9 to 8" in remarks(scenario)[0]
    # More than eight tokens per slot are too many for all batches.
    assert remarks(Scenario(single_engine("1.5", 3, 3, budget=16, batch_time=time))) == []


@pytest.mark.parametrize(
    ("policy", "least_prefill", "covered"),
    [
        ("sarathi", 1, True),
        ("orca:kp=10:kd=10:limit=10", 1, True),
        ("sarathi:kd=9", 1, False),
        ("sarathi:limit=9", 1, False),
        ("sarathi:kp=9", 1, False),
        # 1 + ceil(9/3) = 4 prompts of three tokens fill ten, whatever is left of the first.
        ("sarathi:kp=4", 3, True),
        ("sarathi:kp=3", 3, False),
        ("vllm", 1, False),
        ("faster-transformer", 1, False),
    ],
)
def test_when_theorem_1_applies(policy: str, least_prefill: int, covered: bool) -> None:
    """Limits must leave room for a full batch (section 8, note 9)."""
    agent = Agent("engine", 10, BatchTime(1))  # type: ignore[arg-type]
    assert (reasons(build(policy), agent, least_prefill) == []) == covered


def test_the_figure_begins_with_the_measured_time() -> None:
    """A warm-up is two states apart: no line joins them."""
    run = run_of(A, "sarathi", slots=100)
    for axes in run_figure([run]).axes:
        (line,) = axes.get_lines()
        assert np.asarray(line.get_xdata()).tolist() == list(range(10, 101))
