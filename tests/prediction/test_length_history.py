"""The empirical-survival estimates against their definition, in fractions."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.prediction import registry
from bfio.prediction.length_history import keep, new_history
from bfio.prediction.predictor import Estimates, checked_estimates, composite
from bfio.workloads.workload import Workload
from formulations.errors import InputError

LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=25)


def defined(past: Sequence[int], age: int, horizon: int) -> tuple[Fraction, Fraction] | None:
    """Return p̂ and μ̂ by appendix C.2.1; None if nothing is known, or μ̂ of nobody."""
    longer = [length for length in past if length > age]
    within = [length - age for length in longer if length - age <= horizon]
    if not within:
        return None
    return Fraction(len(within), len(longer)), Fraction(sum(within), len(within))


def predicted(past: Sequence[int], age: int, horizon: int, gate: Fraction) -> int:
    """Return ŷ by eq. 6 and the gate, rounded up."""
    found = defined(past, age, horizon)
    if found is None:
        probability = Fraction(0)
        closed = not any(length > age for length in past) or gate > 0
        return horizon + 1 if closed else horizon
    probability, mean = found
    if probability < gate:
        return horizon + 1
    return max(1, min(ceil(probability * mean + (1 - probability) * horizon), horizon))


def _history(past: Sequence[int], prompts: Sequence[int] | None = None) -> Workload:
    return Workload(np.array(prompts or [1] * len(past)), np.array(past))


@given(LENGTHS, st.integers(1, 40), st.sampled_from(["0", "1/3", "1/2", "1"]))
def test_survival_is_the_definition(past: list[int], horizon: int, gate: str) -> None:
    """At every age, from a history."""
    one = Workload(np.array([4]), np.array([7]))
    told = registry.build(f"survival:gate={gate}", one, history=_history(past))
    for age in range(35):
        asked = np.array([0]), np.array([age]), horizon
        expected = predicted(past, age, horizon, Fraction(gate))
        assert told.remaining(*asked).tolist() == [expected]
        both = defined(past, age, horizon)
        stages = told.estimate(*asked)
        if both is None:
            assert stages.probability[0] == 0
        else:
            assert stages.probability[0] == pytest.approx(float(both[0]))
            assert stages.mean[0] == pytest.approx(float(both[1]))
        if gate == "1/2":
            assert composite(stages, horizon).tolist() == [expected]


@given(LENGTHS, st.integers(1, 9), st.integers(1, 9), st.integers(1, 20), st.booleans())
def test_survival_learns_the_latest(
    past: list[int], refit: int, window: int, horizon: int, has_history: bool
) -> None:
    """Only outputs up to the last fit count, the latest of them, history first."""
    known = past[: len(past) // 2] if has_history else []
    run = past[len(known) :]
    load = Workload(np.ones(len(run), dtype=np.int64), np.array(run))
    history = _history(known) if has_history else None
    told = registry.build(f"survival:refit={refit}:window={window}", load, history=history)
    told.remaining(np.array([0]), np.array([0]), horizon)
    for done, length in enumerate(run, start=1):
        told.finished(np.array([done - 1]), np.array([length]))
        fitted = (known + run[: done - done % refit])[-window:]
        for age in (0, 3, 11):
            found = told.remaining(np.array([0]), np.array([age]), horizon).tolist()
            assert found == [predicted(fitted, age, horizon, Fraction(1, 2))]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2)), min_size=1, max_size=30),
    st.integers(1, 12),
)
def test_the_latest_outputs_are_counted_by_class_and_all_together(
    past: list[tuple[int, int]], window: int
) -> None:
    """What leaves the window leaves both counts; outputs above the longest count as that."""
    history = new_history(3, window, longest=6)
    for done, (length, kind) in enumerate(past, start=1):
        keep(history, length, kind)
        latest = past[max(0, done - window) : done]
        for row, kinds in enumerate([{0}, {1}, {2}, {0, 1, 2}]):
            kept = [min(each, 6) for each, its in latest if its in kinds]
            assert history.counts[row].tolist() == np.bincount(kept, minlength=7).tolist()


def test_without_any_past_requests_outlive_the_window() -> None:
    """No history and nobody finished: the gate is closed."""
    load = Workload(np.array([3, 5]), np.array([1, 9]))
    for name in ("survival", "exact-match"):
        told = registry.build(name, load)
        assert told.remaining(np.array([0, 1]), np.array([0, 5]), 8).tolist() == [9, 9]
        assert told.estimate(np.array([1]), np.array([2]), 8).probability.tolist() == [0]


def test_exact_match_looks_at_its_class() -> None:
    """Short prompts answered in 2 tokens and long ones in 50; too few of a class count for all."""
    past = _history([2] * 30 + [50] * 30, [10] * 30 + [900] * 30)
    load = Workload(np.array([9, 1000]), np.array([1, 1]))
    asked = np.array([0, 1]), np.array([0, 0]), 20
    told = registry.build("exact-match:buckets=2", load, history=past)
    assert told.remaining(*asked).tolist() == [2, 21]
    few = registry.build("exact-match:buckets=2:least=31", load, history=past)
    everyone = registry.build("survival", load, history=past)
    assert few.remaining(*asked).tolist() == everyone.remaining(*asked).tolist() == [11, 11]


KEYED = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30)), min_size=2, max_size=20)


@given(KEYED, st.integers(1, 3), st.integers(1, 25), st.integers(0, 30))
def test_equal_prompts_are_remembered(
    requests: list[tuple[int, int]], least: int, horizon: int, age: int
) -> None:
    """Half are history, the rest finish one by one; unknown prompts are predicted from all."""
    keys, outputs = (np.array(part) for part in zip(*requests, strict=True))
    whole = Workload(np.ones_like(outputs), outputs, prompt_keys=keys)
    load = whole.after(Fraction(1, 2))
    assert load.history is not None
    told = registry.build(f"exact-match:least={least}:refit=1", load, history=load.history)
    done = len(load.history)
    for index, key in enumerate(keys[done:]):
        past = outputs[: done + index]
        own = past[keys[: done + index] == key]
        enough = len(own) >= least and bool(np.any(own > age))
        asked = np.array([index]), np.array([age]), horizon
        expected = predicted(list(own if enough else past), age, horizon, Fraction(1, 2))
        assert told.remaining(*asked).tolist() == [expected]
        assert composite(told.estimate(*asked), horizon).tolist() == [expected]
        told.finished(np.array([index]), outputs[done + index : done + index + 1])


def test_keys_of_another_file_say_nothing() -> None:
    """They count prompts of their own file: a history from elsewhere is looked at by length."""
    one = Workload(np.array([5]), np.array([7]), prompt_keys=np.array([0]))
    past = Workload(np.full(30, 5), np.full(30, 3), prompt_keys=np.zeros(30, dtype=np.int64))
    told = registry.build("exact-match:least=31", one, history=past)
    assert told.compiled(4) is not None
    assert registry.build("exact-match", one).compiled(4) is None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "no pair of arrays"),
        (([0.5],), "no pair of arrays"),
        (([0.5, 0.5], [1.0, 1.0]), r"shape \(2,\)"),
        (([np.nan], [1.0]), "probability of nan"),
        (([-0.1], [1.0]), "probability of -0.1"),
        (([1.5], [1.0]), "probability of 1.5"),
        (([0.5], [np.nan]), "mean of nan"),
        (([0.5], [-3.0]), "mean of -3"),
        (([0.5], [9.1]), "mean of 9.1"),
        ((["x"], [1.0]), "no pair of arrays"),
    ],
)
def test_wrong_estimates_are_named(answer: object, message: str) -> None:
    """One line: who, what, remedy."""
    with pytest.raises(InputError, match=f"(?s)^mine: .*{message}.*return two arrays"):
        checked_estimates(answer, 1, 9, "mine")


def test_a_mean_of_nobody_is_not_read() -> None:
    """Where p̂ is 0, μ̂ may be anything; the gate is at 1/2 exactly."""
    estimates = Estimates(np.array([0.0, 0.5, 0.49]), np.array([np.nan, 1.0, 1.0]))
    assert checked_estimates(estimates, 3, 9, "mine").probability.tolist() == [0, 0.5, 0.49]
    assert composite(estimates, 9).tolist() == [10, 5, 10]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("survival:refresh=0", "refresh"),
        ("survival:window=0", "window"),
        ("survival:gate=2", "gate"),
        ("survival:gate=x", "gate"),
        ("survival:anchor=never", "anchor"),
        ("survival:keep=3", "unknown option 'keep'"),
        ("survival:3", "not an option"),
        ("exact-match:buckets=0", "buckets"),
        ("exact-match:least=0", "least"),
    ],
)
def test_options_out_of_domain(text: str, message: str) -> None:
    """Refused when they are read."""
    with pytest.raises(InputError, match=message):
        registry.find(text)
