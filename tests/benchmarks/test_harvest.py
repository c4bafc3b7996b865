"""Step problems of runs: cold starts, warm steps, windows."""

import gzip
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks.requests import SYNTHETIC, draw, requests_digest
from benchmarks.step_harvest import (
    LONGEST,
    Harvest,
    Size,
    harvested,
    with_discount,
    with_extra,
    with_horizon,
)
from benchmarks.step_times import KIND, digest
from bfio.studies.row import RowContext, RowResult
from formulations.errors import InputError

WANTED = Harvest(Size(3, 4, 8), SYNTHETIC, Path(), 6, "constant", seed=3, warm=2)


@pytest.mark.parametrize("projection", ["constant", "growing"])
@pytest.mark.parametrize("warm", [0, 1, 5])
def test_cold_starts_and_warm_steps(projection: str, warm: int) -> None:
    """One cold start and as many warm steps as asked, each what its name says."""
    cold, *others = harvested(replace(WANTED, projection=projection, warm=warm))
    assert not cold.base.any()
    assert len(others) == warm
    for problem in others:
        # 3 workers of 4 slots take 12 requests, 8 of which are revealed at the first step.
        assert 1 <= problem.capacity.sum() <= 12
        assert problem.num_requests >= 1
        assert problem.base.shape == (3, LONGEST + 1)
        assert problem.base.any()


def test_a_growing_window_grows() -> None:
    """Waiting requests gain a token per step under that projection, none under the other."""
    for projection, growth in (("constant", 0), ("growing", 1)):
        for problem in harvested(replace(WANTED, projection=projection)):
            assert (np.diff(problem.contribution, axis=1) == growth).all()


def test_ends_that_the_window_knows() -> None:
    """Active requests end within it; waiting ones only if it knows all, and grow otherwise."""
    known = replace(WANTED, size=Size(3, 4, 8), projection="growing", predictor="oracle")
    for knows in ("active", "all"):
        _, *warm = harvested(replace(known, window_knows=knows))
        for problem in warm:
            # Outputs are 6 tokens in the mean: nobody runs for the 80 steps of the window.
            assert not problem.base[:, -1].any()
            grows = (np.diff(problem.contribution, axis=1) == 1).all(axis=1)
            assert grows.all() if knows == "active" else not grows.any()


def test_a_harvest_is_a_function_of_its_arguments() -> None:
    """Made twice, the problems are equal; more warm steps leave the first ones as they are."""
    first = [digest(problem) for problem in harvested(WANTED)]
    harvested.cache_clear()
    assert [digest(problem) for problem in harvested(WANTED)] == first
    assert [digest(problem) for problem in harvested(replace(WANTED, warm=3))][:3] == first
    assert [digest(problem) for problem in harvested(replace(WANTED, seed=50))] != first


def test_too_few_requests_are_an_error(tmp_path: Path) -> None:
    """A trace whose requests all end at once never fills the cluster."""
    lines = "arrival_time_s,prompt_tokens,output_tokens\n,7,1\n"
    (tmp_path / "short.csv.gz").write_bytes(gzip.compress(lines.encode()))
    wanted = replace(
        WANTED, size=Size(3, 4, 2), requests="short.csv.gz", folder=tmp_path, output_mean=1
    )
    with pytest.raises(InputError, match="ended after 0 warm steps"):
        harvested(wanted)


def test_shorter_windows_are_the_first_columns() -> None:
    """A window cut to H = 0 is the problem of that step alone; a full one is the problem."""
    for problem in harvested(WANTED):
        cut = with_horizon(problem, 0)
        assert cut.base.tolist() == problem.base[:, :1].tolist()
        assert cut.contribution.tolist() == problem.contribution[:, :1].tolist()
        assert digest(with_horizon(problem, LONGEST)) == digest(problem)
        assert digest(cut) != digest(problem)


def test_a_row_solves_the_problem_that_its_moment_names() -> None:
    """Cold, then the first and second warm step."""
    problems = [digest(with_horizon(problem, 1)) for problem in harvested(WANTED)]
    arguments = {"size": "3x4-r8", "output_mean": 6, "seed": 3, "horizon": 1, "method": "br-0"}
    for moment, wanted in zip(("cold", "warm-1", "warm-2"), problems, strict=True):
        result = KIND.compute({**arguments, "moment": moment}, RowContext(Path()))
        assert isinstance(result, RowResult)
        assert result.values["problem"] == wanted


def test_a_row_adds_what_it_names() -> None:
    """A discount to the weights, capacities to the problem: both are those of the library."""
    cold = with_discount(with_horizon(harvested(WANTED)[0], 1), Fraction(1, 2))
    assert (cold.weights, cold.scale) == ((1_000_000, 500_000), 1_000_000)
    arguments = {"size": "3x4-r8", "output_mean": 6, "seed": 3, "horizon": 1, "method": "cp-sat"}
    arguments |= {"discount": "1/2", "extra": "memory", "moment": "cold"}
    result = KIND.compute(arguments, RowContext(Path()))
    assert isinstance(result, RowResult)
    assert result.values["problem"] == digest(with_extra(cold, "memory", 3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "16 by 72"}, "not a size"),
        ({"moment": "warm"}, "moment"),
        ({"method": "gurobi"}, "unknown"),
        ({"mehtod": "exact"}, "unknown"),
        ({"predictor": "oracel"}, "did you mean oracle"),
        ({"window_knows": "waiting"}, "use one of active, all"),
        ({"discount": "3/2"}, "exceeds 1"),
        ({"extra": "memroy"}, "did you mean memory"),
        ({"method": "highs", "work_limit": 9}, "method highs takes none"),
    ],
)
def test_slips_are_told_before_anything_is_measured(
    change: dict[str, str | int], message: str
) -> None:
    """By the check of the arguments."""
    with pytest.raises(InputError, match=message):
        KIND.instance(change, RowContext(Path()))


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
