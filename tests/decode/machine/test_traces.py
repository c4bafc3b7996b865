"""Both engines give the same run on the head of real traces."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from bfio.decode.cluster import Cluster
from bfio.workloads.reader import read_trace
from tests.decode.machine.equality import assert_same_run


@pytest.mark.parametrize(
    ("trace", "options"),
    [
        ("bfio_burstgpt_8000_untimed", {"pool": 32}),
        ("azure_code_2023", {"arrivals": "timed", "rate_scale": 4}),
        ("mooncake_conversation", {"pool": 32, "projection": "growing", "predictor": "oracle"}),
        (
            "azure_conv_2023",
            {"pool": 32, "projection": "growing", "predictor": "oracle", "window_knows": "all"},
        ),
    ],
)
@pytest.mark.parametrize("name", ["fcfs", "power-of-2", "max-min", "br-0", "br-h"])
def test_head_of_a_trace(
    shared_data: Path, trace: str, options: dict[str, Any], name: str
) -> None:
    """400 requests of each, on 4 workers of 24 slots."""
    requests = read_trace(shared_data / f"{trace}.csv.gz", limit=400)
    assert_same_run(requests, name, Cluster(workers=4, slots=24), **options)


@pytest.mark.parametrize("predictor", ["survival", "exact-match"])
@pytest.mark.parametrize(
    "options", [{"delay": 2}, {"memory": 15_000}, {"memory": 15_000, "overflow": "swap"}]
)
def test_predictors_that_learn_where_requests_start_late_or_again(
    shared_data: Path, options: dict[str, Any], predictor: str
) -> None:
    """600 requests on 8 workers of 12 slots, after 400 that are learnt from."""
    requests = read_trace(shared_data / "azure_conv_2023.csv.gz", limit=1000).after(Fraction(2, 5))
    given = dict(options)
    cluster = Cluster(8, 12, memory=given.pop("memory", None))
    run = assert_same_run(requests, "br-h", cluster, predictor=predictor, **given)
    assert cluster.memory is None or len(run.interruptions) > 50
