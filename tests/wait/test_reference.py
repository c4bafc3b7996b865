"""The machine gives the run of the list-based reference engine, for any policy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.wait.fcfs import Favour
from bfio.wait.policy import Decision, StagePolicy, StageState
from bfio.wait.run import StageRun
from bfio.wait.simulation import serve
from tests.wait.cases import first_come_policies, instances, nested_policies, wait_policies
from tests.wait.reference import PlainFirstCome, PlainRun, plain_run

MOST = 60


class Anything:
    """Evict, start and go on as drawn; equal seeds answer alike."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, state: StageState) -> Decision:
        """Return any decision."""
        evict = [i for i in state.held if self.rng.random() < 0.2]
        batch = [i for i in (*state.held, *state.waiting) if self.rng.random() < 0.6]
        self.rng.shuffle(batch)
        return Decision(batch, evict)


def assert_same(run: StageRun, plain: PlainRun) -> None:
    """Compare all that happened."""
    tables = (
        (run.batches, plain.batches, 6),
        (run.log.events(), plain.events, 3),
        (run.evictions, plain.evictions, 2),
    )
    for table, rows, columns in tables:
        expected = np.array(rows, dtype=np.int64).reshape(-1, columns)
        assert np.array_equal(np.column_stack(list(vars(table).values())), expected)
    times = np.column_stack((run.prefilled, run.first_token, run.completion))
    assert times.tolist() == plain.times


@given(st.data())
def test_any_decisions(data: st.DataObject) -> None:
    """Starts in any order, pauses, and evictions, also of those that start again at once."""
    drawn, seed = data.draw(instances()), data.draw(st.integers(0, 2**32))
    run = serve(drawn, Anything(seed), batches=MOST, engine="reference")
    assert_same(run, plain_run(drawn, Anything(seed), MOST))


@given(st.data())
def test_threshold_policies(data: st.DataObject) -> None:
    """On either engine of the machine."""
    drawn = data.draw(instances())
    policy: StagePolicy = data.draw(st.one_of(wait_policies(drawn), nested_policies(drawn)))
    engine = data.draw(st.sampled_from(["reference", "compiled"]))
    run = serve(drawn, policy, batches=MOST, engine=engine)
    assert_same(run, plain_run(drawn, policy, MOST))


@pytest.mark.parametrize(
    ("favour", "mixed"), [(Favour.ONGOING, True), (Favour.NEW, True), (Favour.NEW, False)]
)
@given(st.data())
def test_first_come_first_served(favour: Favour, mixed: bool, data: st.DataObject) -> None:
    """The decisions are stated once for both engines, and here a second time."""
    drawn = data.draw(instances())
    rule = replace(data.draw(first_come_policies()), favour=favour, mixed=mixed)
    engine = data.draw(st.sampled_from(["reference", "compiled"]))
    run = serve(drawn, rule, batches=MOST, engine=engine)
    assert_same(run, plain_run(drawn, PlainFirstCome(rule), MOST))
