"""Lengths of waiting requests do not influence a decision unless the window may use them."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode import engine
from bfio.decode.cluster import Cluster
from bfio.decode.machine.window import remaining_of
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray

MACHINE = Cluster(workers=3, slots=3)
_POLICY = "br-h:horizon=6"
#: Requests that turn over the nine slots a few times, about as long as the windows.
_NUM_REQUESTS = 40


def _drawn(seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    return Workload(rng.integers(1, 60, _NUM_REQUESTS), rng.geometric(1 / 5, _NUM_REQUESTS))


def _with_other_waiting(run: Run, requests: Workload, step: int, seed: int) -> Workload:
    """Return the requests with other true lengths of all that wait at the decision of a step."""
    waits = (run.start_step < 0) | (run.start_step >= step)
    others = np.random.default_rng(seed).geometric(1 / 5, len(requests))
    outputs = np.where(waits, others, requests.output_tokens)
    return Workload(requests.prompt_tokens, outputs)


def _decisions(run: Run, step: int) -> list[list[int]]:
    """Return the started requests and their workers up to a step, including its decisions."""
    started = (run.start_step >= 0) & (run.start_step <= step)
    return [np.where(started, values, -1).tolist() for values in (run.start_step, run.worker)]


def _is_told(requests: Workload, policy: str, step: int, seed: int, **options: Any) -> bool:
    """Whether other lengths of waiting requests change a decision up to the step."""
    options = {"pool": 8, "predictor": "oracle", "projection": "growing", "horizon": 6} | options
    before = simulate(requests, policy, MACHINE, seed=seed, **options)
    replaced = _with_other_waiting(before, requests, step, seed)
    after = simulate(replaced, policy, MACHINE, seed=seed, steps=step + 1, **options)
    return _decisions(before, step) != _decisions(after, step)


@pytest.mark.parametrize(
    ("policy", "kind", "predictor"),
    [
        (_POLICY, "compiled", "oracle"),
        (_POLICY, "reference", "oracle"),
        (_POLICY, "reference", "noisy-oracle:0.5"),
        ("tests.decode.cases:least_projected", "reference", "oracle"),
    ],
)
@given(
    seed=st.integers(0, 2**31),
    step=st.integers(0, 25),
    projection=st.sampled_from(["constant", "growing"]),
)
def test_lengths_of_waiting_requests_change_no_decision(
    policy: str, kind: str, predictor: str, seed: int, step: int, projection: str
) -> None:
    """Whatever they are, with a predictor that tells the engine or is asked by it."""
    options = {"predictor": predictor, "projection": projection, "engine": kind}
    assert not _is_told(_drawn(seed), policy, step, seed, **options)


@pytest.mark.parametrize("kind", ["compiled", "reference"])
def test_where_they_leak_decisions_change(kind: str) -> None:
    """The test above can fail: with ``all``, and in an engine that forgets who waits."""

    def told(**options: Any) -> int:
        return sum(
            _is_told(_drawn(seed), _POLICY, 12, seed, engine=kind, **options) for seed in range(10)
        )

    def leaky(state: Any, waiting: IntArray) -> IntArray:
        return remaining_of(state, state.requests.output[waiting], True)

    assert told() == 0
    assert told(window_knows="all") > 0
    if kind == "reference":
        with patch.object(engine, "remaining_waiting", leaky):
            assert told() > 0
