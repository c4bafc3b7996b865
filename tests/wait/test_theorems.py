"""The theorems' claims as numbers, on the golden instance and others.

Expected figures with a "±" come from another, independent simulation with as many replications;
both means may deviate, hence the factor √2 in the tolerance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from bfio.wait.arrivals import even_instance, poisson_instance, scaled, varying_instance
from bfio.wait.chains import ThresholdPolicy, nested_policy, queue_lengths
from bfio.wait.registry import build
from bfio.wait.replay import violations
from bfio.wait.run import StageRun
from bfio.wait.simulation import serve
from formulations.arrays import FloatArray
from formulations.fluid import FluidProblem, FluidWorker, RateProfile, SinusoidalRates
from formulations.thresholds import (
    NestedProblem,
    TimeVaryingProblem,
    safety_buffer,
    solve,
)
from tests.wait.cases import FOUR_LENGTHS, I0

_REPLICATIONS = 16
_LONG = pytest.mark.deep


@dataclass(frozen=True)
class Sample:
    """Figures of several runs."""

    runs: list[StageRun]

    def of(self, figure: Callable[[StageRun], float]) -> FloatArray:
        """Return a figure of each."""
        return np.array([figure(run) for run in self.runs])

    def agrees(self, figure: Callable[[StageRun], float], low: float, high: float) -> bool:
        """Return whether the mean is between two figures, within 4 standard errors."""
        values = self.of(figure)
        allowed = 4 * 2**0.5 * values.std(ddof=1) / len(values) ** 0.5
        return bool(low - allowed <= values.mean() <= high + allowed)


def sample(problem: FluidProblem, policy: str, horizon: int, runs: int = _REPLICATIONS) -> Sample:
    """Run a policy on Poisson arrivals with several seeds."""
    made = build(policy, problem)
    return Sample(
        [
            serve(
                poisson_instance(problem, horizon, seed=seed),
                made,
                horizon_s=horizon,
                engine="compiled",
            )
            for seed in range(runs)
        ]
    )


def lost(run: StageRun) -> float:
    """Return gap times horizon: stages of requests that arrived and did not complete."""
    return run.gap() * run.instance.clock.seconds(run.observed)


def latency(run: StageRun) -> float:
    """Return the mean latency [s]."""
    return float(run.latencies.mean())


def first_token(run: StageRun) -> float:
    """Return the mean time to the first token, the end of stage 1 [s]."""
    return float(run.first_token_delays().mean())


def test_even_arrivals() -> None:
    """I0, thresholds (1, 1), both classes at 1, 2, 3... s: batches of one second at the end.

    Requests of class 0 take 2 batches, of class 1 three. At T = 1000 those of 999 are open, and
    that of class 1 of 998: ``2 + 3 + 3 = 8`` stages; an instant later the pair that has come
    at T as well: 13. The first batches are shorter, so means over 1000 s are a hair below.
    """
    data, policy = even_instance(I0, 1000), build("wait:thresholds=1,1", I0)
    run = serve(data, policy, horizon_s=1000)
    assert violations(run) == {}
    assert lost(run) == pytest.approx(8)
    instant = Fraction(1, data.clock.units_per_second)
    assert lost(serve(data, policy, horizon_s=1000 + instant)) == pytest.approx(13, rel=1e-4)
    assert latency(run) == pytest.approx(2.5, abs=1e-3)
    assert first_token(run) == pytest.approx(2, abs=1e-3)
    assert (run.peak_memory, len(run.batches)) == (9, 999)
    assert run.first_token_delays(0).mean() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("horizon", "gap", "delay"),
    [
        (250, 0.279, 9.8),
        (1000, 0.123, 17.3),
        (4000, 0.066, 34.7),
        pytest.param(16000, 0.028, 60.1, marks=_LONG),
    ],
)
def test_critical_thresholds(horizon: int, gap: float, delay: float) -> None:
    """Theorem 1 with equality in (9): gap ± falls like T^(−1/2), latency ± rises like T^(1/2)."""
    found = sample(I0, "wait:thresholds=1,1", horizon)
    assert found.agrees(StageRun.gap, gap, gap)
    assert found.agrees(latency, delay, delay)
    assert max(run.peak_memory for run in found.runs) == 9


@pytest.mark.parametrize(
    ("horizon", "stages"),
    [(250, 29.5), (1000, 29.4), (4000, 28.4), pytest.param(16000, 32.4, marks=_LONG)],
)
def test_slack_thresholds(horizon: int, stages: float) -> None:
    """Theorem 1 with strict inequality: gap times T ±, latency ± and TTFT ± stay as they are.

    The bound ``Σ (l' + 1)(E[W] + n (l' + 1))`` on the first, with Kingman's on W, is 53.5.
    """
    found = sample(I0, "wait", horizon)
    assert found.agrees(lost, stages, stages)
    assert found.of(lost).mean() < 53.5
    assert found.agrees(latency, 5.57, 5.60)
    assert found.agrees(first_token, 4.58, 4.60)
    assert max(run.peak_memory for run in found.runs) == 18


@pytest.mark.parametrize(
    ("horizon", "stages"),
    [(250, 33.1), (1000, 33.4), (4000, 36.5), pytest.param(16000, 32.4, marks=_LONG)],
)
def test_nested_thresholds(horizon: int, stages: float) -> None:
    """Theorem 2 on I0 with (4, 3): gap times T ±, latency ± and TTFT ± stay as they are."""
    found = sample(I0, "nested-wait:thresholds=4,3", horizon)
    assert found.agrees(lost, stages, stages)
    assert found.agrees(latency, 6.28, 6.31)
    assert found.agrees(first_token, 4.66, 4.69)
    if horizon == 16000:
        policy = nested_policy([1, 2], [4, 3])
        assert found.agrees(lambda run: len(run.batches), 8014.6, 8014.6)
        assert found.agrees(
            lambda run: float(queue_lengths(run, policy).waiting[:, 1].mean()), 1.077, 1.077
        )


@pytest.mark.deep
@pytest.mark.parametrize(
    ("policy", "loss", "delay"), [("wait:thresholds=1,1", -0.5, 0.5), ("wait", -1.0, 0.0)]
)
def test_exponents(policy: str, loss: float, delay: float) -> None:
    """Theorem 1: slopes of ln gap and ln latency over ln T, each within 0.1 of the stated one."""
    horizons = [250, 1000, 4000, 16000]
    samples = [sample(I0, policy, horizon, runs=64) for horizon in horizons]
    for figure, slope in ((StageRun.gap, loss), (latency, delay)):
        means = [found.of(figure).mean() for found in samples]
        assert np.polyfit(np.log(horizons), np.log(means), 1)[0] == pytest.approx(slope, abs=0.1)


def test_first_come_first_served_never_catches_up() -> None:
    """Proposition 4: on I0 with memory 9 the gap of FCFS does not fall with T; WAIT's does."""
    found = sample(I0, "fcfs", 4000, runs=8)
    gaps = found.of(StageRun.gap)
    assert 0.6 <= gaps.mean() <= 0.72
    assert gaps.min() > 0.4
    assert all(run.overflows == 0 and len(run.evictions) > 1000 for run in found.runs)
    assert sample(I0, "wait:thresholds=1,1", 4000, runs=8).of(StageRun.gap).max() < 0.2


@pytest.mark.parametrize(("horizon", "share"), [(500, 0.149), (1000, 0.144), (4000, 0.140)])
def test_overload(horizon: int, share: float) -> None:
    """Proposition 1: with load 1.1 the latency ± grows in proportion to T.

    Two batches of at most 2.5 s pass per ``4/2.2`` s of arrivals: the share tends to
    ``(1 − 1.6/2.2)/2 = 0.136``.
    """
    classes = [{"rate": "2.2", "prompt": 1, "output": output} for output in (1, 2)]
    document = {"classes": classes, "d0": "1/2", "d1": "1/18", "memory": 99}
    found = sample(FluidProblem.from_mapping(document), "wait:thresholds=4,4", horizon, runs=8)
    shares = found.of(latency) / horizon
    assert shares.mean() == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("policy", ["wait", "nested-wait:thresholds=4,3", "fcfs"])
@pytest.mark.parametrize("factor", [2, 3])
def test_heavy_traffic_is_a_change_of_time(policy: str, factor: int) -> None:
    """Rates times ζ, d0, d1 and T over ζ: the same run on a clock that ticks ζ times as fast."""
    one, other = served_in_heavy_traffic(policy, factor)
    assert other.instance.clock.units_per_second == factor * one.instance.clock.units_per_second
    assert np.array_equal(one.instance.arrival, other.instance.arrival)
    assert np.array_equal(one.completion, other.completion)
    assert other.throughput() == pytest.approx(factor * one.throughput())
    assert latency(other) == pytest.approx(latency(one) / factor)


def test_heavy_traffic_where_no_clock_fits() -> None:
    """ζ = 7/5: the clocks are no multiples of each other, and times agree to some units only."""
    one, other = served_in_heavy_traffic("wait", Fraction(7, 5))
    times = [run.completion / run.instance.clock.units_per_second for run in (one, other)]
    assert np.allclose(times[0], 1.4 * times[1], atol=1e-4)
    assert latency(one) == pytest.approx(1.4 * latency(other), rel=1e-5)


def served_in_heavy_traffic(policy: str, factor: Fraction | int) -> list[StageRun]:
    """Return runs of I0 and of I0 scaled by ζ, with the same seed."""
    horizon = Fraction(300)
    return [
        serve(
            poisson_instance(problem, seconds, seed=4), build(policy, problem), horizon_s=seconds
        )
        for problem, seconds in ((I0, horizon), (scaled(I0, factor), horizon / factor))
    ]


PROFILES = [
    RateProfile((0, 30), ((1, 1), (Fraction(1, 2), 2)), period=60),  # type: ignore[arg-type]
    SinusoidalRates((1, 1), ("0.5", "0.5"), 60, (0, "0.25")),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("profile", PROFILES, ids=["steps", "sines"])
def test_rates_that_vary(profile: RateProfile | SinusoidalRates) -> None:
    """Theorem 3: thresholds that satisfy (13) keep latency bounded and memory in the buffer."""
    worker = FluidWorker(Fraction(1, 2), Fraction(1, 60), 9)
    problem = TimeVaryingProblem(1, (1, 2), profile, worker)
    least = solve(problem).thresholds
    assert least is not None
    lengths = FluidProblem(I0.classes, (worker,))
    policy = nested_policy([1, 2], least)
    delays = []
    for horizon in (500, 4000):
        buffer = safety_buffer(problem, least, duration=horizon, probability="0.01")
        assert buffer.total is not None
        runs = [
            serve(varying_instance(lengths, profile, horizon, seed=s), policy, horizon_s=horizon)
            for s in range(3)
        ]
        assert max(run.peak_memory for run in runs) <= buffer.total
        delays.append(np.mean([latency(run) for run in runs]))
    assert delays[1] == pytest.approx(delays[0], rel=0.15)


@pytest.mark.parametrize("boundaries", [(16,), (4, 16), (8, 16), (2, 4, 16)])
def test_merged_segments(boundaries: tuple[int, ...]) -> None:
    """Theorem 4: with fewer segments than lengths too, losses do not grow with T."""
    worker = FluidWorker(Fraction(1), Fraction(1, 20_000), 10**6)
    nested = NestedProblem.single_from_fluid(
        FluidProblem(FOUR_LENGTHS.classes, (worker,)), boundaries
    )
    least = solve(nested).thresholds
    assert least is not None
    policy = nested_policy(nested.group.ends, least)
    losses = []
    for horizon in (1000, 8000):
        buffer = safety_buffer(nested, least, duration=horizon, probability="0.01")
        runs = [
            serve(poisson_instance(FOUR_LENGTHS, horizon, seed=s), policy, horizon_s=horizon)
            for s in range(4)
        ]
        assert buffer.total is not None
        assert max(run.peak_memory for run in runs) <= buffer.total
        losses.append(np.mean([lost(run) for run in runs]))
    assert losses[1] < 1.5 * losses[0]


def test_memory_of_wait_is_safe_without_a_buffer() -> None:
    """With known lengths M(n) suffices for good: no batch of a long run needs more than 18."""
    policy = build("wait", I0)
    assert isinstance(policy, ThresholdPolicy)
    run = serve(poisson_instance(I0, 16000, seed=99), policy, horizon_s=16000)
    assert (run.peak_memory, run.overflows > 0) == (18, True)
