"""Kill -9 at random moments: no kept row is lost, none is there twice, the table is the same."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bfio.studies.limits import Limits
from bfio.studies.row import Row
from bfio.studies.runner import StudyRunOptions, run_study
from bfio.studies.store import open_for_reading
from bfio.studies.study import Grid, Study
from tests.places import ROOT

#: Rows of a few milliseconds with a nap would not be what users run: these solve programs.
STUDY = Study(
    "killed",
    "Does anything get lost?",
    "tests.studies.rows:solving",
    [Grid({"seed": list(range(100))})],
    limits=Limits(seconds=60, memory_gib=1, attempts=20),
)
_COMMAND = [sys.executable, "-m", "bfio", "study", "run", f"{__name__}:STUDY", "--jobs", "2"]


def _start(store: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*_COMMAND, "--store", str(store)],
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _workers(runner: int) -> list[int]:
    tasks = Path(f"/proc/{runner}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def _rows(store: Path) -> dict[str, Row]:
    """Return every row of the store by key, whatever it belongs to."""
    if not store.exists() or store.stat().st_size == 0:
        return {}  # killed, or looked at, before the first moment of the store
    with open_for_reading(store) as opened:
        # Asked of the file itself: a key there twice would be found here.
        query = "SELECT key FROM row"
        keys = [key for (key,) in opened._connection.execute(query)]  # noqa: SLF001
        assert len(keys) == len(set(keys))
        return opened.rows(keys)


def _num_rows(store: Path) -> int:
    if not store.exists() or store.stat().st_size == 0:
        return 0
    with open_for_reading(store) as opened:
        return opened.count()


def _wait_for_a_row(store: Path, before: int, runner: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while _num_rows(store) <= before and runner.poll() is None:
        assert time.monotonic() < deadline, "no row is computed"
        time.sleep(0.02)


def _kill(target: str, runner: "subprocess.Popen[bytes]", rng: random.Random) -> list[int]:
    """Kill the runner, one of its workers or all; return the workers there were."""
    workers = _workers(runner.pid)
    if target == "runner":
        runner.kill()
    elif target == "all":
        for process in (*workers, runner.pid):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
    elif workers:
        os.kill(rng.choice(workers), signal.SIGKILL)
    return workers


def _wait_until_gone(processes: list[int]) -> None:
    """Fail if a worker outlives its runner by more than some seconds."""
    deadline = time.monotonic() + 10
    while any(_lives(process) for process in processes):
        assert time.monotonic() < deadline, "a worker outlives its runner"
        time.sleep(0.01)


def _lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    "kills", [4, pytest.param(100, marks=[pytest.mark.deep, pytest.mark.timeout(1200)])]
)
def test_random_kills_lose_nothing(tmp_path: Path, kills: int) -> None:
    """Runner, worker and all of them in turn; in the end the table of an uninterrupted run."""
    rng = random.Random(kills)
    store = tmp_path / "killed.sqlite"
    kept: dict[str, Row] = {}
    runner = _start(store)
    progress = 0
    for number in range(kills):
        # Most kills come while rows are computed, the others while the runner starts.
        if rng.random() < 0.8:
            _wait_for_a_row(store, len(kept), runner)
        time.sleep(rng.uniform(0.0, 0.3))
        target = ("runner", "worker", "all")[number % 3]
        workers = _kill(target, runner, rng)
        if target != "worker" or runner.poll() is not None:
            runner.wait()
            _wait_until_gone(workers)
            now = _rows(store)
            assert all(now[key] == row for key, row in kept.items())
            progress += len(now) > len(kept)
            kept = now
            if len(kept) == len(STUDY.rows()):
                store, kept = tmp_path / f"killed-{number}.sqlite", {}
            runner = _start(store)
    runner.wait(timeout=300)
    assert progress > kills // 3, "the kills came too soon to hit a row"
    finished = run_study(STUDY, store, StudyRunOptions(jobs=2))
    whole = run_study(STUDY, tmp_path / "whole.sqlite", StudyRunOptions(jobs=2))
    contents = [row.content() for row in finished.rows.values()]
    assert contents == [row.content() for row in whole.rows.values()]
    assert len(contents) == len(STUDY.rows())
    assert all(row.is_done for row in finished.rows.values())
    assert len(_rows(store)) == len(contents)
