"""Intervals of the metrics of a run."""

from bfio.decode.batch_means import half_widths
from bfio.decode.cluster import Cluster
from bfio.decode.simulation import simulate
from bfio.workloads.synthetic_workloads import synthetic


def test_the_metrics_of_a_run() -> None:
    """Names of metrics, in their units; all None without a part."""
    run = simulate(synthetic("demo", 400, 0), "fcfs", Cluster(2, 8), pool=8)
    widths = half_widths(run, run.steady_mask())
    assert set(widths) == {
        "avg_imbalance", "avg_gap", "idle_fraction", "throughput_tokens_per_s",
    }  # fmt: skip
    assert all(width is not None and width > 0 for width in widths.values())
    assert set(half_widths(run, None).values()) == {None}
