"""The predictors and their registry."""

import sys
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.policy_registry import find
from bfio.decode.simulation import can_compile, simulate
from bfio.prediction import predictor as predictor_module
from bfio.prediction import registry
from bfio.prediction.predictor import Predictor
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.errors import InputError

LOAD = Workload(np.array([5, 6, 7]), np.array([1, 4, 100]))


def test_none_says_beyond_the_window() -> None:
    """Without information every request outlives H: H + 1."""
    predictor = registry.build("none", LOAD)
    assert predictor.remaining(np.array([0, 2]), np.array([0, 3]), 8).tolist() == [9, 9]


def test_oracle_counts_down_and_stops_at_the_window() -> None:
    """Output 4 after 1 token leaves 3; output 100 is beyond H = 8, told as 9."""
    predictor = registry.build("oracle", LOAD)
    found = predictor.remaining(np.array([0, 1, 2]), np.array([0, 1, 3]), 8)
    assert found.tolist() == [1, 3, 9]


@given(data=st.data(), horizon=st.integers(1, 120))
def test_oracle_is_right_at_every_age(data: st.DataObject, horizon: int) -> None:
    """It is min(o - a, H + 1), always within 1..H+1 for an unfinished request."""
    outputs = data.draw(st.lists(st.integers(1, 200), min_size=1, max_size=9))
    ages = [data.draw(st.integers(0, o - 1)) for o in outputs]
    load = Workload(np.ones(len(outputs), dtype=np.int64), np.array(outputs))
    found = registry.build("oracle", load).remaining(
        np.arange(len(outputs)), np.array(ages), horizon
    )
    expected = [min(o - a, horizon + 1) for o, a in zip(outputs, ages, strict=True)]
    assert found.tolist() == expected
    assert all(1 <= y <= horizon + 1 for y in expected)


@pytest.mark.parametrize("name", registry.names())
def test_names_are_those_of_the_registry(name: str) -> None:
    """A predictor carries its name, is told of finished requests and predicts as before."""
    spec = registry.find(name)
    if spec.needs and find_spec(spec.needs) is None:
        pytest.skip(f"{spec.needs} is not installed")
    predictor = registry.build(name, LOAD, history=LOAD)
    assert predictor.name.partition(":")[0] == name
    registry.find(name)
    requests, ages = np.array([1, 2]), np.array([0, 2])
    before = predictor.remaining(requests, ages, 5).tolist()
    predictor.finished(np.array([0]), np.array([1]))
    assert predictor.remaining(requests, ages, 5).tolist() == before


def test_unknown_names_list_the_known_ones() -> None:
    """The error names the close match and all predictors."""
    with pytest.raises(InputError, match=r"did you mean oracle.*learned, noisy-classifier"):
        registry.build("oracl", LOAD)
    with pytest.raises(
        InputError, match=f"'xyz' is unknown; use one of {', '.join(registry.names())}"
    ):
        registry.build("xyz", LOAD)
    with pytest.raises(InputError, match="oracle takes no option; write oracle"):
        registry.find("oracle:3")


@pytest.mark.parametrize("error", ["1.01", "2", "-0.1", "x", "1e-2", "1/0"])
def test_errors_of_a_noisy_oracle_out_of_range_are_refused(error: str) -> None:
    """It takes a rational in [0, 1]."""
    with pytest.raises(InputError, match="noisy-oracle"):
        registry.find(f"noisy-oracle:{error}")


def _noisy(outputs: list[int], error: str, seed: int) -> Predictor:
    load = Workload(np.ones(len(outputs), dtype=np.int64), np.array(outputs))
    return registry.build(f"noisy-oracle:{error}", load, seed)


@given(
    outputs=st.lists(st.integers(1, 10**6), min_size=1, max_size=9),
    percent=st.integers(0, 100),
    seed=st.integers(0, 2**63 - 1),
)
def test_a_noisy_oracle_is_within_its_error(outputs: list[int], percent: int, seed: int) -> None:
    """At age 0 it says ceil(o·f), f in [1 - e, 1 + e], at least 1; each token takes one off."""
    predictor = _noisy(outputs, f"{percent}/100", seed)
    requests, horizon = np.arange(len(outputs)), 3 * 10**6
    first = predictor.remaining(requests, np.zeros(len(outputs), dtype=np.int64), horizon)
    for length, told in zip(outputs, first.tolist(), strict=True):
        # One more for the rounding up, and for f itself being rounded.
        assert max(1, (100 - percent) * length / 100 - 1) <= told
        assert told <= (100 + percent) * length / 100 + 1
    ages = np.array([length - 1 for length in outputs])
    later = predictor.remaining(requests, ages, horizon)
    assert later.tolist() == np.maximum(first - ages, 1).tolist()


@given(outputs=st.lists(st.integers(1, 300), min_size=1, max_size=9), seed=st.integers(0, 99))
def test_without_error_it_is_the_oracle(outputs: list[int], seed: int) -> None:
    """At every age and window."""
    load = Workload(np.ones(len(outputs), dtype=np.int64), np.array(outputs))
    oracle, exact = registry.build("oracle", load), _noisy(outputs, "0", seed)
    for age in range(min(outputs)):
        for horizon in (1, 7, 500):
            asked = np.arange(len(outputs)), np.full(len(outputs), age), horizon
            assert exact.remaining(*asked).tolist() == oracle.remaining(*asked).tolist()


def test_a_request_that_outlives_its_prediction_is_about_to_end() -> None:
    """Always 1, never 0 or less; and never beyond H + 1."""
    predictor = _noisy([1000] * 50, "1", 0)
    found = predictor.remaining(np.arange(50), np.full(50, 999), 5)
    assert found.min() == 1
    assert found.max() <= 6


def test_the_factors_are_uniform_and_independent_of_the_policy() -> None:
    """Mean 1 and spread e/√3 over many requests; the seed alone decides."""
    outputs = [10**6] * 4000
    found = _noisy(outputs, "0.5", 3).remaining(
        np.arange(4000), np.zeros(4000, dtype=np.int64), 10**7
    )
    factors = found / 10**6
    assert factors.mean() == pytest.approx(1.0, abs=0.02)
    assert factors.std() == pytest.approx(0.5 / np.sqrt(3), rel=0.05)
    assert 0.5 <= factors.min() < 0.51 < 1.49 < factors.max() <= 1.5 + 1e-6
    again = _noisy(outputs, "0.5", 3).remaining(np.array([7]), np.array([0]), 10**7)
    other = _noisy(outputs, "0.5", 4).remaining(np.array([7]), np.array([0]), 10**7)
    assert again[0] == found[7] != other[0]


def test_the_compiled_engine_leaves_it_to_the_reference() -> None:
    """There is no kernel: asked for one, it is refused; otherwise the run is the reference's."""
    assert not can_compile(find("br-h"), "noisy-classifier")
    load = Workload(np.arange(1, 41), np.arange(1, 41))
    for name in (
        "noisy-classifier:auc=0.8:refresh=3",
        "noisy-oracle:model=bias:error=1:of=remaining",
    ):
        run = simulate(load, "br-h", Cluster(2, 4), pool=8, predictor=name, seed=2)
        assert run.options.predictor == name
        assert run.is_drained
        with pytest.raises(InputError, match="compiled engine cannot run"):
            simulate(load, "br-h", engine="compiled", predictor=name)


MODULE = '''
import sys
from importlib.metadata import EntryPoint
from itertools import product
from pathlib import Path

import numpy as np


class Mean:
    """As long as those of the past and those that have finished, on average."""

    name = "mean"

    def __init__(self, task):
        assert task.output_tokens is None
        self.past = [] if task.history is None else task.history.output_tokens.tolist()
        Mean.latest = self

    def remaining(self, requests, ages, horizon):
        if not self.past:
            return np.full(len(requests), horizon + 1)
        return np.maximum(1, sum(self.past) // len(self.past) - ages)

    def finished(self, requests, outputs):
        self.past += outputs.tolist()


number = 3
'''


@pytest.fixture
def users_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a user's predictor into a working directory."""
    (tmp_path / "my_bfio_predictor.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_bfio_predictor", raising=False)
    return "my_bfio_predictor"


def test_a_users_predictor_learns_and_sees_no_future(users_module: str) -> None:
    """It is told of the past and of what finishes; its run is recorded under its name."""
    options = {"horizon": 4, "pool": 2, "predictor": f"{users_module}:Mean"}
    run = simulate(LOAD, "br-h", Cluster(1, 2), history=LOAD, **options)
    assert run.options.predictor == "mean"
    assert sys.modules[users_module].Mean.latest.past == [1, 4, 100, 1, 4, 100]
    assert run.engine == "reference"
    with pytest.raises(InputError, match=r"an int is not callable; name a function of \(task\)"):
        registry.find(f"{users_module}:number")
    with pytest.raises(InputError, match="has no missing"):
        registry.find(f"{users_module}:missing")


def test_installed_predictors_join(users_module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point of the group is listed and built."""
    point = EntryPoint("mean", f"{users_module}:Mean", registry.GROUP)
    monkeypatch.setattr(registry, "installed", lambda group: {"mean": point})
    assert registry.names()[-1] == "mean"
    assert registry.build("mean", LOAD).name == "mean"


def test_the_oracle_as_an_object_is_the_oracle() -> None:
    """Asked at each step, it gives the run that the engine makes from the lengths it knows."""
    rng = np.random.default_rng(5)
    load = Workload(rng.integers(1, 90, 150), rng.geometric(1 / 9, 150))
    for projection, knows in product(("constant", "growing"), ("active", "all")):
        options = {"pool": 12, "projection": projection, "window_knows": knows}
        options["engine"] = "reference"
        known = simulate(load, "br-h", Cluster(3, 4), predictor="oracle", **options)
        asked = simulate(
            load,
            "br-h",
            Cluster(3, 4),
            predictor=registry.build("oracle", load),
            **options,
        )
        assert known.worker.tolist() == asked.worker.tolist()
        assert known.start_step.tolist() == asked.start_step.tolist()


class Endless:
    """A predictor that never answers."""

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Never answer."""
        while True:
            pass


class Negative:
    """Takes ages off a length without looking."""

    def remaining(self, requests: IntArray, ages: IntArray, horizon: int) -> IntArray:
        """Return less than nothing."""
        return 1 - ages


@pytest.mark.parametrize(
    ("predictor", "message"),
    [
        (Endless(), "a call for . requests takes more than 0.1 s"),
        (Negative(), "returned -1 remaining"),
    ],
)
def test_what_no_run_can_use_is_one_line(predictor: Any, message: str) -> None:
    """A predictor that does not come back, and steps below 0."""
    load = Workload(np.full(9, 5), np.array([3, 2] * 4 + [9]))
    with (
        patch.object(predictor_module, "PATIENCE_S", 0.1),
        pytest.raises(InputError, match=f"^predictor {type(predictor).__name__}: {message}"),
    ):
        simulate(load, "br-h", Cluster(1, 2), horizon=2, predictor=predictor)
