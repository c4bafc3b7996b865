"""Projected loads and contributions by hand; test_reference compares them in general."""

import numpy as np
import pytest

from bfio.decode.drift import LLM, Drift, DriftReading
from bfio.decode.options import Projection
from bfio.decode.predictors.none import NoPredictor
from bfio.decode.predictors.oracle import OraclePredictor
from bfio.decode.projection import Projector
from formulations.arrays import IntArray
from formulations.errors import InputError
from tests.decode.cases import workload

#: Requests 0, 1, 2 run with loads 12, 20, 31 on workers 0, 0, 1; 3 and 4 wait.
LOAD = workload([10, 18, 30, 7, 9], [4, 9, 2, 1, 3])
RUNNING, WORKERS = np.array([0, 1, 2]), np.array([0, 0, 1])
WEIGHTS, AGES = np.array([12, 20, 31]), np.array([2, 2, 1])
WAITING, SIZES = np.array([3, 4]), np.array([7, 9])


def project(projection: str, oracle: bool, drift: Drift = LLM) -> tuple[object, object]:
    """Return loads of three workers and contributions over H = 3, at step 5."""
    predictor = OraclePredictor(LOAD) if oracle else NoPredictor()
    projector = Projector(3, Projection(projection), predictor, drift)
    loads = projector.loads(RUNNING, WORKERS, WEIGHTS, AGES, 5, 3)
    return loads.tolist(), projector.contributions(WAITING, SIZES, 5).tolist()


def test_constant_without_lengths() -> None:
    """Every column repeats the load now."""
    loads, contributions = project("constant", oracle=False)
    assert loads == [[32] * 4, [31] * 4, [0] * 4]
    assert contributions == [[7] * 4, [9] * 4]


def test_growing_without_lengths() -> None:
    """One token per request and step: worker 0 has two requests."""
    loads, contributions = project("growing", oracle=False)
    assert loads == [[32, 34, 36, 38], [31, 32, 33, 34], [0] * 4]
    assert contributions == [[7, 8, 9, 10], [9, 10, 11, 12]]


def test_constant_with_lengths() -> None:
    """Remaining steps 2, 7, 1: request 0 is gone from h = 2, request 2 from h = 1."""
    loads, contributions = project("constant", oracle=True)
    assert loads == [[32, 32, 20, 20], [31, 0, 0, 0], [0] * 4]
    assert contributions == [[7, 0, 0, 0], [9, 9, 9, 0]]


def test_growing_with_lengths() -> None:
    """The same ends, with loads 12+h and 20+h."""
    loads, contributions = project("growing", oracle=True)
    assert loads == [[32, 34, 22, 23], [31, 0, 0, 0], [0] * 4]
    assert contributions == [[7, 0, 0, 0], [9, 10, 11, 0]]


def test_growing_with_uneven_drift() -> None:
    """Increments 5, 0: by age 2, 2, 1 the next are (5,0,5), (5,0,5), (0,5,0); new ones 5, 0, 5.

    By global step from step 5 they are 0, 5, 0 for everyone.
    """
    loads, contributions = project("growing", oracle=False, drift=Drift((5, 0)))
    assert loads == [[32, 42, 42, 52], [31, 31, 36, 36], [0] * 4]
    assert contributions == [[7, 12, 12, 17], [9, 14, 14, 19]]
    by_step = Drift((5, 0), DriftReading.GLOBAL_STEP)
    loads, contributions = project("growing", oracle=False, drift=by_step)
    assert loads == [[32, 32, 42, 42], [31, 31, 36, 36], [0] * 4]
    assert contributions == [[7, 7, 12, 12], [9, 9, 14, 14]]


@pytest.mark.parametrize("predicted", [-3, 0, 1])
def test_the_coming_step_is_certain(predicted: int) -> None:
    """A predictor that says 0 or less is read as 1: the load now always counts."""

    class Hasty(NoPredictor):
        def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
            return np.full(len(requests), predicted)

    projector = Projector(3, Projection.GROWING, Hasty(), LLM)
    loads = projector.loads(RUNNING, WORKERS, WEIGHTS, AGES, 5, 3)
    assert loads.tolist() == [[32, 0, 0, 0], [31, 0, 0, 0], [0] * 4]


@pytest.mark.parametrize("predicted", [np.array([1.5, 2.0, 3.0]), np.array([1, 2]), np.array(1)])
def test_a_malformed_prediction_is_named(predicted: IntArray) -> None:
    """Floats and wrong shapes are errors that name the predictor."""

    class Odd(NoPredictor):
        name = "odd"

        def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
            return predicted

    projector = Projector(3, Projection.GROWING, Odd(), LLM)
    with pytest.raises(InputError, match="predictor odd: returned an array of shape"):
        projector.loads(RUNNING, WORKERS, WEIGHTS, AGES, 5, 3)
