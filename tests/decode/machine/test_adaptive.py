"""Compiled runs of `adaptive` make the decisions of the readable policy, including rehearsals."""

import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.replay import run_violations
from tests.decode.machine.equality import assert_same_run
from tests.decode.machine.test_greedy import lengths

NAME = "adaptive"


@pytest.mark.parametrize("predictor", ["none", "oracle"])
def test_a_longer_run_is_the_same(predictor: str) -> None:
    """300 requests on 6 workers, many rehearsals, more than one setting; nothing is lost."""
    requests, cluster = lengths(300, seed=8), Cluster(workers=6, slots=9)
    run = assert_same_run(
        requests,
        NAME,
        cluster,
        dict(horizon=20),
        pool=20,
        predictor=predictor,
        projection="growing",
    )
    assert run_violations(run, requests, cluster) == {}
    assert run.is_drained
    assert run.statistics["rehearsals"] > 4  # type: ignore[operator]
    assert len(run.statistics["decisions"]) > 2  # type: ignore[arg-type]
