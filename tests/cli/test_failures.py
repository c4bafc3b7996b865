"""Of several policies or predictors some fail: the others are shown, and each error is told."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Bfio

LOAD = {"classes": [{"rate": 1, "prompt": 1, "output": 1}, {"rate": 1, "prompt": 1, "output": 2}],
        "d0": "1/2", "d1": "1/18", "memory": 9}  # fmt: skip
ENGINE = {"agents": [{"name": "gpu", "budget": 10, "overhead": 1}],
          "stages": [{"agent": "gpu", "prefill": 1, "decode": 12, "rate": "0.6"}]}  # fmt: skip
OWN = """\
def first(state):
    raise ValueError("no idea")

def second(state):
    raise ValueError("none either")

class Silent:
    name = "first"

    def __init__(self, task):
        pass

    def estimate(self, requests, ages, look_ahead):
        return None
"""
SMALL = "--workers 2 --slots 4 --requests 60 --no-plots --repeat 1"
POLICIES = "--policy own.py:first --policy fcfs --policy own.py:second"
FIRST, SECOND = r"policy own.py:first, \w+ \d+: .*no idea", r"policy own.py:second, .*none either"


@pytest.mark.parametrize(
    ("command", "good", "errors"),
    [
        (f"compare --policies own.py:first,fcfs,own.py:second {SMALL}", "fcfs", (FIRST, SECOND)),
        (f"wait load.json --horizon 20 {POLICIES}", "fcfs", (FIRST, SECOND)),
        (
            "wait load.json --horizon 20 --policy wait:thresholds=9 "
            "--policy nested-wait:thresholds=1:segments=5 --policy fcfs",
            "fcfs",
            ("policy wait:thresholds=9: thresholds: 1 .*", "policy nested-wait.*: segments: .*"),
        ),
        (
            "batch engine.json --horizon 20 "
            "--policy own.py:first --policy sarathi --policy own.py:second",
            "sarathi",
            (FIRST, SECOND),
        ),
        (
            "predict evaluate --requests 60 --predictor own.py:Silent survival",
            "survival",
            ("predictor first: estimate returned .*",),
        ),
    ],
)
def test_failures_hide_neither_each_other_nor_results(
    bfio: Bfio, tmp_path: Path, command: str, good: str, errors: tuple[str, ...]
) -> None:
    """One line each, after the answer; the status is that of an error."""
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    (tmp_path / "engine.json").write_text(json.dumps(ENGINE))
    done = bfio(*command.split())
    assert done.status == 2
    assert good in done.out
    told = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(told) == len(errors)
    for line, error in zip(told, errors, strict=True):
        assert re.fullmatch(f"error: {error}.*; .+", line), line


def test_one_fault_of_several_policies_names_each(bfio: Bfio, tmp_path: Path) -> None:
    """No thresholds exist, for either policy."""
    (tmp_path / "load.json").write_text(json.dumps(LOAD | {"d1": "1/9"}))
    policies = ("--policy", "wait", "--policy", "nested-wait")
    done = bfio("wait", "load.json", "--horizon", "20", *policies)
    assert done.out == ""
    assert [line.split(":")[1] for line in done.err.splitlines()] == [
        " policy wait",
        " policy nested-wait",
    ]
