"""Kill -9 at random moments: no stored row is lost or duplicated, and the table is the same."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bfio.studies.row import Limits, Row
from bfio.studies.runner import run_study
from bfio.studies.store import open_for_reading
from bfio.studies.study import Grid, Study
from tests.places import ROOT
from tests.processes import PATIENCE_S, children, is_running, started, wait_until
from tests.studies.here import num_rows

#: Rows that keep a core busy; to load a solver again after each kill would take most of the time.
STUDY = Study(
    "killed",
    "Does anything get lost?",
    "tests.studies.rows:busy",
    [Grid({"i": list(range(40))})],
    limits=Limits(seconds=60, memory_gib=1, attempts=20),
)
_TARGETS = ("runner", "worker", "all", "guard")
_COMMAND = [sys.executable, "-m", "bfio", "study", "run", f"{__name__}:STUDY", "--jobs", "2"]


def _started(store: Path) -> "AbstractContextManager[subprocess.Popen[str]]":
    return started(
        [*_COMMAND, "--store", str(store)],
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _rows(store: Path) -> dict[str, Row]:
    """Return all rows of the store by key."""
    if not store.exists() or store.stat().st_size == 0:
        return {}  # killed, or looked at, before the first moment of the store
    with open_for_reading(store) as opened:
        # Asked of the file itself: a key there twice would be found here.
        query = "SELECT key FROM row"
        keys = [key for (key,) in opened._connection.execute(query)]  # noqa: SLF001
        assert len(keys) == len(set(keys))
        return opened.rows(keys)


def _wait_for_a_row(store: Path, before: int, runner: "subprocess.Popen[str]") -> None:
    wait_until(
        lambda: num_rows(store) > before or runner.poll() is not None, "another row is computed"
    )


def _kill(target: str, runner: "subprocess.Popen[str]", rng: random.Random) -> list[int]:
    """Kill the runner, its guard, one of its workers or all; return what there was below it."""
    commands = children(runner.pid)
    workers = [worker for command in commands for worker in children(command)]
    victims = {
        "guard": [runner.pid],
        "runner": commands or [runner.pid],
        "worker": [rng.choice(workers)] if workers else [],
        "all": [*workers, *commands, runner.pid],
    }[target]
    for process in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return [*commands, *workers]


def _wait_for_the_end(processes: list[int]) -> None:
    what = "no process outlives its runner by more than some seconds"
    wait_until(lambda: not any(map(is_running, processes)), what, seconds=10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kills", [4, pytest.param(100, marks=[pytest.mark.deep, pytest.mark.timeout(1200)])]
)
@pytest.mark.usefixtures("rows_in_this_process")
def test_random_kills_lose_nothing(tmp_path: Path, kills: int) -> None:
    """Runner, worker, all of them and the guard; in the end the table of an uninterrupted run."""
    rng = random.Random(kills)
    store = tmp_path / "killed.sqlite"
    kept: dict[str, Row] = {}
    progress = 0
    with contextlib.ExitStack() as stack:
        runner = stack.enter_context(_started(store))
        for number in range(kills):
            # Most kills come while rows are computed, the others while the runner starts.
            if rng.random() < 0.8:
                _wait_for_a_row(store, len(kept), runner)
            time.sleep(rng.uniform(0.0, 0.3))
            target = _TARGETS[number % len(_TARGETS)]
            below = _kill(target, runner, rng)
            if target != "worker" or runner.poll() is not None:
                runner.wait()
                _wait_for_the_end(below)
                now = _rows(store)
                assert all(now[key] == row for key, row in kept.items())
                progress += len(now) > len(kept)
                kept = now
                if len(kept) == len(STUDY.rows()):
                    store, kept = tmp_path / f"killed-{number}.sqlite", {}
                runner = stack.enter_context(_started(store))
        runner.wait(timeout=PATIENCE_S)
    assert progress > kills // 3, "the kills came too soon to hit a row"
    finished, whole = (run_study(STUDY, at) for at in (store, tmp_path / "whole.sqlite"))
    contents = [row.content() for row in finished.rows.values()]
    assert contents == [row.content() for row in whole.rows.values()]
    assert len(contents) == len(STUDY.rows())
    assert all(row.is_done for row in finished.rows.values())
    assert len(_rows(store)) == len(contents)
