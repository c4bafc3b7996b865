"""Work shared among processes."""

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bfio.common.processes import in_processes
from formulations.errors import InputError


def _squared(number: int) -> int:
    print("this goes to stderr")
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 0:
        raise InputError("number", "0", "give another")
    return number * number


def test_results_come_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    """And nothing on stdout, which is for the answer."""
    assert list(in_processes(_squared, [3, 1, 2], 2)) == [9, 1, 4]
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.count("this goes to stderr") == 3


def test_bad_input_in_a_process_is_bad_input() -> None:
    """Results before it are there."""
    results = in_processes(_squared, [2, 0], 1)
    assert next(results) == 4
    with pytest.raises(InputError, match="give another"):
        next(results)


def test_a_killed_process_is_told() -> None:
    """With what to do."""
    with pytest.raises(
        InputError, match="somewhere: the system killed a process, perhaps for lack of memory"
    ):
        list(in_processes(_squared, [-1], 1, "somewhere"))


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """Its children do not run it again."""
    script = tmp_path / "script.py"
    script.write_text(
        "from operator import neg\n"
        "from pathlib import Path\n"
        "from bfio.common.processes import in_processes\n"
        "print(list(in_processes(neg, [1, 2], 2)), Path(__file__).name)\n"
    )
    words = [sys.executable, str(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[-1, -2] script.py\n", "")


_SCRIPT = """
import bfio
ONE = 1
def mine(state):
    return [0] * min(ONE, int(state.free_slots[0])) + [None] * (state.num_waiting - ONE)
class Predictor:
    def remaining(self, requests, ages, horizon):
        return ages + ONE
work, machine = bfio.synthetic("demo", 20, 1), bfio.Cluster(1, 2)
def closed(shift):
    def policy(state): return mine(state)[shift:]
    return policy
chosen = [mine, closed(0), lambda state: mine(state)]
options = {"pool": 4, "repeat": 1, "horizon": 2, "predictor": Predictor()}
done = bfio.compare(work, chosen, machine, jobs=2, **options)
print(len({tuple(run.finish_step) for run in done.runs}), done.runs[0].options.predictor)
"""


def test_a_scripts_own_functions_go_along(tmp_path: Path) -> None:
    """Closures, lambdas and predictors, too, with the globals that they use."""
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    words = [sys.executable, str(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1 Predictor\n", "")


def test_what_cannot_be_read_elsewhere_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that only this process can import is no killed process."""
    (tmp_path / "only_here.py").write_text("def double(n): return 2 * n\n")
    with monkeypatch.context() as here:
        here.syspath_prepend(tmp_path)
        double = importlib.import_module("only_here").double
    with pytest.raises(InputError, match=r"jobs: cannot be sent to another process .*only_here"):
        list(in_processes(double, [1], 1, "jobs"))
