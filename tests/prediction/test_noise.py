"""Oracles with errors: each error model has its stated law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.prediction import registry
from bfio.prediction.predictor import CheckedPredictor
from bfio.prediction.report import roc_auc
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.errors import InputError

FAR = 10**9


def _told(text: str, outputs: IntArray, seed: int = 0) -> tuple[CheckedPredictor, IntArray]:
    """Return a predictor and what it says of each request before it starts."""
    load = Workload(np.ones_like(outputs), outputs)
    predictor = registry.build(text, load, seed)
    return predictor, predictor.remaining(np.arange(len(outputs)), np.zeros_like(outputs), FAR)


def test_lognormal_factors_have_mean_one_and_the_spread_asked_for() -> None:
    """Over 20,000 requests of 10^6 tokens."""
    _, told = _told("noisy-oracle:model=lognormal:error=0.7", np.full(20_000, 10**6))
    assert np.mean(told / 10**6) == pytest.approx(1, abs=0.02)
    assert np.std(np.log(told / 10**6)) == pytest.approx(0.7, rel=0.03)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=30), st.integers(0, 8))
def test_a_bias_multiplies(outputs: list[int], quarters: int) -> None:
    """By the same factor; nothing is shorter than a step."""
    _, told = _told(f"noisy-oracle:model=bias:error={quarters}/4", np.array(outputs))
    assert told.tolist() == [max(1, -(-length * quarters // 4)) for length in outputs]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 7))
def test_a_quantile_tells_the_mean_of_its_part(outputs: list[int], parts: int) -> None:
    """Parts do not overlap, there are k at most, and each is told its mean, rounded up."""
    lengths = np.array(outputs)
    _, told = _told(f"noisy-oracle:model=quantile:buckets={parts}", lengths)
    order = np.argsort(lengths, kind="stable")
    assert np.all(np.diff(told[order]) >= 0)
    assert len(np.unique(told)) <= parts
    for value in np.unique(told):
        mean = lengths[told == value]
        assert value == -(-mean.sum() // len(mean))
    if parts == 1:
        assert told.tolist() == [-(-sum(outputs) // len(outputs))] * len(outputs)


@given(st.lists(st.integers(1, 99), min_size=1, max_size=30), st.integers(0, 9))
def test_shuffled_lengths_are_those_of_others(outputs: list[int], seed: int) -> None:
    """The same lengths, each once."""
    _, told = _told("noisy-oracle:model=shuffled", np.array(outputs), seed)
    assert sorted(told.tolist()) == sorted(outputs)


def test_an_error_of_the_remaining_length_fades() -> None:
    """Of 1,000 tokens twice too many: 2,000 at first, 20 when ten are left, 2 with the last."""
    predictor, told = _told("noisy-oracle:model=bias:error=2:of=remaining", np.array([1000]))
    assert told.tolist() == [2000]
    for age, expected in ((990, 20), (999, 2)):
        assert predictor.remaining(np.array([0]), np.array([age]), FAR).tolist() == [expected]
    assert registry.build("noisy-oracle:of=remaining", _LOAD).compiled(4) is None


_LOAD = Workload(np.array([1, 1]), np.array([5, 9]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("noisy-oracle:model=normal", "model: 'normal' is unknown"),
        ("noisy-oracle:model=lognormal:error=4", "error 4 is out of range for model lognormal"),
        ("noisy-oracle:of=age", "of: 'age' is unknown"),
        ("noisy-oracle:model=shuffled:of=remaining", "model shuffled only has errors of"),
        ("noisy-oracle:buckets=0", "buckets"),
        ("noisy-classifier:auc=0.4", "auc"),
        ("noisy-classifier:auc=1", "auc"),
        ("noisy-classifier:refresh=0", "refresh"),
    ],
)
def test_options_out_of_domain(text: str, message: str) -> None:
    """Refused when they are read."""
    with pytest.raises(InputError, match=message):
        registry.find(text)


@pytest.mark.parametrize("auc", [0.5, 0.8, 0.99])
def test_a_classifier_has_its_quality_and_is_calibrated(auc: float) -> None:
    """Over all tokens of 400 requests: area, share of ends by stated probability, and mean."""
    outputs = np.random.default_rng(3).geometric(1 / 80, 400)
    load = Workload(np.ones_like(outputs), outputs)
    predictor = registry.build(f"noisy-classifier:auc={auc}", load, 5)
    requests = np.repeat(np.arange(len(outputs)), outputs)
    ages = np.concatenate([np.arange(length) for length in outputs])
    found = predictor.estimate(requests, ages, 20)
    remaining = outputs[requests] - ages
    ends = remaining <= 20
    measured = roc_auc(found.probability, ends)
    assert measured is not None
    assert measured == pytest.approx(auc, abs=0.01)
    for lowest in (0.0, 0.2, 0.4, 0.6, 0.8):
        chosen = (found.probability >= lowest) & (found.probability < lowest + 0.2)
        if chosen.sum() > 1000:
            assert ends[chosen].mean() == pytest.approx(found.probability[chosen].mean(), abs=0.03)
    assert found.mean[0] == pytest.approx(remaining[ends].mean())
    again = predictor.estimate(requests[::-1], ages[::-1], 20)
    assert np.array_equal(again.probability[::-1], found.probability)
