"""Times at which predictors are queried, and predictions in between, in both engines."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.machine.counters import STEP
from bfio.decode.machine.endings import enlist, forget, predict, predicted_steps, strike
from bfio.decode.machine.state import new_state
from bfio.decode.options import RunOptions
from bfio.decode.simulation import simulate
from bfio.prediction.length_history import new_history, predicted_by_draw, predicted_by_tables
from bfio.prediction.registry import build
from bfio.testing.runs import Scenario
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from tests.decode.cases import first_come, least_projected, workload
from tests.decode.machine.equality import assert_same_run
from tests.decode.machine.test_every_policy import Drawing
from tests.decode.test_reference import Recorder, assert_same_states, reference


class Erratic:
    """Says anything in 1..H+1, by request and age alone, and notes what it is asked."""

    name = "erratic"

    def __init__(self, seed: int, refresh: int, counts_down: bool) -> None:
        self.seed, self.refresh, self.counts_down = seed, refresh, counts_down
        self.asked: list[tuple[int, int]] = []

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Note the question and answer."""
        self.asked += zip(requests.tolist(), ages.tolist(), strict=True)
        pairs = zip(requests.tolist(), ages.tolist(), strict=True)
        return np.array([self.answer(i, age, horizon) for i, age in pairs], dtype=np.int64)

    def answer(self, request: int, age: int, horizon: int) -> int:
        """Return the predicted remaining steps of one request."""
        rng = np.random.default_rng([self.seed, request, age])
        return int(rng.integers(1, horizon + 2))


@given(st.integers(0, 2**64), st.integers(0, 99), st.integers(1, 6), st.booleans())
@example(42976, 0, 1, False)  # reports that are neither late nor lost
def test_what_policies_see_is_what_was_predicted(
    run_seed: int, seed: int, refresh: int, counts_down: bool
) -> None:
    """Against a naive engine: after q tokens and at the floor, one step less with each token."""
    drawing = Drawing(run_seed)
    run, horizon = drawing.run("jsq"), drawing.whole(1, 7)
    options = run.options | {"horizon": horizon, "rate_scale": 1}
    # The naive engine knows neither.
    del options["history"], options["stragglers"]
    scenario = Scenario(run.workload, run.cluster, options)
    seen, expected = Recorder(least_projected), Recorder(least_projected)
    predictor = Erratic(seed, refresh, counts_down)
    found = scenario.simulate(seen, predictor=predictor)
    naive = reference(
        scenario,
        expected,
        ask=lambda request, age: predictor.answer(request, age, horizon),
        refresh=refresh,
        counts_down=counts_down,
    )
    assert found.finish_step.tolist() == [job.finish for job in naive.jobs]
    assert_same_states(seen.states, expected.states)


@given(st.integers(1, 9), st.integers(0, 99))
def test_requests_are_asked_about_at_multiples_of_q_and_at_the_floor(q: int, seed: int) -> None:
    """One request that runs 40 steps while another waits for the only slot."""
    predictor = Erratic(seed, q, False)
    simulate(
        workload([5, 5], [40, 1]),
        first_come,
        Cluster(1, 1),
        horizon=4,
        predictor=predictor,
    )
    ages = [age for request, age in predictor.asked if request == 0]
    if q == 1:
        # No slot is free before it ends, so that nobody has to decide.
        assert ages == []
        return
    expected, floor = [], None
    for age in range(40):
        if age % q == 0 or age == floor:
            expected.append(age)
            steps = predictor.answer(0, age, 4)
            floor = age + steps if steps <= 4 else None
    assert ages == expected


@pytest.mark.parametrize(
    "predictor",
    [
        "survival:refresh=3:refit=2:window=30",
        "survival:refresh=50:refit=1:gate=1/3",
        "survival:refresh=4:refit=3:gate=0:anchor=decrement",
        "exact-match:refresh=7:refit=2:least=3:buckets=3",
        "noisy-oracle:0.7",
    ],
)
@pytest.mark.parametrize("horizon", [6, 7])
def test_both_engines_predict_alike_in_a_long_run(predictor: str, horizon: int) -> None:
    """Over many refreshes, floors, refits and turns of the calendar, decisions are the same.

    A window of 7 steps fills the ring of endings, which has 8 columns.
    """
    rng = np.random.default_rng(1)
    load = Workload(rng.integers(1, 40, 160), rng.geometric(1 / 15, 160), name="load")
    for window_knows, options in (("active", {}), ("all", {"projection": "growing"})):
        given = {"predictor": predictor, "pool": 10, "window_knows": window_knows, **options}
        assert_same_run(load, "br-h", Cluster(3, 4), dict(horizon=horizon), **given)


def test_a_request_that_starts_again_is_asked_at_the_next_multiple_of_q() -> None:
    """However long ago it was asked the last time: with 3 tokens out, at 4, one step later."""
    load = Workload(np.array([5]), np.array([30]), history=Workload(np.array([5]), np.array([40])))
    predictor = build("survival:refresh=4", load, history=load.history)
    prediction = predictor.compiled(3)
    state = new_state(load, Cluster(1, 1), RunOptions(), look_ahead=3, prediction=prediction)
    dues = []
    for step, age in ((0, 0), (2, 0), (7, 3)):
        state.counters[STEP] = step
        predict(state, 0, age)
        dues.append(int(state.prediction.due[0]))
        forget(state, 0)
    assert dues == [4, 6, 8]


def test_what_starts_late_is_predicted_before_the_policy_looks() -> None:
    """Four requests of 9 tokens, one sent per step, a step late, and nothing learnt yet.

    At step 2 the first has 10 + 2 tokens and the second, which has just started, 20: neither is
    known to end.
    """
    seen = Recorder(lambda state: [0] + [None] * (state.num_waiting - 1))
    load, options = workload([10, 20, 30, 40], [9] * 4), {"delay": 1, "horizon": 3}
    simulate(load, seen, Cluster(1, 4), predictor="survival", **options)
    shown = {state.step: state.projected_loads.tolist() for state in seen.states}
    assert shown[2] == [[32, 32, 32, 32]]


def test_tables_are_fitted_when_enough_have_finished_and_not_when_first_asked_for() -> None:
    """With q = 1 nobody may ask before some have finished: they count after a refit alone."""
    load = Workload(np.ones(4, dtype=np.int64), np.full(4, 2))
    predictor = build("survival:refresh=1:refit=2", load)
    first, ages = np.array([0]), np.array([0])
    predictor.finished(first, np.array([2]))
    assert predictor.remaining(first, ages, 5).tolist() == [6]
    predictor.finished(first, np.array([2]))
    assert predictor.remaining(first, ages, 5).tolist() == [2]


@given(st.integers(1, 9), st.integers(1, 3), st.integers(0, 12))
def test_ages_beyond_a_table_are_its_last(ages: int, classes: int, age: int) -> None:
    """Each class has its own line; whoever is older than the table counts as its last age."""
    table = np.arange(classes * ages).reshape(classes, ages)
    history = new_history(classes, 1, longest=ages)
    told = predicted_by_tables(history, table, np.arange(classes), 1, False, 5)
    for kind in range(classes):
        assert predicted_steps(told, kind, age) == table[kind][: age + 1][-1]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=12, max_size=40))
def test_the_calendar_holds_who_was_put_on_it_and_not_struck(turns: list[tuple[int, int]]) -> None:
    """Lists linked both ways against sets; the last request has neighbours like any other."""
    told = predicted_by_draw(np.ones(5, dtype=np.int64), 6)
    expected: dict[int, int] = {}
    for request, due in turns:
        if request in expected:
            strike(told.calendar, request, expected.pop(request))
        else:
            enlist(told, request, due)
            expected[request] = due
        for slot, first in enumerate(told.calendar.first.tolist()):
            found = []
            while first >= 0:
                found.append(first)
                first = int(told.calendar.following[first])
            assert sorted(found) == sorted(i for i, at in expected.items() if at == slot)
