"""Arguments of rows: what is refused before a study begins."""

from pathlib import Path
from typing import Any

import pytest

from bfio.studies import kinds
from bfio.studies.row import RowContext
from formulations.errors import InputError

DRAWN: dict[str, Any] = {
    "policy": "fcfs",
    "prompts": "uniform:lowest=1:highest=9",
    "outputs": "geometric:mean=4",
    "requests": 20,
    "workers": 2,
    "slots": 2,
}


def _instance(kind: str, folder: Path = Path(), **arguments: Any) -> str:
    return kinds.find(kind).instance(arguments, RowContext(folder))


@pytest.mark.parametrize("kind", ["simulate", "gap", "improvement-ratio"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"polcy": "fcfs"}, r"argument polcy: unknown; did you mean policy\? use .*workers"),
        ({"policy": "fcsf"}, "fcsf: unknown policy; did you mean"),
        ({"policy": "br-h:horizn=3"}, "horizn: unknown option; did you mean horizon"),
        ({"policy": "br-h:horizon=x"}, "'x' is not a value of horizon"),
        ({"policy": "no_such_module:f"}, "no module named no_such_module"),
        ({"policy": None}, "argument policy: missing"),
        ({"policy": 3}, "argument policy: 3 is not a string"),
        ({"policy": "adaptive", "dispatch": "immediate"}, "cannot bind a request when it arrives"),
        ({"workers": 2.0}, "argument workers: 2.0 is not an integer"),
        ({"slots": True}, "argument slots: True is not a number"),
        ({"token_time": "fast"}, "argument token_time: 'fast' is not a number"),
        ({"token_time": -1.0}, "argument token_time: -1.0 s"),
        ({"mean_time": 1e9}, "argument mean_time: "),
        ({"params": 0.0}, "argument params: 0.0 is out of range"),
        ({"arrivals": "timely"}, "arrivals: 'timely' is unknown"),
        ({"arrivals": "timed"}, "the requests have no arrival times"),
        ({"dispatch": "later"}, "dispatch: 'later' is unknown"),
        ({"projection": "flat"}, "projection: 'flat' is unknown"),
        ({"predictor": "oracel"}, "did you mean oracle"),
        ({"predictor": "noisy-oracle:2"}, "noisy-oracle: error 2"),
        ({"drift": "age:x"}, "argument drift: 'x' is not a list"),
        ({"drift": -0.5}, "argument drift: -0.5 is out of range"),
        ({"rate_scale": "fast"}, "argument rate_scale: 'fast' is not a number; give a number > 0"),
        ({"engine": "quick"}, "argument engine: 'quick' is unknown"),
        ({"steps": 0}, "argument steps: 0 is out of range"),
        ({"warm_up": -1}, "argument warm_up: -1 is out of range"),
        ({"seed": -1}, "argument seed: -1 is out of range"),
        ({"pool": 5, "pool_per_worker": 2}, "pool is given as well"),
        ({"gamma": 1.5}, "gamma: 3/2 is out of range"),
        ({"horizon": -1}, "horizon: -1 is out of range"),
        ({"threshold": 1.5}, "threshold: 1.5 is not an integer"),
        ({"objective": "sum"}, "objective: 'sum' is unknown"),
        ({"time_limit": 0}, "argument time_limit: 0.0 s"),
        ({"prompts": None}, "argument prompts: needs outputs"),
        ({"outputs": "geometrc:mean=4"}, "did you mean geometric"),
        ({"outputs": "geometric"}, "lacks a parameter; add mean"),
        ({"prompts": None, "outputs": None}, "no source of requests is given; give trace"),
        ({"synthetic": "demo"}, "argument prompts: synthetic is given as well"),
        ({"trace": "a.csv"}, "trace is given as well"),
        ({"resample": True}, "argument resample: it needs a trace"),
        ({"output_mean": 3}, "option 'mean' occurs twice"),
        ({"outputs": "homogeneous", "output_mean": 3}, "unknown option 'mean'; use one of value"),
        (
            {"synthetic": "demo", "prompts": None, "outputs": None, "output_mean": 3},
            "argument output_mean: synthetic is given as well",
        ),
        ({"window": 0, "windows": 2}, "argument window: it needs a trace"),
        ({"requests_per_slot": 2}, "requests is given as well"),
        ({"requests": 0}, "argument requests: 0 is out of range"),
    ],
)
def test_a_slip_is_named(kind: str, change: dict[str, Any], message: str) -> None:
    """Wrong names, types and values stop every kind while it plans."""
    with pytest.raises(InputError, match=message):
        _instance(kind, **{**DRAWN, **change})


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("gap", {"every": 0}, "argument every: 0 is out of range"),
        ("gap", {"method": "highs"}, "'highs' cannot prove the optimum"),
        ("gap", {"gap_horizon": 9999}, "argument gap_horizon: 9999"),
        ("gap", {"gap_gamma": "x"}, "argument gap_gamma"),
        ("gap", {"baseline": "fcfs"}, "argument baseline: unknown"),
        ("improvement-ratio", {"baseline": "fcsf"}, "did you mean fcfs"),
        ("improvement-ratio", {"workers": 1}, "one worker is always balanced"),
        ("simulate", {"every": 2}, "argument every: unknown"),
    ],
)
def test_a_slip_of_one_kind_is_named(kind: str, change: dict[str, Any], message: str) -> None:
    """What only one kind knows is checked by it alone."""
    with pytest.raises(InputError, match=message):
        _instance(kind, **{**DRAWN, **change})


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    """While planning, with its whole path."""
    with pytest.raises(InputError, match=r"absent\.csv"):
        _instance("simulate", tmp_path, policy="fcfs", trace="absent.csv")


@pytest.mark.parametrize(
    "change",
    [
        {"pool_per_worker": 3},
        {"pool_per_slot": 1},
        {"outputs": "geometric", "output_mean": 5},
        {"requests": None, "requests_per_slot": 5},
        {"drift": 0.5},
        {"drift": "global-step:2,1"},
        {"gamma": 0.86, "alpha": 2, "beta": "43/2"},
        {"time_limit": None, "horizon": None},
        {"predictor": "noisy-oracle:0.25"},
        {"dispatch": "immediate", "policy": "jsq"},
        {"policy": "br-h:horizon=3:gamma=9/10"},
    ],
)
def test_what_a_study_file_can_say_is_taken(change: dict[str, Any]) -> None:
    """Decimals are rationals as printed; None counts as not given."""
    assert len(_instance("simulate", **{**DRAWN, **change})) == 16
