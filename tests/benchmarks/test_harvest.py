from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.step_solvers.harvest import Harvest, Size, harvest
from benchmarks.step_solvers.instances import (
    digest,
    read_instances,
    stored_instances,
    with_horizon,
    write_instances,
)
from benchmarks.workloads import SYNTHETIC
from formulations.errors import InputError
from tests.benchmarks.examples import STORED, stored_problems

WANTED = Harvest(Size(3, 4, 8), SYNTHETIC, 6, "constant", horizon=2, instances=5, seed=3)


@pytest.mark.parametrize("projection", ["constant", "growing"])
@pytest.mark.parametrize("instances", [1, 5, 12])
def test_cold_starts_and_warm_steps(projection: str, instances: int, tmp_path: Path) -> None:
    """As many warm steps as asked, one cold start per run, each kind what its name says."""
    wanted = replace(WANTED, projection=projection, instances=instances)
    found = list(harvest(wanted, tmp_path))
    cold = [i for i in found if i.kind == "cold"]
    warm = [i for i in found if i.kind == "warm"]
    assert len(warm) == instances
    assert [i.seed for i in cold] == [3 + k for k in range(min(10, instances))]
    for instance in cold:
        assert instance.step == 0
        assert not instance.problem.base.any()
    for instance in warm:
        # 3 workers of 4 slots take 12 requests, 8 of which are revealed at the first step.
        assert instance.step >= 1 + 6
        assert 1 <= instance.problem.capacity.sum() <= 12
        assert instance.problem.num_requests >= 1
        assert instance.problem.base.shape == (3, 3)


def test_a_growing_window_grows(tmp_path: Path) -> None:
    """Waiting requests gain a token per step under that projection, none under the other."""
    for projection, growth in (("constant", 0), ("growing", 1)):
        for instance in harvest(replace(WANTED, projection=projection), tmp_path):
            steps = np.diff(instance.problem.contribution, axis=1)
            assert (steps == growth).all()


def test_a_harvest_is_a_function_of_its_seed(tmp_path: Path) -> None:
    """Stored twice, it gives equal bytes; another seed gives other problems."""
    for name in ("a", "b"):
        stored_instances(WANTED, tmp_path / name, tmp_path)
    (first,), (second,) = ((tmp_path / n).rglob("*.jsonl.gz") for n in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    other = [digest(i.problem) for i in harvest(replace(WANTED, seed=50), tmp_path)]
    assert other != [digest(i.problem) for i in read_instances(first)]


def test_too_few_requests_are_an_error(tmp_path: Path) -> None:
    """A trace whose requests all end at once never fills the cluster."""
    import gzip

    lines = "arrival_time_s,prompt_tokens,output_tokens\n,7,1\n"
    (tmp_path / "short.csv.gz").write_bytes(gzip.compress(lines.encode()))
    wanted = replace(WANTED, size=Size(3, 4, 2), workload="short", output_mean=1)
    with pytest.raises(InputError, match="ended after 0 warm steps"):
        list(harvest(wanted, tmp_path))


def test_a_file_of_another_harvest_is_refused(tmp_path: Path) -> None:
    """Instances are not taken for what they are not."""
    path = tmp_path / "x.jsonl.gz"
    write_instances(path, WANTED, ())
    with pytest.raises(InputError, match="made by another harvest"):
        read_instances(path, replace(WANTED, seed=4))


@pytest.mark.parametrize("content", [b"", b"not gzip", STORED.read_bytes()[:200]])
def test_a_damaged_file_is_an_error(content: bytes, tmp_path: Path) -> None:
    """Empty, of another kind, or cut off."""
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="unreadable"):
        read_instances(path)


def test_shorter_windows_are_the_first_columns() -> None:
    """A window cut to H = 0 is the problem of that step alone, and H = 2 changes nothing."""
    for problem in stored_problems():
        cut = with_horizon(problem, 0)
        assert cut.base.tolist() == problem.base[:, :1].tolist()
        assert cut.contribution.tolist() == problem.contribution[:, :1].tolist()
        assert digest(with_horizon(problem, 2)) == digest(problem)
        assert digest(cut) != digest(problem)
