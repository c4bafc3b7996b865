"""Observations of `adaptive` at each step, and the look-ahead windows derived from them."""

import numpy as np

from bfio.decode.adaptive.memory import (
    AHEAD_KNOWN,
    COARSE,
    CURRENT,
    DUE,
    ENDS,
    FORETOLD,
    FULL_WEIGHT,
    LEAST_WEIGHT,
    LIVES,
    SETTINGS,
    UNCOUNTED,
    Memory,
    Setting,
    is_due,
    look,
    near,
    new_memory,
    note_choice,
    note_decision,
    set_weights,
    statistics,
    windows_tell,
)
from bfio.decode.adaptive.rehearsal import steps_to_play
from bfio.step.two_stage.heuristic import TwoStageParameters


def memory(num_workers: int = 2, slots: int = 8, horizon: int = 80) -> Memory:
    """Return the memory of a run that has not begun."""
    return new_memory(num_workers, slots, horizon, 4, TwoStageParameters())


def test_the_window_weighs_as_many_steps_as_the_setting_says() -> None:
    """Weights of the steps to come add up to τ, but for what the end of the window cuts off."""
    for setting in range(2, len(SETTINGS)):
        kept = memory()
        columns = set_weights(kept.rule, setting, 2)
        weights = kept.rule.reward[:columns]
        told = SETTINGS[setting].steps
        assert (1 - LEAST_WEIGHT / FULL_WEIGHT) * told <= 100 * weights.sum() / FULL_WEIGHT
        assert 100 * weights[1:].sum() / FULL_WEIGHT <= told
        assert weights.min() >= LEAST_WEIGHT
        assert (kept.rule.overflow[:columns] == 2 * SETTINGS[setting].penalty * weights).all()


def test_without_look_ahead_the_window_is_this_step() -> None:
    """The first setting is BR-0: one step, and overflow costs G times the reward."""
    kept = memory(num_workers=3)
    assert set_weights(kept.rule, 0, 3) == 1
    assert kept.rule.reward[0] * 3 == kept.rule.overflow[0]


def test_the_window_is_no_longer_than_asked_for() -> None:
    """However many steps the setting weighs."""
    assert set_weights(memory(horizon=5).rule, len(SETTINGS) - 1, 2) == 6


def test_neighbours_fill_the_octaves_on_either_side() -> None:
    """Of τ = 2: three between 1 and 2, three between 2 and 4; with β = G those from 2 to 4."""
    around = [SETTINGS[k] for k in near(SETTINGS.index(Setting(200, 2)))]
    assert [s.steps for s in around if s.penalty == 2] == [119, 141, 168, 238, 283, 336]
    assert [s.steps for s in around if s.penalty == 1] == [200, 238, 283, 336, 400]
    assert all(SETTINGS[k].penalty == 1 or k not in COARSE for c in COARSE for k in near(c))
    assert [SETTINGS[k].steps for k in near(0)] == [30, 35, 42, 25, 30, 35, 42, 50]


def test_windows_are_believed_while_they_are_right() -> None:
    """Before any end if they name one; later if half of the ends were foretold."""
    seen = memory().seen
    assert windows_tell(seen, np.array([5, 6]), 5)
    assert not windows_tell(seen, np.array([6, 6]), 5)
    assert not windows_tell(seen, np.zeros(0, dtype=np.int64), 5)
    seen.counts[ENDS], seen.counts[FORETOLD] = 4, 2
    assert windows_tell(seen, np.array([6]), 5)
    seen.counts[ENDS] = 5
    assert not windows_tell(seen, np.array([1]), 5)


def test_ends_that_were_foretold_are_counted() -> None:
    """Those of the step after a decision: 2 and 0 foretold, 1 and 1 came, so 1 of 3 agrees."""
    seen = memory().seen
    look(seen, 5, 0, np.array([8, 8]))
    note_decision(seen)
    seen.foretold[:], seen.running[:] = (2, 0), (8, 8)
    look(seen, 6, 2, np.array([7, 7]))
    assert (seen.counts[FORETOLD], seen.counts[ENDS]) == (1, 3)
    # Two steps later they could be of the step between.
    look(seen, 8, 4, np.array([6, 6]))
    assert seen.counts[ENDS] == 3


def test_rehearsals_become_rarer() -> None:
    """As each slot of 32 is taken, a sixteenth later, then whenever doubled, then once each."""
    seen, due = memory(slots=16).seen, []
    for completed in range(120):
        running = np.array([16, 14 + min(2, completed)])
        look(seen, completed, completed, running)
        if is_due(seen, running, 32):
            due.append(completed)
            note_choice(seen, 3, 32)
    assert due == [1, 3, 6, 12, 24, 48, 80, 112]
    assert seen.counts[DUE] == 144
    assert seen.counts[CURRENT] == 3


def test_a_rehearsal_goes_no_further_than_ends_are_told() -> None:
    """At step 30 and windows of 80 steps 110 at most; later so many mean lives."""
    kept = memory()
    for told, step, left, expected in (
        (80, 30, 500, 110),
        (0, 30, 500, 30),
        (80, 900, 9, 9 * LIVES),
    ):
        kept.seen.counts[AHEAD_KNOWN] = told
        assert steps_to_play(kept, step, left) == 2 * UNCOUNTED + expected


def test_a_machine_that_never_fills_rehearses_after_some_ends() -> None:
    """After one slot in sixteen has been given back."""
    seen, running = memory(slots=16).seen, np.array([3, 3])
    look(seen, 1, 1, running)
    assert not is_due(seen, running, 32)
    look(seen, 2, 2, running)
    assert is_due(seen, running, 32)


def test_statistics_tell_what_decided() -> None:
    """Rehearsals with their steps, and decisions by name."""
    kept = memory()
    look(kept.seen, 7, 1, np.array([8, 8]))
    note_decision(kept.seen)
    note_choice(kept.seen, 9, 16)
    assert statistics(kept) == {
        "rehearsals": 1,
        "decisions": {"steps 2, penalty 2": 1},
        "chosen": [[7, "steps 0.84, penalty 2"]],
    }
