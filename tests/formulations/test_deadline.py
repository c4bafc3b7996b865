"""One clock for all phases of a solve."""

import importlib
import sys
import time
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formulations.deadline import Deadline, OutOfTime
from formulations.errors import InputError
from formulations.results import Termination
from formulations.step import Objective, StepProblem, solve
from tests.processes import python, wait_until


class _Heard:
    """A watcher that records its calls."""

    def __init__(self) -> None:
        self.ends: list[float | None] = []
        self.answers: list[Any] = []

    def ends_in(self, seconds: float | None) -> None:
        """Record the remaining seconds."""
        self.ends.append(seconds)

    def found(self, answer: Any) -> None:
        """Record the answer."""
        self.answers.append(answer)


def test_python_code_is_interrupted() -> None:
    """A loop that does not check the clock is interrupted, and nothing is raised afterwards."""

    def endless() -> None:
        with Deadline(0.05).interrupting():
            while True:
                pass

    with pytest.raises(OutOfTime):
        endless()
    for _ in range(100_000):
        pass


@pytest.mark.parametrize("inside", ["pass", "time.sleep(0.03)"])
def test_code_may_be_traced_afterwards(inside: str) -> None:
    """After a cleared pending exception, CPython 3.11 would loop forever in a traced call."""
    script = f"""
import sys, time
from formulations.deadline import Deadline, OutOfTime
try:
    with Deadline(0.01).interrupting():
        {inside}
except OutOfTime:
    pass
sys.settrace(lambda frame, event, argument: None)
(lambda: None)()
print("done")
"""
    run = python("-c", script)
    assert run.stdout == "done\n"


def test_a_module_is_loaded_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted import would leave a half-loaded module, on which every later use fails."""
    lines = ("import time", "end = time.monotonic() + 0.3", "while time.monotonic() < end: pass")
    (tmp_path / "slow_to_load.py").write_text("\n".join((*lines, "whole = 1")))
    monkeypatch.syspath_prepend(tmp_path)

    def load() -> None:
        with Deadline(0.05).interrupting():
            importlib.import_module("slow_to_load")
            while True:
                pass

    with pytest.raises(OutOfTime):
        load()
    assert sys.modules.pop("slow_to_load").whole == 1


def test_code_in_time_is_left_alone() -> None:
    """The timer of a block that is over does nothing."""
    deadline = Deadline(1.0)  # more than a machine stops for between two lines
    with deadline.interrupting():
        value = 1
    wait_until(lambda: deadline.is_over, "time is up")
    time.sleep(0.05)
    assert value == 1


def test_no_time_is_no_time() -> None:
    """Without time left, nothing starts unless it has extra time."""
    over = Deadline(0)
    with pytest.raises(OutOfTime), over.interrupting():
        raise AssertionError
    with over.interrupting(grace_s=5):
        assert over.left == 0


def test_the_clock_stops_for_all() -> None:
    """Stopped time counts neither against a share nor against the whole deadline."""
    heard = _Heard()
    whole = Deadline(10, heard)
    part = whole.share(0.5)
    before = whole.at, part.at
    with part.stopped():
        time.sleep(0.02)
    assert whole.at >= before[0] + 0.02
    assert part.at >= before[1] + 0.02
    assert None in heard.ends
    assert heard.ends[-1] == pytest.approx(10, abs=0.5)


def test_answers_are_told_as_they_are_changed() -> None:
    """Answers are converted for the watcher; without a watcher none is computed."""
    heard = _Heard()
    Deadline(1, heard).mapped(lambda answer: 2 * answer).found(lambda: 21)
    assert heard.answers == [42]
    Deadline(1).found(lambda: pytest.fail("made for nobody"))


@pytest.mark.parametrize("limit", [-1, float("nan"), "1"])
def test_limits_are_seconds(limit: Any) -> None:
    """A limit is a number of seconds >= 0 or a running deadline."""
    with pytest.raises(InputError, match="time_limit"):
        Deadline.of(limit)
    running = Deadline(1)
    assert Deadline.of(running) is running
    assert Deadline.of(None).at == inf


def test_highs_ends_where_its_presolve_would_not() -> None:
    """Presolve is off: dual fixing of a long row without costs took 33 s with a limit of 1 s."""
    rng = np.random.default_rng(3)
    problem = StepProblem(
        capacity=rng.integers(1, 13, 72),
        base=rng.integers(0, 80_000, (72, 1)),
        contribution=rng.integers(1, 10_000, (500, 1)),
        objective=Objective.MAX_LOAD,
    )
    began = time.monotonic()
    found = solve(problem, backend="highs", time_limit=1)
    assert found.termination is Termination.TIME_LIMIT
    assert time.monotonic() - began < 15
