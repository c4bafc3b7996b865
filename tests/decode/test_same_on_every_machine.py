"""The same command gives the same numbers on a machine with other cores, loads and hash seeds."""

import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.processes import PATIENCE_S, started

#: Wall-clock times, under these keys and all that end so.
_TIMES = ("wall_s", "decide_s", "solve_s", "solve_seconds", "seconds", "versions", "plots")
_SMALL = "--requests 60 --workers 4 --slots 6 --pool 16 --steps 60 --no-plots --json"
_WINDOW = "--predictor oracle --window-knows all --projection growing"
_MACHINE = "--requests 200 --workers 6 --slots 8 --pool 24 --steps 120 --no-plots --json"
#: Commands in which limits strike, and a limit of work under which they do.
_STRUCK = (
    f"compare --policies bf-io,bf-io:horizon=20 {_WINDOW} --work-limit 20000 {_MACHINE}",
    f"compare --policies bf-io:horizon=20:backend=cp-sat {_WINDOW} --work-limit 20000 {_MACHINE}",
    f"compare --policies bf-io:backend=highs,bf-io:backend=pyomo --work-limit 5000 {_SMALL}",
    f"gap --policy br-h --gap-horizon 20 --every 4 {_WINDOW} --work-limit 20000 {_MACHINE}",
    f"gap --policy throttled --work-limit 2000 {_MACHINE}",
    "compare --policies bf-io,br-h --synthetic bursty --work-limit 3000 --requests 300 "
    "--steps 150 --workers 16 --slots 12 --pool 40 --no-plots --json",
)


_Program: TypeAlias = "AbstractContextManager[subprocess.Popen[str]]"


def _busy(core: int) -> _Program:
    """Keep one core busy."""
    loop = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    return started([sys.executable, "-c", loop])


def _started(words: str, folder: Path, hash_seed: int, cores: set[int]) -> _Program:
    """Start a command with another hash seed, on these cores only."""
    code = f"import os\nos.sched_setaffinity(0, {cores})\nfrom bfio.cli import run\nrun()"
    return started(
        [sys.executable, "-c", code, *words.split()],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _answer(program: _Program) -> Any:
    with program as process:
        out, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    return _without_times(json.loads(out))


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: part for key, part in value.items() if not key.endswith(_TIMES)}
        return {key: _without_times(part) for key, part in kept.items()}
    return [_without_times(part) for part in value] if isinstance(value, list) else value


def _num_struck(answer: Any) -> int:
    """Solves that the work limit left unproven."""
    if "policies" in answer:
        runs = [policy["statistics"] for policy in answer["policies"]]
        return sum(int(run.get("unproven_steps", 0)) for run in runs)
    return int(answer["unproven"])


@pytest.mark.deep
@pytest.mark.parametrize("words", _STRUCK)
def test_same_numbers_everywhere(words: str, tmp_path: Path) -> None:
    """Every method, real windows, twice on each of three machines."""
    cores = os.sched_getaffinity(0)
    one = min(cores)
    answers = [_answer(_started(words, tmp_path, seed, cores)) for seed in (0, 1)]
    with _busy(one):
        answers += [_answer(_started(words, tmp_path, seed, {one})) for seed in (2, 3)]
    answers += [_answer(_started(words, tmp_path, 4, {max(cores)})) for _ in range(2)]
    assert all(answer == answers[0] for answer in answers[1:])
    assert _num_struck(answers[0]) > 0
