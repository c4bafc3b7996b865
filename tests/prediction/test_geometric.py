"""Geometric or not: the test's size, intervals, hazard and residual life by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.cli.main import main
from bfio.prediction.geometric import GeometricFit, ages_of, geometric_fit, wilson
from bfio.workloads import read_trace
from bfio.workloads.statistics import ks_to_geometric
from formulations.errors import InputError


def _drawn(p: float, count: int, seed: int) -> GeometricFit:
    return geometric_fit(np.random.default_rng(seed).geometric(p, count))


def test_the_test_has_its_level() -> None:
    """Of geometric samples about 5 % exceed the critical value: 3 to 7.5 % of 800."""
    critical, rng = _drawn(0.05, 100, 0).critical, np.random.default_rng(1)
    distances = [ks_to_geometric(rng.geometric(0.05, 100)) for _ in range(800)]
    assert 0.03 < np.mean(np.array(distances) > critical) < 0.075


def test_the_critical_value_is_that_of_a_fitted_law() -> None:
    """Well below 1.36/√n, which is of a law that is known beforehand."""
    fit = _drawn(0.005, 1000, 1)
    assert 0.8 / np.sqrt(1000) < fit.critical < 1.2 / np.sqrt(1000)
    assert not fit.is_rejected
    assert fit.p_value > 0.05
    assert "geometric is not rejected" in fit.verdict
    assert fit.residuals == pytest.approx([1, 1, 1], abs=0.2)


@pytest.mark.parametrize(
    ("lengths", "trend"),
    [
        (np.random.default_rng(0).integers(1, 200, 2000), "rises"),
        (np.ceil(np.random.default_rng(0).pareto(1.5, 2000) * 20 + 1).astype(np.int64), "falls"),
        (np.full(200, 7), "rises"),
    ],
)
def test_others_are_rejected_and_their_hazard_told(lengths: np.ndarray, trend: str) -> None:
    """Uniform lengths end the sooner the older they are; of a Pareto law the later."""
    fit = geometric_fit(lengths)
    assert fit.is_rejected
    assert fit.p_value == 1 / 400
    assert trend in fit.trend
    assert fit.verdict.startswith("not geometric (KS 0.")


def test_hazard_and_residual_life_by_hand() -> None:
    """Lengths 1, 1, 3, 5: half end at age 0; ages 1 to 4 see 2 ends in 2 + 2 + 1 + 1 tokens."""
    first, second, third = ages_of(np.array([1, 1, 3, 5]), bins=4)
    assert [(e.lower, e.upper, e.at_risk, e.ends) for e in (first, second, third)] == [
        (0, 2, 4, 2),
        (2, 4, 2, 1),
        (4, 5, 1, 1),
    ]
    # Tokens at ages 0 and 1: 4 + 2; at ages 2 and 3: 2 + 1.
    assert [e.hazard for e in (first, second, third)] == [2 / 6, 1 / 3, 1]
    assert [e.residual for e in (first, second, third)] == [2.5, 2.0, 1.0]
    assert third.residual_upper == np.inf


@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=60))
def test_bins_account_for_every_token(lengths: list[int]) -> None:
    """Ends add up to requests, hazards to tokens, and intervals hold their estimates."""
    found = ages_of(np.array(lengths))
    assert sum(e.ends for e in found) == len(lengths)
    for e in found:
        emitted = sum(max(0, min(length, e.upper) - e.lower) for length in lengths)
        assert e.hazard == e.ends / emitted
    assert found[0].residual == pytest.approx(np.mean(lengths))
    for e in found:
        assert 0 <= e.hazard_lower <= e.hazard <= e.hazard_upper <= 1
    assert [e.upper for e in found[:-1]] == [e.lower for e in found[1:]]


def test_wilson_by_the_book() -> None:
    """Eight of ten: 0.490 to 0.943; none of ten: 0 to 0.278."""
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)


def test_too_little_to_say() -> None:
    """One line each."""
    with pytest.raises(InputError, match=r"output_tokens: 29 lengths are .*; give 30 or more"):
        geometric_fit(np.arange(1, 30))
    with pytest.raises(InputError, match="every length is 1"):
        geometric_fit(np.ones(50, dtype=np.int64))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A verdict for each trace, a picture of all."""
    place = tmp_path / "lengths.png"
    command = ["traces", "geometric", "--synthetic", "geometric", "--requests", "400"]
    assert main([*command, "--plot", str(place)]) == 0
    told = capsys.readouterr().out
    assert "geometric: geometric is not rejected (KS 0." in told.replace("\n", " ")
    assert place.read_bytes().startswith(b"\x89PNG")
    assert main([*command, "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)["traces"]
    assert document["rejected"] is False
    assert sum(entry["ends"] for entry in document["ages"]) == 400
    assert main(["traces", "geometric", "--synthetic", "demo", "--requests", "9"]) == 2
    assert "9 lengths are too few for a fit; give 30 or more" in capsys.readouterr().err


def test_files_of_one_name_are_two_traces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has its verdict; a synthetic workload beside them is refused."""
    files = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files.append(str(tmp_path / folder / "trace.csv"))
        rows = "".join(f"{i},5,{i % 7 + 1}\n" for i in range(40))
        Path(files[-1]).write_text(f"arrival_time_s,prompt_tokens,output_tokens\n{rows}")
    assert main(["traces", "geometric", *files, files[0], "--json"]) == 0
    documents = json.loads(capsys.readouterr().out)["traces"]
    assert [entry["name"] for entry in documents] == ["trace", files[1]]
    assert main(["traces", "geometric", *files, "--synthetic", "demo"]) == 2
    assert "--synthetic: " in capsys.readouterr().err


def test_published_lengths_are_not_geometric(shared_data: Path) -> None:
    """Distances as in the statistics beside the data."""
    for name, distance in (("burstgpt_1_first400", 0.118), ("mooncake_synthetic", 0.164)):
        fit = geometric_fit(read_trace(shared_data / f"{name}.csv.gz").output_tokens)
        assert fit.is_rejected
        assert fit.distance == pytest.approx(distance, abs=5e-4)
