"""The readable engine, the compiled one, a naive one and the checker agree."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.batching.replay import violations
from bfio.batching.run import BatchRun
from bfio.batching.scenario import Scenario
from bfio.batching.simulation import simulate
from tests.batching.cases import scenarios
from tests.batching.naive import NaiveMachine


def assert_equal(one: BatchRun, other: BatchRun) -> None:
    """Two runs are the same in all that is counted, in their course and their logs."""
    for name in ("slot", "run", "engines", "stages", "times", "histograms"):
        assert np.array_equal(getattr(one.tallies, name), getattr(other.tallies, name)), name
    for name in ("slot", "prefilling", "decoding", "work", "arrived", "departed", "loaded"):
        assert np.array_equal(getattr(one.course, name), getattr(other.course, name)), name
    assert one.log is not None
    assert other.log is not None
    for name in ("tasks", "batches", "parts"):
        assert np.array_equal(getattr(one.log, name), getattr(other.log, name)), name


@given(scenarios(), st.integers(0, 9), st.integers(1, 150), st.integers(0, 40))
def test_both_engines_and_the_checker_agree(
    scenario: Scenario, seed: int, horizon: int, warmup: int
) -> None:
    """Any network, any policies, any laws: the same runs, which break no rule."""
    options = {
        "horizon": horizon,
        "warmup": min(warmup, horizon - 1),
        "blocks": 7,
        "ttft_deadline": 5,
        "tbt_deadline": 2,
        "e2e_deadline": 12,
    }
    runs = [
        simulate(scenario, seed=seed, engine=engine, keeps_log=True, **options)
        for engine in ("reference", "compiled")
    ]
    assert_equal(*runs)
    with patch("bfio.batching.simulation.interpreted", NaiveMachine):
        assert_equal(
            runs[0], simulate(scenario, seed=seed, engine="reference", keeps_log=True, **options)
        )
    broken = violations(runs[0])
    assert broken == {}, broken


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@given(scenario=scenarios(), seed=st.integers(0, 9))
def test_longer_runs_begin_like_shorter_ones(scenario: Scenario, seed: int, engine: str) -> None:
    """The log of a run is the beginning of that of a longer one; equal seeds give equal runs."""
    short, again, long = (
        simulate(scenario, seed=seed, engine=engine, keeps_log=True, horizon=horizon, blocks=3)
        for horizon in (40, 40, 90)
    )
    assert_equal(short, again)
    assert short.log is not None
    assert long.log is not None
    for name in ("tasks", "batches", "parts"):
        rows = getattr(short.log, name)
        assert np.array_equal(rows, getattr(long.log, name)[: len(rows)])
