"""The learned predictor: its features are causal, its models repeat, errors are one line."""

import re
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bfio
from bfio.decode.cluster import Cluster
from bfio.decode.simulation import simulate
from bfio.prediction import registry
from bfio.prediction.predictors.learned import (
    NUM_RECENT,
    RecentLengths,
    require_library,
    walked_features,
)
from bfio.workloads.workload import Workload
from formulations.errors import InputError

NEEDS = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")
#: Output is ten times the prompt: what a request is like decides when it ends.
PROMPTS = np.tile([1, 2, 3, 30], 150)
LOAD = Workload(PROMPTS, 10 * PROMPTS)


@given(
    lengths=st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), min_size=2, max_size=20),
    data=st.data(),
)
def test_features_are_of_what_came_before(
    lengths: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Other lengths from request i on leave the features of requests up to i as they are."""
    prompts, outputs = np.array(lengths).T
    i = data.draw(st.integers(0, len(lengths) - 1))
    other = outputs.copy()
    other[i:] = data.draw(st.integers(1, 99))
    found, changed = walked_features(prompts, outputs), walked_features(prompts, other)
    assert np.array_equal(found[: i + 1], changed[: i + 1])
    assert not found[0].any()
    assert found[1:].all()


def test_statistics_by_hand() -> None:
    """Averages start at the first output; rolling ones forget what is older than their window."""
    recent = RecentLengths(window=2)
    assert not recent.features().any()
    recent.add(np.array([5]), np.array([100]))
    assert recent.features() == pytest.approx([100, 100, 100, 100, 100, 5])
    recent.add(np.array([7, 9]), np.array([200, 300]))
    # 100 + 0.1·100 = 110, + 0.1·190 = 129; 100 + 0.01·100 = 101, + 0.01·199 = 102.99.
    assert recent.features() == pytest.approx([129, 102.99, 250, 225, 275, 8])
    assert len(recent.features()) == NUM_RECENT


@NEEDS
def test_it_learns_what_a_request_is_like() -> None:
    """Where the prompt decides the length it is right, and better than a coin by far."""
    report = bfio.evaluate_predictor(LOAD, "learned:trees=40", 20)
    assert report.auc is not None
    assert report.auc > 0.97
    assert report.conditional_mae is not None
    assert report.conditional_mae < 1
    again = bfio.evaluate_predictor(LOAD, "learned:trees=40", 20)
    assert replace(again, call_us=0, request_us=0) == replace(report, call_us=0, request_us=0)


@NEEDS
def test_one_class_needs_no_classifier() -> None:
    """All of the past ended within the window, or none did."""
    ages = np.array([0, 0]), np.array([0, 3])
    short = Workload(np.ones(50, dtype=np.int64), np.full(50, 4))
    assert registry.build("learned", short, history=short).estimate(*ages, 9)[0].tolist() == [1, 1]
    long = Workload(np.ones(50, dtype=np.int64), np.full(50, 10))
    found = registry.build("learned:trees=2", long, history=long)
    # Of the ages 0 and 10 of a training walk only the first is below the length.
    assert found.estimate(*ages, 5).probability.tolist() == [0, 0]
    assert found.remaining(*ages, 5).tolist() == [6, 6]


@NEEDS
def test_it_learns_no_request_by_heart() -> None:
    """Where nothing can be learned it is hardly worse than the base rate, which is the best."""
    report = bfio.evaluate_predictor(bfio.synthetic("geometric", 600, seed=2), "learned", 20)
    # With leaves of two requests it is 1.7 times as large.
    assert report.brier < 1.2 * report.brier_base_rate


@NEEDS
@pytest.mark.parametrize("count", [1, 2, 3])
def test_little_is_enough_to_learn_from(count: int) -> None:
    """One request of the past, or two: no model of scikit-learn is asked for the impossible."""
    for output in (1, 5, 300):
        past = Workload(np.arange(1, count + 1), np.full(count, output))
        found = registry.build("learned", LOAD, history=past)
        assert found.remaining(np.array([0]), np.array([0]), 20).tolist() == [min(output, 21)]


@NEEDS
def test_without_a_past_it_says_what_to_give() -> None:
    """One line; with a period of fits it starts from nothing, and learns."""
    message = "predictor learned: there is nothing to learn from; give a history of finished"
    for nothing in (None, LOAD.head(0)):
        with pytest.raises(InputError, match=re.escape(message)):
            registry.build("learned", LOAD, history=nothing)
    predictor = registry.build("learned:refit=500:trees=50", LOAD)
    asked = np.array([0, 3]), np.array([0, 0])
    assert predictor.remaining(*asked, 20).tolist() == [21, 21]
    predictor.finished(np.arange(499), LOAD.output_tokens[:499])
    assert predictor.remaining(*asked, 20).tolist() == [21, 21]
    predictor.finished(np.arange(499, 600), LOAD.output_tokens[499:600])
    short, long = predictor.remaining(*asked, 20).tolist()
    assert short <= 15
    assert long == 21


@NEEDS
def test_it_is_trained_anew_after_each_period() -> None:
    """Lengths that change under it: with a period it follows, without one it does not."""
    slow = Workload(PROMPTS, np.full(len(PROMPTS), 200))
    asked = np.array([0]), np.array([0])
    for name, expected in (("learned:trees=20:refit=600", 15), ("learned:trees=20", 21)):
        predictor = registry.build(name, LOAD, history=slow)
        assert predictor.remaining(*asked, 20).tolist() == [21]
        for _ in range(2):
            predictor.finished(np.arange(600), np.full(600, 8))
        assert predictor.remaining(*asked, 20)[0] <= expected
        assert (predictor.remaining(*asked, 20)[0] == 21) == (expected == 21)


@NEEDS
def test_it_runs_in_the_engine() -> None:
    """The run is recorded under its name, and repeats."""
    # Prompts 1 and 2, of ten and twenty tokens.
    short = LOAD.part(np.flatnonzero(LOAD.prompt_tokens <= 2)[:24])
    chosen = {"predictor": "learned:trees=3", "history": LOAD}
    runs = [simulate(short, "br-h:horizon=8", Cluster(2, 4), **chosen) for _ in range(2)]
    assert runs[0].options.predictor == "learned:trees=3"
    assert np.array_equal(runs[0].worker, runs[1].worker)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "learned:trees=0",
            "predictor learned: trees: 0 is out of range; use 1 <= value <= 10000",
        ),
        ("learned:refit=-1", "predictor learned: refit: -1 is out of range"),
        ("learned:refit=x", "'x' is not a value of refit; write one integer"),
        ("learned:tree=3", "unknown option 'tree'; did you mean trees?"),
        ("learned:3", "'3' is not an option; write option=value"),
    ],
)
def test_options_that_are_wrong(name: str, message: str) -> None:
    """One line each, before anything is built."""
    with pytest.raises(InputError, match=re.escape(message)):
        registry.find(name)


def test_without_the_library_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stays listed."""
    monkeypatch.setattr("bfio.prediction.predictors.learned.find_spec", lambda name: None)
    with pytest.raises(InputError, match=re.escape("pip install 'bfio[learned]'")):
        require_library()
    with pytest.raises(InputError, match="scikit-learn is not installed"):
        registry.build("learned", LOAD, history=LOAD)
    assert "learned" in registry.names()
