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
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bfio.studies import runner
from bfio.studies.row import Limits, Row, Status, Task
from bfio.studies.runner import StudyRunOptions, compute_on_cluster, run_study
from bfio.studies.study import Grid, Study
from bfio.studies.worker import Order
from formulations.errors import InputError
from tests.places import ROOT
from tests.processes import PATIENCE_S, children, is_running, started, wait_until
from tests.studies.here import num_rows

# Not `importorskip`, which imports Dask in every process that collects tests.
if find_spec("distributed") is None:
    pytest.skip("Dask is not installed (extra 'cluster')", allow_module_level=True)

_LIMITS = Limits(seconds=60, memory_gib=1)


@dataclass
class Cluster:
    """A scheduler and its workers."""

    address: str
    scheduler: "subprocess.Popen[str]"
    workers: list["subprocess.Popen[str]"]


def _started(*command: str) -> "AbstractContextManager[subprocess.Popen[str]]":
    return started(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _address(file: Path) -> str:
    """Wait until a scheduler has told its address: its file is there before its contents are."""

    def told() -> str:
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            return str(json.loads(file.read_text())["address"])
        return ""

    return wait_until(told, "the scheduler tells its address")


pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Start a scheduler and two workers of one thread each, on loopback."""
    from distributed import Client

    file = tmp_path / "scheduler.json"
    place = ("--scheduler-file", str(file))
    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(
            _started(
                *("distributed.cli.dask_scheduler", *place, "--host", "127.0.0.1"),
                *("--port", "0", "--no-dashboard", "--no-jupyter"),
            )
        )
        # A worker that finds the file half written dies of it, so they start after it is whole.
        address = _address(file)
        workers = [
            stack.enter_context(
                _started(
                    *("distributed.cli.dask_worker", address, "--host", "127.0.0.1"),
                    *("--nthreads", "1", "--no-nanny", "--no-dashboard"),
                    *("--local-directory", str(tmp_path)),
                )
            )
            for _ in range(2)
        ]
        with Client(address, timeout=PATIENCE_S, set_as_default=False) as client:
            client.wait_for_workers(len(workers), timeout=PATIENCE_S)
        yield Cluster(address, scheduler, workers)


def _busy(count: int) -> Study:
    return Study(
        "busy", "?", "tests.studies.rows:busy", [Grid({"i": list(range(count))})], limits=_LIMITS
    )


def _contents(rows: "dict[str, Row] | object") -> list[dict[str, object]]:
    assert isinstance(rows, dict)
    return [row.content() for row in rows.values()]


def test_a_study_on_a_cluster(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cluster, which takes seconds to start, serves until its processes have all died."""
    _rows_that_go_wrong_cost_themselves_only(tmp_path, cluster)
    _the_cluster_and_this_machine_give_the_same_table(tmp_path, cluster)
    # So long a lost scheduler is looked for, too.
    monkeypatch.setattr("bfio.studies.runner._CONNECT_SECONDS", 4)
    _processes_die_with_their_dask_worker(tmp_path, cluster)


def _rows_that_go_wrong_cost_themselves_only(folder: Path, cluster: Cluster) -> None:
    """Limits and crashes are those of the supervised process, not of the Dask worker."""
    deeds = ["hang", "segmentation fault", "raise", "memory", "none"]
    study = Study(
        "wrong", "?", "tests.studies.rows:misbehave", [Grid({"deed": deeds})],
        limits=Limits(seconds=3, memory_gib=0.4),
    )  # fmt: skip
    results = run_study(study, folder / "wrong", StudyRunOptions(cluster=cluster.address))
    statuses = [row.status.value for row in results.rows.values()]
    assert statuses == ["timed-out", "crashed", "failed", "out-of-memory", "done"]
    assert all(process.poll() is None for process in cluster.workers)


def _the_cluster_and_this_machine_give_the_same_table(folder: Path, cluster: Cluster) -> None:
    """With one of two workers killed in the middle of a row."""
    study = _busy(24)
    seen: list[Row] = []

    def kill_one(row: Row) -> None:
        seen.append(row)
        if len(seen) == 5:
            cluster.workers[0].send_signal(signal.SIGKILL)

    remote = run_study(
        study, folder / "remote", StudyRunOptions(cluster=cluster.address), on_row=kill_one
    )
    local = run_study(study, folder / "local", StudyRunOptions(jobs=2))
    assert cluster.workers[0].wait(10) == -signal.SIGKILL
    assert _contents(remote.rows) == _contents(local.rows)
    assert len(seen) == len(study.rows())


def _processes_die_with_their_dask_worker(folder: Path, cluster: Cluster) -> None:
    """Leave no process computing for nobody."""
    study = Study(
        "hanging", "?", "tests.studies.rows:misbehave", [Grid({"deed": ["none", "hang"]})],
        limits=Limits(seconds=1000, memory_gib=0.4),
    )  # fmt: skip
    store = folder / "hanging"

    def run() -> None:
        # Ends with the scheduler, at the latest.
        with contextlib.suppress(InputError):
            run_study(study, store, StudyRunOptions(cluster=cluster.address))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    wait_until(lambda: num_rows(store), "a row is done")
    time.sleep(1)  # the other one hangs now; a process that starts would have to end as well
    computing = [child for worker in cluster.workers for child in children(worker.pid)]
    assert computing
    for worker in cluster.workers:
        worker.kill()
        worker.wait()
    wait_until(lambda: not any(map(is_running, computing)), "processes end with their worker", 10)
    cluster.scheduler.kill()
    thread.join(60)
    assert not thread.is_alive()


class _Future:
    """A row whose Dask worker died after it was computed, and that another one computes."""

    def __init__(self, row: Row) -> None:
        self.key, self._row = row.task.key, row
        self._statuses = iter(("lost", "pending", "finished"))

    @property
    def status(self) -> str:
        """Return what is so when asked next."""
        return next(self._statuses)

    def result(self) -> Row:
        """Return the row."""
        return self._row


class _Client:
    """Hands rows out."""

    loop = None

    def nthreads(self) -> dict[str, int]:
        """One of one thread."""
        return {"worker": 1}

    def submit(self, function: object, order: Order, limits: Limits, **options: bool) -> _Future:
        """Compute nothing."""
        return _Future(Row(order.task, Status.DONE))


class _Completed(list[_Future]):
    """Futures as they are told to have ended, those added meanwhile included."""

    def __init__(self, futures: list[_Future], loop: None) -> None:
        super().__init__(futures)

    add = list.append


def test_a_row_whose_worker_dies_before_it_is_fetched_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scheduler has it computed again, and says so by calling it lost."""
    monkeypatch.setattr(
        "bfio.studies.runner._connected", lambda address: contextlib.nullcontext(_Client())
    )
    monkeypatch.setattr("distributed.as_completed", _Completed)
    tasks = [Task(key, "tests.studies.rows:square", {}, "", "") for key in "abc"]
    orders = [Order(task, str(ROOT)) for task in tasks]
    rows = list(compute_on_cluster(orders, _LIMITS, "nowhere"))
    assert sorted(row.task.key for row in rows) == ["a", "b", "c"]


def test_a_client_is_closed_although_its_scheduler_is_lost() -> None:
    """Dask may cancel a connection attempt twice: the first call of `close` raises its error."""
    errors: list[Exception] = [RuntimeError("Cannot change state of expiring Timeout")]

    def close() -> None:
        if errors:
            raise errors.pop()
        closed.append(True)

    closed: list[bool] = []
    client: Any = SimpleNamespace(close=close)
    with pytest.raises(KeyError), runner._closed(client):  # noqa: SLF001
        raise KeyError
    assert closed == [True]


def test_no_scheduler_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port where nobody listens, and no address at all; without a port nothing connects."""
    with monkeypatch.context() as here:
        here.setattr("distributed.Client", None)
        with pytest.raises(InputError, match="missing port"):
            run_study(_busy(1), tmp_path / "s", StudyRunOptions(cluster="foo"))
    monkeypatch.setattr("bfio.studies.runner._CONNECT_SECONDS", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address in (f"tcp://127.0.0.1:{port}", "nonsense://x"):
        with pytest.raises(InputError, match="no scheduler answers"):
            run_study(_busy(1), tmp_path / "s", StudyRunOptions(cluster=address))
