"""Real trace excerpts, if available: counts and numbers of their description."""

from pathlib import Path

import numpy as np
import pytest

from bfio.workloads import describe, read_pmf, read_trace

# Format, requests, rows without output (BurstGPT 1: 200 rows of which 9 failed).
EXCERPTS = {
    "azure_code_2023.csv": ("azure-2023", 200, 0),
    "azure_conv_2023.csv": ("azure-2023", 200, 0),
    "burstgpt_1.csv": ("burstgpt-1", 191, 9),
    "burstgpt_3.csv": ("burstgpt-3", 77, 0),
    "etalon_arxiv_summarization.csv": ("etalon", 200, 0),
    "etalon_bwb.csv": ("etalon", 200, 0),
    "etalon_sharegpt_8k.csv": ("etalon", 200, 0),
    "mooncake_conversation.jsonl": ("mooncake", 200, 0),
    "mooncake_synthetic.jsonl": ("mooncake", 200, 0),
    "vidur_splitwise_code.csv": ("vidur", 200, 0),
    "vidur_splitwise_conv.csv": ("vidur", 200, 0),
}
# Rows written, last arrival time [s].
CUTS = {
    "azure_code_2023": (6521, 2054.978947),
    "azure_conv_2023": (12340, 2100.512916),
    "mooncake_conversation": (6848, 2121.0),
    "mooncake_synthetic": (2319, 613.162),
    "burstgpt_1_first400": (191, 33779.0),
    "sharegpt_8k_untimed": (18438, None),
    "arxiv_summarization_untimed": (16954, None),
    "bwb_untimed": (20000, None),
    "bfio_burstgpt_8000_untimed": (4800, None),
}
# Mean, p95, p99 and maximum of the outputs, KS distance, correlation; requests per second and
# coefficient of variation of the gaps.
FIGURES = {
    "azure_code_2023": (27.3, 87.0, 248, 1899, 0.194, 0.004, 3.1733, 12.85),
    "azure_conv_2023": (204, 451, 602, 1000, 0.158, -0.167, 5.8748, 1.08),
    "mooncake_synthetic": (189, 569, 776, 842, 0.164, -0.377, 3.7820, 1.01),
    "burstgpt_1_first400": (305, 816, 1437, 1903, 0.118, 0.111, 0.0057, 3.41),
}


@pytest.mark.parametrize("name", sorted(EXCERPTS))
def test_excerpt(shared_data: Path, name: str) -> None:
    """The first lines of each original file are read without a bad row, starting at time 0."""
    workload = read_trace(shared_data / "raw_excerpts" / name)
    found = workload.provenance
    assert (found["format"], len(workload), found["dropped_zero_output"]) == EXCERPTS[name]
    assert found["skipped_bad_rows"] == 0
    assert found["out_of_order_rows"] == 0
    assert workload.arrival_times is None or workload.arrival_times[0] == 0


@pytest.mark.parametrize("name", sorted(CUTS))
def test_cut(shared_data: Path, name: str) -> None:
    """Row counts and last arrival times are those printed with the data."""
    workload = read_trace(shared_data / f"{name}.csv.gz")
    rows, last = CUTS[name]
    assert len(workload) == rows
    if last is None:
        assert workload.arrival_times is None
    else:
        assert workload.arrival_times is not None
        assert float(workload.arrival_times[-1]) == last


@pytest.mark.parametrize(
    ("excerpt", "cut"),
    [
        ("azure_code_2023.csv", "azure_code_2023"),
        ("azure_conv_2023.csv", "azure_conv_2023"),
        ("mooncake_conversation.jsonl", "mooncake_conversation"),
        ("mooncake_synthetic.jsonl", "mooncake_synthetic"),
        ("burstgpt_1.csv", "burstgpt_1_first400"),
        ("etalon_bwb.csv", "bwb_untimed"),
    ],
)
def test_excerpt_equals_head_of_cut(shared_data: Path, excerpt: str, cut: str) -> None:
    """Two independent ways from the published file agree exactly, request by request."""
    raw = read_trace(shared_data / "raw_excerpts" / excerpt)
    head = read_trace(shared_data / f"{cut}.csv.gz", limit=len(raw))
    assert raw.arrival_times == head.arrival_times
    assert np.array_equal(raw.prompt_tokens, head.prompt_tokens)
    assert np.array_equal(raw.output_tokens, head.output_tokens)


@pytest.mark.parametrize("kind", ["code", "conv"])
def test_vidur_is_azure(shared_data: Path, kind: str) -> None:
    """Vidur's files are the Azure ones up to float rounding of the times."""
    azure = read_trace(shared_data / "raw_excerpts" / f"azure_{kind}_2023.csv")
    vidur = read_trace(shared_data / "raw_excerpts" / f"vidur_splitwise_{kind}.csv")
    assert np.array_equal(azure.prompt_tokens, vidur.prompt_tokens)
    assert np.allclose(azure.arrival_seconds(), vidur.arrival_seconds(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_figures(shared_data: Path, name: str) -> None:
    """Statistics agree with the printed ones to their last digit."""
    figures = describe(read_trace(shared_data / f"{name}.csv.gz"))
    outputs, arrivals = figures["output_tokens"], figures["arrivals"]
    assert isinstance(outputs, dict)
    assert isinstance(arrivals, dict)
    mean, p95, p99, largest, ks, correlation, rate, cv = FIGURES[name]
    assert outputs["mean"] == pytest.approx(mean, rel=5e-3)
    assert outputs["p95"] == pytest.approx(p95, rel=5e-3)
    assert outputs["p99"] == pytest.approx(p99, rel=5e-3)
    assert outputs["max"] == largest
    assert outputs["ks_to_geometric"] == pytest.approx(ks, abs=6e-4)
    assert figures["correlation"] == pytest.approx(correlation, abs=6e-4)
    assert arrivals["requests_per_s"] == pytest.approx(rate, abs=6e-5)
    assert arrivals["inter_arrival_cv"] == pytest.approx(cv, abs=6e-3)


def test_quantised_arrivals(shared_data: Path) -> None:
    """Mooncake's conversation has 708 distinct times with up to 23 requests on one."""
    figures = describe(read_trace(shared_data / "mooncake_conversation.csv.gz"))["arrivals"]
    assert isinstance(figures, dict)
    assert (figures["distinct_times"], figures["most_at_one_time"]) == (708, 23)


@pytest.mark.parametrize(("kind", "mean"), [("input", 1375.3), ("output", 1827.7)])
def test_marginals(shared_data: Path, kind: str, mean: float) -> None:
    """The published histograms have the printed means."""
    law = read_pmf(shared_data / "marginals" / f"servegen_deepseek_r1_{kind}_pmf.csv.gz")
    assert law.mean == pytest.approx(mean, abs=0.06)
