"""Work shared among processes."""

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
    with pytest.raises(InputError, match="somewhere: a process was killed"):
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
