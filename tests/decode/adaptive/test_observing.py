"""What `adaptive` notes at each step, and the windows that follow from it."""

import numpy as np
import pytest

from bfio.decode.adaptive.memory import (
    CURRENT,
    DUE,
    ENDS,
    FORETOLD,
    Memory,
    new_memory,
    statistics,
)
from bfio.decode.adaptive.observing import (
    is_due,
    look,
    note_choice,
    note_decision,
    set_weights,
)
from bfio.decode.adaptive.settings import FULL_WEIGHT, LEAST_WEIGHT, SETTINGS
from bfio.step.two_stage.heuristic import TwoStageParameters


def memory(num_workers: int = 2, slots: int = 8, horizon: int = 80) -> Memory:
    """Return the memory of a run that has not begun."""
    return new_memory(num_workers, slots, horizon, 4, TwoStageParameters())


@pytest.mark.parametrize("ends", [10, 25, 200])
@pytest.mark.parametrize("setting", range(3, len(SETTINGS)))
def test_the_window_holds_as_many_losses_as_the_setting_says(setting: int, ends: int) -> None:
    """The discounted ends per worker are r, but for what the end of the window cuts off."""
    kept = memory()
    kept.seen.rate[:] = ends, 100
    columns = set_weights(kept.rule, kept.seen.rate, setting, 2)
    weights = kept.rule.reward[:columns]
    losses = ends / 100 * weights[1:].sum() / FULL_WEIGHT
    assert 0.93 * SETTINGS[setting].losses <= 100 * losses <= SETTINGS[setting].losses
    assert weights.min() >= LEAST_WEIGHT
    assert (kept.rule.overflow[:columns] == 2 * SETTINGS[setting].penalty * weights).all()


def test_without_look_ahead_the_window_is_this_step() -> None:
    """The first setting is BR-0: one step, and overflow costs G times the reward."""
    kept = memory(num_workers=3)
    assert set_weights(kept.rule, kept.seen.rate, 0, 3) == 1
    assert kept.rule.reward[0] * 3 == kept.rule.overflow[0]


def test_the_window_is_no_longer_than_asked_for() -> None:
    """However seldom requests end."""
    kept = memory(horizon=5)
    kept.seen.rate[:] = 1, 10**6
    assert set_weights(kept.rule, kept.seen.rate, 5, 2) == 6


def test_the_rate_forgets() -> None:
    """Ends and steps add up, and are halved once they are of more than a quarter of the slots."""
    seen = memory().seen
    seen.rate[:] = 0
    running = np.array([8, 8])
    look(seen, 8, 10, 4, running)
    assert seen.rate.tolist() == [4, 20]
    look(seen, 8, 11, 5, running)
    assert seen.rate.tolist() == [3, 11]


def test_ends_that_were_foretold_are_counted() -> None:
    """Those of the step after a decision: 2 and 0 foretold, 1 and 1 came, so 1 of 3 agrees."""
    seen = memory().seen
    look(seen, 8, 5, 0, np.array([8, 8]))
    note_decision(seen)
    seen.foretold[:], seen.running[:] = (2, 0), (8, 8)
    look(seen, 8, 6, 2, np.array([7, 7]))
    assert (seen.counts[FORETOLD], seen.counts[ENDS]) == (1, 3)
    # Two steps later they could be of the step between.
    look(seen, 8, 8, 4, np.array([6, 6]))
    assert seen.counts[ENDS] == 3


def test_rehearsals_become_rarer() -> None:
    """After 1, 2, 4, 8 and 16 of 16 slots, and then each time all have been given back."""
    seen, due = memory().seen, []
    for completed in range(60):
        look(seen, 8, completed, completed, np.array([8, 8]))
        if is_due(seen):
            due.append(completed)
            note_choice(seen, 3, 16)
    assert due == [1, 2, 4, 8, 16, 32, 48]
    assert seen.counts[DUE] == 64
    assert seen.counts[CURRENT] == 3


def test_statistics_tell_what_decided() -> None:
    """Rehearsals with their steps, and decisions by name."""
    kept = memory()
    look(kept.seen, 8, 7, 1, np.array([8, 8]))
    note_decision(kept.seen)
    note_choice(kept.seen, 9, 16)
    assert statistics(kept) == {
        "rehearsals": 1,
        "decisions": {"losses 1, penalty 1": 1},
        "chosen": [[7, "losses 0.5, penalty 2"]],
    }
