"""Networks of the paper: Rybko–Stolyar, fork and join, engines in parallel."""

from fractions import Fraction

import numpy as np
import pytest

from bfio.batching.run import BatchRun
from bfio.batching.scenario import Balancer, Scenario, Serving
from bfio.batching.simulation import simulate
from bfio.batching.stability import Stability, judge
from formulations.batching import fork_join, rybko_stolyar, single_engine
from formulations.stability import last_stage_priority

#: Load at which the virtual station of the last stages is full: 608/1088 (section 5.3).
THRESHOLD = Fraction(608, 1088)


def rybko_stolyar_scenario(load: float, *, reverse: bool = False, backlog: int = 0) -> Scenario:
    """Return the network of section 4.3 at a load per agent, last (or first) stages first."""
    network = rybko_stolyar(Fraction(load).limit_denominator(1000) * 768 / 608)
    order = last_stage_priority(network, reverse=reverse)
    agents = {agent: Serving(priority=tuple(stages)) for agent, stages in order.items()}
    initial = {"A@1": backlog} if backlog else {}
    return Scenario(network, agents=agents, sizes="poisson", initial=initial)


def tokens_of(run: BatchRun) -> tuple[float, float]:
    """Return mean unprocessed tokens of the first and of the last tenth of a run."""
    tokens = run.course.tokens
    tenth = len(tokens) // 10
    return float(tokens[:tenth].mean()), float(tokens[-tenth:].mean())


@pytest.mark.parametrize("load", [0.45, 0.53])
def test_below_the_virtual_station_the_bad_priority_drains(load: float) -> None:
    """A backlog of 2,000 requests goes."""
    run = simulate(rybko_stolyar_scenario(load, backlog=2000), engine="compiled", horizon=60_000)
    begin, end = tokens_of(run)
    assert end < begin / 20


@pytest.mark.parametrize("load", [0.60, 0.70])
def test_above_the_virtual_station_it_grows(load: float) -> None:
    """Although no agent has a load above 0.7: the threshold 0.5588 lies between."""
    run = simulate(rybko_stolyar_scenario(load, backlog=2000), engine="compiled", horizon=60_000)
    begin, end = tokens_of(run)
    assert end > 2 * begin
    assert 0.53 < THRESHOLD < 0.60


def test_at_a_load_of_nine_tenths() -> None:
    """Figure 8: one priority overflows, at less than full use; the reverse keeps up at 0.9."""
    bad, good = (
        simulate(rybko_stolyar_scenario(0.9, reverse=reverse), engine="compiled", horizon=20_000)
        for reverse in (False, True)
    )
    use = [[agent["utilisation"] for agent in run.agent_documents()] for run in (bad, good)]
    assert bad.course.tokens[-1] > 10**6
    assert max(use[0]) < 0.8
    assert good.course.tokens.max() < 10**5
    assert use[1] == pytest.approx([0.9, 0.9], abs=0.02)


def test_the_growth_of_a_half_cycle() -> None:
    """In fluid, backlogs alternate and grow by λ/(b/544 - λ) = 4.135 in each half-cycle."""
    run = simulate(
        rybko_stolyar_scenario(0.9, backlog=4000), engine="compiled", horizon=60_000, blocks=20_000
    )
    tokens = run.course.work
    first, second = tokens[:, 1].astype(float), tokens[:, 3].astype(float)
    peaks = [float(first[: len(first)].max()), float(second.max())]
    rate = 0.9 * 768 / 608
    expected = rate / (768 / 544 - rate)
    assert expected == pytest.approx(4.135, abs=0.001)
    # The largest backlogs of both classes are successive peaks, whichever came last.
    assert max(peaks) / min(peaks) > 1.5


@pytest.mark.parametrize(
    ("load", "verdict"), [("0.8", Stability.STABLE), ("1.15", Stability.UNSTABLE)]
)
def test_fork_and_join(load: str, verdict: Stability) -> None:
    """Conjecture 1 on the network of four agents: nothing speaks against it."""
    network = fork_join(Fraction(load), [(10, 10), (5, 15), (15, 5), (12, 8)], budgets=20)
    assert judge(Scenario(network), horizon=8000, engine="compiled").verdict is verdict


def test_fork_and_join_at_high_load() -> None:
    """At 0.95 some tens of requests at each agent, at 1.05 agent 0 gains 0.05 a slot."""
    means = [(10, 10), (5, 15), (15, 5), (12, 8)]
    busy, over = (
        simulate(Scenario(fork_join(load, means, budgets=20)), engine="compiled", horizon=100_000)
        for load in ("0.95", "1.05")
    )
    assert busy.course.present.mean(axis=0).max() < 200
    assert over.course.present[-1, 0] / 100_000 == pytest.approx(0.05, rel=0.35)


def test_engines_in_parallel() -> None:
    """Proposition 1: K = 4 at 0.9; random balancing keeps most, all to one engine diverges."""
    network = single_engine("3.6", 10, 10, budget=20, engines=4)
    runs = {
        balancer: simulate(
            Scenario(network, Serving(balancer=balancer)), engine="compiled", horizon=40_000
        )
        for balancer in Balancer
    }
    mean = {name: float(np.mean(run.course.present)) for name, run in runs.items()}
    assert mean[Balancer.REQUESTS] < mean[Balancer.RANDOM] < 300
    assert mean[Balancer.TOKENS] < mean[Balancer.RANDOM]
    assert mean[Balancer.FIRST] > 10_000
