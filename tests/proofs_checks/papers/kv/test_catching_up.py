"""The families behind Lemmas 5.5 and 5.6, by hand and by other code."""

import numpy as np
import pytest

from formulations.hindsight_latency import Convention
from proofs_checks.papers.kv.catching_up import (
    Burst,
    burst_of,
    idle_slots,
    largest_peak,
    moved,
    overloaded,
    queued,
    stream,
    verify,
    verify_queue,
    work_tail,
)
from proofs_checks.papers.kv.model import Jobs, algorithm, jobs, optima, present
from proofs_checks.search import plain


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_the_long_one_waits_for_the_whole_burst(length: int) -> None:
    """Theorem 1 of lemma5.5.md: M = 4, it starts in round L in the only optimum."""
    burst = Burst(Convention.CLOSED, 4, 1, (3,), 1, 1, 1, 1, length)
    assert algorithm(jobs(burst.problem))[0] == 0
    assert optima(jobs(burst.problem)) == [(length, *range(1, length + 1))]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_under_c_it_waits_one_round_more(length: int) -> None:
    """Two short ones a round: it starts in round L + 1."""
    burst = Burst(Convention.HALF_OPEN, 4, 1, (3,), 1, 2, 1, 1, length)
    assert burst.starts() == {length + 1}


@pytest.mark.parametrize("others", [2, 3])
@pytest.mark.parametrize("kind", [0, 1])
def test_the_shorter_one_waits_in_a_queue(kind: int, others: int) -> None:
    """lemma5.6.md: J starts in round 3 + L, whatever waits behind it."""
    assert queued(kind, others, 3).starts() == {6}


def test_convention_a_in_units_of_two() -> None:
    """J starts in round 2·(3 + 3)."""
    assert queued(2, 2, 3).starts() == {12}


def test_verifiers_want_a_burst_and_a_queue() -> None:
    """Without shorts that hurt there is nothing to report; two others must wait."""
    data = plain(queued(0, 1, 4))
    assert verify_queue(data) is None
    harmless = plain(Burst(Convention.CLOSED, 20, 1, (3,), 1, 1, 1, 1, 3))
    assert verify(harmless) is None
    with pytest.raises(ValueError, match="no burst"):
        burst_of(harmless | {"length": 2})


def test_the_move_of_the_proof_by_hand() -> None:
    """J of two slots at 5; idle 0 and 3, one request of two slots at 1: J to 0, that one to 2."""
    data = Jobs(9, (0, 1), (1, 1), (2, 2))
    starts = [5, 1]
    idle = idle_slots(data, starts, 5)
    assert idle == [0, 3, 4]
    assert moved(starts, 0, idle[:2]) == [0, 2]


def test_work_by_hand() -> None:
    """One arrival of two slots with 1/4: after one round 2 or more with 1/4 + 3/4·0."""
    law = np.array([0.75, 0.25])
    assert work_tail(law, 2, 0, 2) == 0.25
    # After one more round: 2 + 1 if both came, 2 if the second only, 1 if the first only.
    assert work_tail(law, 2, 1, 3) == pytest.approx(0.0625)
    assert work_tail(law, 2, 1, 2) == pytest.approx(0.25)


def test_tokens_and_the_largest_peak_by_hand() -> None:
    """Two slots from 2 on at 0, three from 1 on at 1: in slot 1 they hold 3 and 1."""
    data = Jobs(9, (0, 0), (2, 1), (2, 3))
    assert largest_peak(data) == 3
    assert present(data, [0, 1], 1) == [3, 1]
    assert present(data, [0, 1], 3) == [3]


@pytest.mark.parametrize(("kind", "unit"), [(0, 1), (1, 1), (2, 2)])
def test_the_long_one_waits_for_the_last_short_one(kind: int, unit: int) -> None:
    """Theorem 2 of lemma5.6.md: two short ones a round, J after all four of them."""
    rounds = ((2, 0), (2, 0))
    assert overloaded(rounds)
    data = jobs(stream(kind, rounds))
    assert algorithm(data)[0] == 0
    assert {starts[0] for starts in optima(data)} == {1 + 4 * unit}


def test_what_a_stream_must_bring() -> None:
    """It may not run out, and short ones outnumber the long ones, J among them, by two."""
    assert not overloaded(((1, 0), (0, 0), (3, 0)))
    assert overloaded(((1, 0), (0, 0), (3, 0)), behind=1)
    assert not overloaded(((2, 0),))
    assert not overloaded(((3, 1),))
