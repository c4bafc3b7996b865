"""Both engines give the same run on the head of real traces."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from bfio.decode.cluster import Cluster
from bfio.workloads.trace_file import read_trace
from tests.decode.machine.equality import assert_same_run
from tests.pairs import pairs

TRACES: dict[str, dict[str, Any]] = {
    "bfio_burstgpt_8000_untimed": {"pool": 32},
    "azure_code_2023": {"arrivals": "timed", "rate_scale": 4},
    "mooncake_conversation": {"pool": 32, "projection": "growing", "predictor": "oracle"},
    "azure_conv_2023": {
        "pool": 32,
        "projection": "growing",
        "predictor": "oracle",
        "window_knows": "all",
    },
}
POLICIES = ("fcfs", "power-of-2", "max-min", "br-0", "br-h")


@pytest.mark.parametrize(("name", "trace"), pairs(POLICIES, [*TRACES]))
def test_head_of_a_trace(shared_data: Path, name: str, trace: str) -> None:
    """400 requests of each, on 4 workers of 24 slots."""
    requests = read_trace(shared_data / f"{trace}.csv.gz", limit=400)
    assert_same_run(requests, name, Cluster(workers=4, slots=24), **TRACES[trace])


LATE_OR_AGAIN: dict[str, dict[str, Any]] = {
    "delay": {"delay": 2},
    "recompute": {"overflow": "recompute"},
    "swap": {"overflow": "swap"},
}


@pytest.mark.parametrize(
    ("reason", "predictor"), pairs([*LATE_OR_AGAIN], ("survival", "exact-match"), each=1)
)
def test_predictors_that_learn_where_requests_start_late_or_again(
    shared_data: Path, reason: str, predictor: str
) -> None:
    """600 requests on 8 workers of 12 slots, after 400 that are learnt from."""
    requests = read_trace(shared_data / "azure_conv_2023.csv.gz", limit=1000).after(Fraction(2, 5))
    cluster = Cluster(8, 12, memory=None if reason == "delay" else 15_000)
    options = LATE_OR_AGAIN[reason]
    run = assert_same_run(requests, "br-h", cluster, predictor=predictor, **options)
    assert cluster.memory is None or len(run.interruptions) > 50
