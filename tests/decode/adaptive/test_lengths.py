"""Lengths are drawn from the product-limit estimate."""

from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest

from bfio.decode.adaptive import rehearsal
from bfio.decode.adaptive.memory import (
    AHEAD_KNOWN,
    BEGUN,
    IS_OPEN,
    LEFT,
    LENGTH,
    PAST,
    PROMPT,
    RUNNING,
    Memory,
    new_memory,
)
from bfio.step.two_stage.heuristic import TwoStageParameters

RNG = np.random.default_rng(5)


def drawn(rows: list[tuple[int, int, bool]], step: int = 0, begun: int = 0) -> Memory:
    """Return a memory with requests drawn from (prompt, length so far, whether it goes on)."""
    kept = new_memory(1, 600, 0, 1, TwoStageParameters())
    counts, past = kept.seen.counts, kept.scene.past
    counts[PAST], counts[RUNNING] = len(rows), 600
    for column, (prompt, length, is_open) in enumerate(rows):
        past[[PROMPT, LENGTH, IS_OPEN], column] = prompt, length, is_open
    kept.scene.running[BEGUN] = begun
    draw(kept, step)
    return kept


def draw(kept: Memory, step: int) -> int:
    """Draw lengths, by a generator that plain Python can call."""
    with patch.object(rehearsal, "random_below", lambda _, bound: int(RNG.integers(bound))):
        return rehearsal.draw_lengths(kept, step)


def test_who_still_runs_hands_its_chance_on() -> None:
    """Ended after 1 and 3, open at 2: 1 with probability 1/3, 3 with 2/3."""
    kept = drawn([(10, 3, False), (20, 1, False), (30, 2, True)])
    found = Counter(kept.drawn.output.tolist())
    assert set(found) == {1, 3}
    assert found[1] / len(kept.drawn.output) == pytest.approx(1 / 3, abs=0.05)
    by_prompt = {p: set(kept.drawn.output[kept.drawn.prompt == p].tolist()) for p in (10, 20, 30)}
    assert by_prompt == {10: {3}, 20: {1}, 30: {3}}


def test_who_runs_is_older_than_its_age() -> None:
    """At age 2 only the lengths 3 and 5 are left: 1 or 3 more steps, each as likely."""
    kept = drawn([(1, 1, False), (1, 2, False), (1, 3, False), (1, 5, False)], step=9, begun=7)
    found = Counter(kept.drawn.remaining.tolist())
    assert set(found) == {1, 3}
    assert found[1] == pytest.approx(300, abs=75)


def test_beyond_all_that_was_seen_lives_are_geometric() -> None:
    """Five ended after 4 steps each, so at age 10 there are 4 more to come in the mean."""
    kept = drawn([(1, 4, False)] * 5, step=10)
    remaining = kept.drawn.remaining
    assert remaining.min() == 1
    assert remaining.mean() == pytest.approx(4, abs=0.6)


def test_who_runs_on_gets_longer_than_who_ended_at_its_age() -> None:
    """Open at 2, ended after 2 and 5: the open one will be of 5, wherever it stands."""
    kept = drawn([(30, 2, True), (10, 2, False), (20, 5, False)])
    assert set(kept.drawn.output[kept.drawn.prompt == 30].tolist()) == {5}


def test_steps_of_who_still_runs_count_for_the_mean() -> None:
    """One end in 4 times 4 steps: 16 more steps in the mean at age 10."""
    kept = drawn([(1, 4, False)] + [(1, 4, True)] * 3, step=10)
    assert kept.drawn.remaining.mean() == pytest.approx(16, abs=2.5)


def test_known_ends_are_kept_and_the_others_lie_beyond() -> None:
    """Windows of three steps: one is known to end after 2 more; at age 1 the others pass age 4."""
    kept = new_memory(1, 600, 3, 1, TwoStageParameters())
    counts, past = kept.seen.counts, kept.scene.past
    counts[PAST], counts[RUNNING], counts[AHEAD_KNOWN] = 3, 600, 3
    past[[PROMPT, LENGTH, IS_OPEN], :3] = [[1, 1, 1], [3, 4, 6], [0, 0, 0]]
    kept.scene.running[BEGUN] = 4
    kept.scene.running[LEFT, 0] = 2
    left = draw(kept, 5)
    assert kept.drawn.remaining[0] == 2
    assert set(kept.drawn.remaining[1:].tolist()) == {5}
    assert left == (2 + 599 * 5) // 600
