from pathlib import Path

import pytest

from benchmarks.requests import SYNTHETIC, draw, requests_digest
from formulations.errors import InputError


def test_equal_seeds_draw_equal_requests(tmp_path: Path) -> None:
    """And other seeds others."""
    first, again, other = (draw(SYNTHETIC, 50, 100, seed, tmp_path) for seed in (1, 1, 2))
    assert first.prompt_tokens.tolist() == again.prompt_tokens.tolist()
    assert first.output_tokens.tolist() == again.output_tokens.tolist()
    assert first.prompt_tokens.tolist() != other.prompt_tokens.tolist()


def test_a_trace_is_resampled_at_the_mean(tmp_path: Path) -> None:
    """Prompts stay with their outputs, which are rescaled: 10, 30 to mean 4 are 2, 6."""
    lines = "arrival_time_s,prompt_tokens,output_tokens\n,7,10\n,9,30\n"
    import gzip

    (tmp_path / "tiny.csv.gz").write_bytes(gzip.compress(lines.encode()))
    workload = draw("tiny.csv.gz", 200, 4, 0, tmp_path)
    pairs = zip(workload.prompt_tokens.tolist(), workload.output_tokens.tolist(), strict=True)
    assert set(pairs) == {(7, 2), (9, 6)}


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    """With what to do about it."""
    with pytest.raises(InputError, match="nowhere"):
        requests_digest("nowhere.csv", tmp_path)


@pytest.mark.parametrize("name", ["bfio_burstgpt_8000_untimed.csv.gz", "azure_conv_2023.csv.gz"])
def test_the_real_cuts_are_readable(name: str, shared_data: Path) -> None:
    """The mean output of many draws is near the wanted one."""
    workload = draw(name, 20_000, 100, 0, shared_data)
    assert abs(workload.output_tokens.mean() - 100) < 10
