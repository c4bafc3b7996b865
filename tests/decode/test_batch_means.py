"""Intervals of the metrics of a run."""

from bfio.decode.cluster import Cluster
from bfio.decode.metrics import half_widths
from bfio.decode.simulation import simulate
from bfio.workloads.synthetic_workloads import synthetic


def test_the_metrics_of_a_run() -> None:
    """Names of metrics, in their units; all None without a part."""
    run = simulate(synthetic("demo", 400, 0), "fcfs", Cluster(2, 8), pool=8)
    widths = half_widths(run, run.steady_mask())
    of_steps = {"avg_imbalance", "avg_gap", "idle_fraction", "throughput_tokens_per_s"}
    of_steps |= {"avg_load", "load_balance_efficiency", "balanced_throughput_tokens_per_s"}
    of_steps |= {"waiting_prompt_mean", "waiting_age_mean"}
    of_requests = {"tpot_mean_s", "queueing_delay_mean_s", "latency_mean_s", "ttft_mean_s"}
    of_requests |= {"started_prompt_mean"}
    of_none = {"prefix_hit_rate", "ready_delay_mean_s", "rest_share"}
    of_none |= {"prefill_mean_s", "budget_share"}
    assert set(widths) == of_steps | of_requests | of_none
    # There are no caches to hit, no prefill tier to become ready in, and nobody rests.
    assert widths["prefix_hit_rate"] is None
    assert widths["ready_delay_mean_s"] is None
    assert widths["rest_share"] is None
    assert all((widths[name] or 0) > 0 for name in of_steps)
    assert set(half_widths(run, None).values()) == {None}
