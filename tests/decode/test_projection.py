"""Projected loads and contributions by hand; test_reference compares them in general."""

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.drift import LLM, Drift, DriftReading
from bfio.decode.machine.counters import REVEALED, STEP, WAITING
from bfio.decode.machine.endings import enter_window, leave_window
from bfio.decode.machine.moves import start
from bfio.decode.machine.phases import grow
from bfio.decode.machine.state import State, new_state
from bfio.decode.machine.window import new_window, project
from bfio.decode.options import Projection, RunOptions, WindowKnows
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.prediction.predictors.oracles import NoPredictor
from formulations.arrays import IntArray
from formulations.errors import InputError
from tests.decode.cases import workload

OUTPUTS = [4, 9, 2, 1, 3]
WORKERS = [0, 0, 1]


def running(projection: str, oracle: bool, drift: Drift, knows: str = "all") -> State:
    """Return three workers at step 5: requests 0, 1 run since step 3, request 2 since step 4.

    Their loads are 12, 20 and 31 now, on workers 0, 0 and 1, whatever the drift; requests 3 and 4
    wait.
    """
    prompts = [10, 18, 30, 7, 9] if drift is LLM else [7, 15, 26, 7, 9]
    state = new_state(
        workload(prompts, OUTPUTS),
        Cluster(workers=3, slots=2),
        RunOptions(
            projection=Projection(projection), drift=drift, window_knows=WindowKnows(knows)
        ),
        look_ahead=3,
        known=oracle,
    )
    for step, starting in ((3, [0, 1]), (4, [2]), (5, [])):
        state.counters[STEP] = step
        if oracle:
            enter_window(state)
        for request in starting:
            state.marks.worker[request] = WORKERS[request]
            start(state, request, WORKERS[request])
        if step < 5:
            if oracle:
                leave_window(state)
            grow(state)
    state.counters[REVEALED], state.counters[WAITING] = 5, 2
    return state


def projected(
    projection: str, oracle: bool, drift: Drift = LLM, knows: str = "all"
) -> tuple[object, object]:
    """Return loads of the workers and contributions over H = 3."""
    window = new_window(3, 3, 2)
    project(running(projection, oracle, drift, knows), window)
    return window.base.tolist(), window.contribution.tolist()


def test_constant_without_lengths() -> None:
    """Every column repeats the load now."""
    loads, contributions = projected("constant", oracle=False)
    assert loads == [[32] * 4, [31] * 4, [0] * 4]
    assert contributions == [[7] * 4, [9] * 4]


def test_growing_without_lengths() -> None:
    """One token per request and step: worker 0 has two requests."""
    loads, contributions = projected("growing", oracle=False)
    assert loads == [[32, 34, 36, 38], [31, 32, 33, 34], [0] * 4]
    assert contributions == [[7, 8, 9, 10], [9, 10, 11, 12]]


def test_constant_with_lengths() -> None:
    """Remaining steps 2, 7, 1: request 0 is gone from h = 2, request 2 from h = 1."""
    loads, contributions = projected("constant", oracle=True)
    assert loads == [[32, 32, 20, 20], [31, 0, 0, 0], [0] * 4]
    assert contributions == [[7, 0, 0, 0], [9, 9, 9, 0]]


def test_growing_with_lengths() -> None:
    """The same ends, with loads 12+h and 20+h."""
    loads, contributions = projected("growing", oracle=True)
    assert loads == [[32, 34, 22, 23], [31, 0, 0, 0], [0] * 4]
    assert contributions == [[7, 0, 0, 0], [9, 10, 11, 0]]


@pytest.mark.parametrize("projection", ["constant", "growing"])
def test_lengths_of_active_requests_alone(projection: str) -> None:
    """Loads fall where active requests end; waiting ones go on as if no length was known."""
    loads, contributions = projected(projection, oracle=True, knows="active")
    assert loads == projected(projection, oracle=True)[0]
    assert contributions == projected(projection, oracle=False)[1]


def test_growing_with_uneven_drift() -> None:
    """Increments 5, 0: by age 2, 2, 1 the next are (5,0,5), (5,0,5), (0,5,0); new ones 5, 0, 5.

    By global step from step 5 they are 0, 5, 0 for everyone.
    """
    loads, contributions = projected("growing", oracle=False, drift=Drift((5, 0)))
    assert loads == [[32, 42, 42, 52], [31, 31, 36, 36], [0] * 4]
    assert contributions == [[7, 12, 12, 17], [9, 14, 14, 19]]
    by_step = Drift((5, 0), DriftReading.GLOBAL_STEP)
    loads, contributions = projected("growing", oracle=False, drift=by_step)
    assert loads == [[32, 32, 42, 42], [31, 31, 36, 36], [0] * 4]
    assert contributions == [[7, 7, 12, 12], [9, 9, 14, 14]]


class Told(NoPredictor):
    """Predicts given values."""

    name = "told"

    def __init__(self, predicted: object) -> None:
        self.predicted = predicted

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Return it for every request, or as it is if it is an array."""
        if isinstance(self.predicted, np.ndarray):
            return self.predicted
        return np.full(len(requests), self.predicted)


def seen(predicted: object, knows: str = "all") -> DecodeState:
    """Return what a policy sees at step 1, when requests of 10 and 18 tokens run and one waits."""
    states = []

    def watch(state: DecodeState) -> list[int | None]:
        states.append(state)
        return [0, 0, None][: state.num_waiting] if state.step == 0 else [None]

    simulate(
        workload([10, 18, 7], [4, 9, 1]),
        watch,
        Cluster(workers=1, slots=3),
        horizon=3,
        projection="growing",
        predictor=Told(predicted),
        window_knows=knows,
        steps=2,
    )
    return states[-1]


@pytest.mark.parametrize("predicted", [0, 1])
def test_the_coming_step_is_certain(predicted: int) -> None:
    """A predictor that says 0 is read as 1: the load now always counts."""
    state = seen(predicted)
    assert state.projected_loads.tolist() == [[30, 0, 0, 0]]
    assert state.contributions.tolist() == [[7, 0, 0, 0]]


def test_what_a_predictor_says_is_the_window() -> None:
    """Two steps left: the load now and the next one, in which each has gained a token."""
    state = seen(2)
    assert state.projected_loads.tolist() == [[30, 32, 0, 0]]
    assert state.contributions.tolist() == [[7, 8, 0, 0]]


def test_a_predictor_is_not_asked_about_waiting_requests() -> None:
    """By default it tells of active ones: the waiting one grows for the whole window."""
    state = seen(2, "active")
    assert state.projected_loads.tolist() == [[30, 32, 0, 0]]
    assert state.contributions.tolist() == [[7, 8, 9, 10]]


@pytest.mark.parametrize("predicted", [np.array([1.5, 2.0, 3.0]), np.array([1, 2]), np.array(1)])
def test_a_malformed_prediction_is_named(predicted: IntArray) -> None:
    """Floats and wrong shapes are errors that name the predictor."""
    with pytest.raises(InputError, match="predictor told: returned an array of shape"):
        seen(predicted)
