"""The decision problem behind Proposition 5: small values, and the policy without a gap."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from proofs_checks.claim import Effort
from proofs_checks.evidence import Verdict
from proofs_checks.papers.fluid.blind_throughput import (
    CLAIMS,
    Batch,
    State,
    batches,
    certified_rate,
    mean_queue,
    rounded,
    states,
    unfinished,
    values,
)
from proofs_checks.run import run_check

HALF, EIGHTEENTH = Fraction(1, 2), Fraction(1, 18)


def test_numbers_of_states_and_batches() -> None:
    """As proposition5.md counts them."""
    assert len(states(9)) == 125
    assert len(batches(9)) == 3332


def test_a_batch_by_hand() -> None:
    """Two unknown prompts pass stage 1 beside a fresh one: 5 tokens; 0, 1, 2 of them go on."""
    batch = Batch((3, 0, 1), 1, 0, 2, 0, 1)
    assert batch.tokens == 1 + 4 + 3
    assert batch.reward == 2 + 3
    assert list(batch.outcomes()) == [((2, 0, 0), 1, 4), ((2, 0, 1), 2, 4), ((2, 0, 2), 1, 4)]


@pytest.mark.parametrize("memory", [2, 3, 4])
def test_nobody_is_faster_than_the_memory(memory: int) -> None:
    """With d0 = 0 only tokens take time, so company does not help: one prompt at a time is best.

    It brings (2 + 3)/2 per 1 + 2 + 3/2 tokens or, where 3 tokens do not fit, 1 per 1 + 2.
    """
    potential = rounded(values(memory, Fraction(0), Fraction(1))[1], 10**4)
    rate = certified_rate(potential, 10**4, memory, Fraction(0), Fraction(1))
    alone = Fraction(5, 2) / Fraction(9, 2) if memory >= 3 else Fraction(1, 3)
    assert alone <= rate <= alone + Fraction(1, 1000)


@pytest.mark.parametrize(
    ("start", "token", "rate"),
    [
        (HALF, EIGHTEENTH, 4.703),
        (Fraction(1, 4), Fraction(1, 12), 4.839),
        (Fraction(1, 10), Fraction(1, 10), 4.931),
    ],
)
def test_the_optima_found_by_a_referee(start: Fraction, token: Fraction, rate: float) -> None:
    """Values computed elsewhere, to three digits."""
    potential = rounded(values(9, start, token)[1], 10**4)
    assert abs(float(certified_rate(potential, 10**4, 9, start, token)) - rate) < 6e-4


@pytest.mark.parametrize(
    ("name", "faulty"),
    [
        ("reward", lambda batch: batch.unknown + 2 * batch.last),
        ("tokens", lambda b: b.fresh + b.restarted + 3 * (b.unknown + b.known) + 3 * b.last),
    ],
)
def test_a_bound_below_what_is_reached_is_refuted(
    monkeypatch: pytest.MonkeyPatch, name: str, faulty: Any
) -> None:
    """With a stage 2 that pays 2, or a stage 1 that takes 3 tokens, the bound is too low."""
    monkeypatch.setattr(Batch, name, property(faulty))
    (claim,) = (claim for claim in CLAIMS if claim.id == "fluid.proposition5")
    assert run_check(claim, Effort.QUICK, 0).as_printed is Verdict.REFUTED


def test_a_queue_by_hand() -> None:
    """0 or 2 arrivals with 1/2 each, one leaves before: means 1, then 1 + 1/2."""
    means = mean_queue(np.array([0.5, 0, 0.5]), 1, 2)
    assert means.tolist() == [1.0, 1.5]


def test_what_has_arrived_is_unfinished_at_first() -> None:
    """After one step all arrivals wait: 2 and 3 iterations for the types, 5 in the mean."""
    left = unfinished(1, 20_000, 2, np.random.default_rng(1))
    assert abs(left.mean() - 5) < 0.1


@pytest.mark.parametrize(("tenths", "rate"), [(4, 4.81813), (10, 4.92563)])
def test_24_fifths_is_passed_at_other_durations(tenths: int, rate: float) -> None:
    """Rates of blind policies without evictions at d0 = 1/4 and 1/10, computed elsewhere."""
    start = Fraction(1, tenths)
    found, _ = values(9, start, (1 - start) / 9, evicts=False)
    assert found == pytest.approx(rate, abs=1e-5)
    assert found > 24 / 5


def test_24_fifths_is_passed_with_poisson_arrivals() -> None:
    """The policy of the program at d0 = 1/10, which reads no type and never evicts, simulated."""
    start = token = Fraction(1, 10)
    rate, potential = values(9, start, token, evicts=False)

    def gain(batch: Batch) -> float:
        after = sum(potential[s] * n / d for s, n, d in batch.outcomes())
        return batch.reward - rate * float(start + token * batch.tokens) + after

    choices: dict[State, list[Batch]] = {state: [] for state in states(9)}
    for batch in batches(9):
        if not (batch.restarted or batch.known):
            choices[batch.state].append(batch)
    # The program leaves slack at states that its best policy does not reach: take it away.
    for _ in range(60):
        potential = {s: max(map(gain, choices[s]), default=-1000.0) for s in choices}
    best = {state: max(choices[state], key=gain) for state in choices if choices[state]}
    rng, horizon, now, reward = np.random.default_rng(0), 10_000.0, 0.0, 0
    state, waiting = (0, 0, 0), 0
    while now < horizon:
        batch = best[state]
        if batch.fresh > waiting:
            now += 1
            waiting += int(rng.poisson(2))
            continue
        longer = int(rng.binomial(batch.unknown, 0.5))
        duration = float(start + token * batch.tokens)
        waiting += int(rng.poisson(2 * duration)) - batch.fresh
        reward += 2 * (batch.unknown - longer) + 3 * batch.last
        u, k, v = state
        state = (u - batch.unknown + batch.fresh, k, v - batch.last + longer)
        now += duration
    assert reward / horizon > 24 / 5
