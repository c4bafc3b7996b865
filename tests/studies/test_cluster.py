"""The same study on a real Dask cluster: a scheduler and workers, each a process of its own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bfio.studies.limits import Limits
from bfio.studies.row import Row
from bfio.studies.runner import StudyRunOptions, run_study
from bfio.studies.study import Grid, Study
from formulations.errors import InputError
from tests.places import ROOT

pytest.importorskip("distributed", reason="Dask is not installed (extra 'cluster')")


_LIMITS = Limits(seconds=60, memory_gib=1)


@dataclass
class Cluster:
    """A scheduler and its workers."""

    address: str
    scheduler: "subprocess.Popen[bytes]"
    workers: list["subprocess.Popen[bytes]"]


def _start(*command: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _address(file: Path) -> str:
    """Wait until a scheduler has told its address: its file is there before its contents are."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            return str(json.loads(file.read_text())["address"])
        time.sleep(0.05)
    raise AssertionError("the scheduler did not start in a minute")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Start a scheduler and two workers of one thread each, on loopback."""
    file = tmp_path / "scheduler.json"
    place = ("--scheduler-file", str(file))
    with contextlib.ExitStack() as stack:

        def start(*command: str) -> "subprocess.Popen[bytes]":
            process = stack.enter_context(_start(*command))  # waits for it on the way out
            stack.callback(process.kill)
            return process

        scheduler = start(
            *("distributed.cli.dask_scheduler", *place, "--host", "127.0.0.1"),
            *("--port", "0", "--no-dashboard", "--no-jupyter"),
        )
        # A worker that finds the file half written dies of it, so they start after it is whole.
        address = _address(file)
        workers = [
            start(
                *("distributed.cli.dask_worker", address, "--host", "127.0.0.1"),
                *("--nthreads", "1", "--no-nanny", "--no-dashboard"),
                *("--local-directory", str(tmp_path)),
            )
            for _ in range(2)
        ]
        yield Cluster(address, scheduler, workers)


def _solving(count: int) -> Study:
    grid = Grid({"seed": list(range(count))})
    return Study("solving", "?", "tests.studies.rows:solving", [grid], limits=_LIMITS)


def _contents(rows: "dict[str, Row] | object") -> list[dict[str, object]]:
    assert isinstance(rows, dict)
    return [row.content() for row in rows.values()]


def test_the_cluster_and_this_machine_give_the_same_table(
    tmp_path: Path, cluster: Cluster
) -> None:
    """With one of two workers killed in the middle of a row."""
    study = _solving(60)
    seen: list[Row] = []

    def kill_one(row: Row) -> None:
        seen.append(row)
        if len(seen) == 5:
            cluster.workers[0].send_signal(signal.SIGKILL)

    remote = run_study(
        study, tmp_path / "remote", StudyRunOptions(cluster=cluster.address), on_row=kill_one
    )
    local = run_study(study, tmp_path / "local", StudyRunOptions(jobs=2))
    assert cluster.workers[0].wait(10) == -signal.SIGKILL
    assert _contents(remote.rows) == _contents(local.rows)
    assert len(seen) == len(study.rows())


def test_rows_that_go_wrong_cost_themselves_only(tmp_path: Path, cluster: Cluster) -> None:
    """Limits and crashes are those of the supervised process, not of the Dask worker."""
    deeds = ["hang", "segmentation fault", "raise", "memory", "none"]
    study = Study(
        "wrong", "?", "tests.studies.rows:misbehave", [Grid({"deed": deeds})],
        limits=Limits(seconds=3, memory_gib=0.4),
    )  # fmt: skip
    results = run_study(study, tmp_path / "s", StudyRunOptions(cluster=cluster.address))
    statuses = [row.status.value for row in results.rows.values()]
    assert statuses == ["timed-out", "crashed", "failed", "out-of-memory", "done"]
    assert all(process.poll() is None for process in cluster.workers)


def test_processes_die_with_their_dask_worker(tmp_path: Path, cluster: Cluster) -> None:
    """A killed Dask worker leaves no process computing for nobody."""
    study = Study(
        "hanging", "?", "tests.studies.rows:misbehave", [Grid({"deed": ["none", "hang"]})],
        limits=Limits(seconds=1000, memory_gib=0.4),
    )  # fmt: skip

    def run() -> None:
        # Ends with the scheduler, at the latest.
        with contextlib.suppress(InputError):
            run_study(study, tmp_path / "s", StudyRunOptions(cluster=cluster.address))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not (children := [c for w in cluster.workers for c in _children(w.pid)]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(2)
    for worker in cluster.workers:
        worker.kill()
        worker.wait()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "a process outlives its Dask worker"
        time.sleep(0.05)
    cluster.scheduler.kill()
    thread.join(60)
    assert not thread.is_alive()


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def test_no_scheduler_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port where nobody listens, and no address at all."""
    monkeypatch.setattr("bfio.studies.cluster._CONNECT_SECONDS", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address in (f"tcp://127.0.0.1:{port}", "nonsense://x"):
        with pytest.raises(InputError, match="no scheduler answers"):
            run_study(_solving(1), tmp_path / "s", StudyRunOptions(cluster=address))
