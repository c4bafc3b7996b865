"""Time limits and signals of real commands on instances too hard to finish."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes import PATIENCE_S, started

#: What may pass beside a limit on a busy machine [s].
_SLACK_S = 3.0


def _run(arguments: list[str], folder: Path, after: float | None = None) -> tuple[int, str, float]:
    """Return status, output and seconds since the start or the signal."""
    began, pipe = time.monotonic(), subprocess.PIPE
    command = [sys.executable, "-m", "bfio", *arguments, "--json"]
    with started(command, stdout=pipe, stderr=pipe, cwd=folder) as process:
        if after is not None:
            time.sleep(after)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in err
        return process.returncode, out, time.monotonic() - began


def _requests(count: int, prompt: int, output: int, arrival: int) -> list[dict[str, int]]:
    draw = random.Random(0).randint
    return [
        {"arrival": draw(0, arrival), "prompt": draw(1, prompt), "output": draw(1, output)}
        for _ in range(count)
    ]


def _write(folder: Path, count: int) -> None:
    draw = random.Random(1).randint
    step = {
        "capacity": [draw(0, 3) for _ in range(24)],
        "base": [[draw(10_000, 90_000)] * 9 for _ in range(24)],
        "contribution": [[draw(1, 20_000)] * 9 for _ in range(count)],
        "objective": "gap",
    }
    latency = {"memory": 400, "requests": _requests(count, 20, 30, 50)}
    # A time is a variable of the backends' program: a tiny one is over soon.
    output, arrival = (3, 5) if count < 10 else (300, 2000)
    makespan = {"workers": 8, "slots": 4, "requests": _requests(10 * count, 1000, output, arrival)}
    documents: dict[str, dict[str, Any]]
    documents = {"solve": step, "hindsight": latency, "makespan": makespan}
    for name, document in documents.items():
        (folder / f"{name}-{count}.json").write_text(json.dumps(document))


@pytest.mark.deep
@pytest.mark.parametrize("method", ["exact", "cp-sat", "highs", "pyomo"])
@pytest.mark.parametrize("command", ["solve", "hindsight", "makespan"])
def test_limits_and_signals(tmp_path: Path, command: str, method: str) -> None:
    """A limit holds but for what loading takes, which a tiny problem shows; so does a signal."""
    _write(tmp_path, 3)
    _write(tmp_path, 200)
    tiny, hard = ([command, f"{command}-{n}.json", "--method", method] for n in (3, 200))
    status, _, loading = _run([*tiny, "--time-limit", "30"], tmp_path)
    assert status == 0
    for limit in (0.001, 2.0):
        status, out, seconds = _run([*hard, "--time-limit", str(limit)], tmp_path)
        # A program that is too large is refused, which takes no longer.
        assert status in (0, 2, 3)
        assert seconds <= loading + 1.1 * limit + _SLACK_S
        if status != 2:
            assert json.loads(out)["termination"] in ("time_limit", "optimal", "feasible")
    status, out, seconds = _run(hard, tmp_path, after=loading + 2)
    assert seconds <= 2 + _SLACK_S
    assert status in (0, 2, 130)
    if status == 130:
        assert json.loads(out)["interrupted"]
