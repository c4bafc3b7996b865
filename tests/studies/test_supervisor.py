"""Effects of a misbehaving row on its process, and their cost."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bfio.studies.kinds import code_version
from bfio.studies.row import Limits, Row, Status, Task
from bfio.studies.supervisor import Supervisor
from bfio.studies.worker import Order
from formulations.errors import InputError
from tests.processes import is_running, wait_until

_KIND = "tests.studies.rows:misbehave"
_LIMITS = Limits(seconds=20, memory_gib=0.4, attempts=2)
#: For rows that hang: nothing else that is computed with it takes long.
_SHORT = replace(_LIMITS, seconds=1.5)


def _order(deed: str, *, want_log: bool = False) -> Order:
    code = code_version(_KIND)
    return Order(Task("k", _KIND, {"deed": deed}, "", code), str(Path.cwd()), want_log)


@pytest.fixture(scope="module")
def supervisor() -> Iterator[Supervisor]:
    """Supervise one process for many tests; it is started again after a crash."""
    made = Supervisor(_KIND, _LIMITS)
    yield made
    made.close()


def _computed(*deeds: str, want_log: bool = False, limits: Limits = _LIMITS) -> list[Row]:
    supervisor = Supervisor(_KIND, limits)
    try:
        return [supervisor.compute(_order(deed, want_log=want_log)) for deed in deeds]
    finally:
        supervisor.close()


@pytest.mark.parametrize(
    ("deed", "status", "error"),
    [
        ("hang", Status.TIMED_OUT, "took longer than 1.5 s"),
        ("segmentation fault", Status.CRASHED, "its process died: SIGSEGV"),
        ("exit", Status.CRASHED, "its process died: exit status 7"),
        ("raise", Status.FAILED, "KeyError: 'no\\nkey'"),
        ("memory", Status.OUT_OF_MEMORY, "the memory limit was reached"),
        ("small blocks", Status.OUT_OF_MEMORY, "the memory limit was reached"),
        ("nan", Status.FAILED, f"{_KIND}: x: is nan; return None where there is no number"),
        (
            "large",
            Status.FAILED,
            f"{_KIND}: x: is beyond the range of floats; scale it, or return a text",
        ),
        ("list", Status.FAILED, f"{_KIND}: x: is a list; return a number, a text or None"),
        ("number", Status.FAILED, f"{_KIND}: returned an int; return a mapping of values"),
        ("half a character", Status.FAILED, "UnicodeEncodeError: 'utf-8' codec can't encode"),
        ("silent", Status.FAILED, "_SilentError, whose text cannot be printed"),
        ("system exit", Status.FAILED, "SystemExit: 3"),
        ("interrupt", Status.FAILED, "KeyboardInterrupt: "),
        ("exit with child", Status.CRASHED, "its process died: exit status 3"),
        ("violated", Status.VIOLATED, "the checker found capacity: 2"),
    ],
)
def test_a_row_that_goes_wrong_costs_itself_only(
    deed: str, status: Status, error: str, supervisor: Supervisor
) -> None:
    """The row says what happened, and the next one is computed as if nothing had."""
    if deed == "hang":
        wrong, right = _computed(deed, "none", limits=_SHORT)
    else:
        wrong, right = (supervisor.compute(_order(each)) for each in (deed, "none"))
    assert wrong.status is status
    assert wrong.error.startswith(error)
    assert wrong.attempts == 1
    assert right.status is Status.DONE
    assert right.values == {"x": 1}


def test_numbers_of_numpy_become_plain(supervisor: Supervisor) -> None:
    """Users' functions return what numpy gives them."""
    row = supervisor.compute(_order("numpy"))
    assert row.values == {"x": 3, "y": 0.5, "z": True}


def test_a_long_series_arrives_whole(supervisor: Supervisor) -> None:
    """More than a pipe holds at once."""
    row = supervisor.compute(_order("huge"))
    assert row.series["s"] == [0.1] * 200_000


def test_a_copy_of_a_process_answers_for_no_other_row() -> None:
    """A row forks and both copies return: whichever answer is late, no row gets another's."""
    rows = _computed("fork", "numpy", "none", "numpy")
    assert [row.values.get("x") for row in rows[1:]] == [3, 1, 3]


def test_what_a_row_starts_ends_with_its_process() -> None:
    """No process is left behind when the study ends."""
    (row,) = _computed("child")
    child = row.values["child"]
    assert isinstance(child, int)
    wait_until(lambda: not is_running(child), "what a row starts ends with its process", 10)


def test_a_row_that_goes_elsewhere_does_not_take_the_next_along(supervisor: Supervisor) -> None:
    """Every row starts in the folder of the study."""
    first, second = (supervisor.compute(_order("leave")) for _ in range(2))
    assert first.values == second.values == {"here": str(Path.cwd())}


def test_logs_are_kept_on_request_and_belong_to_their_row() -> None:
    """What an earlier row printed is not part of a later log."""
    printed, silent = _computed("prints", "none", want_log=True)
    assert printed.log == "a word\n"
    assert silent.log == ""
    assert _computed("prints")[0].log == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_no_output_is_lost(monkeypatch: pytest.MonkeyPatch, unbuffered: str) -> None:
    """Whoever prints it, however the row ends, and whatever the environment says of buffers."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    everywhere, hung, killed, left, silent = _computed(
        *("prints everywhere", "prints and hangs", "prints and is killed", "prints and exits"),
        "none",
        want_log=True,
        limits=_SHORT,
    )
    assert everywhere.log == "Python C child own"
    assert [row.log for row in (hung, killed, left)] == ["Python C child"] * 3
    assert silent.log == ""


def test_a_failure_keeps_its_traceback(supervisor: Supervisor) -> None:
    """The error is one line; the log says where it came from."""
    row = supervisor.compute(_order("raise"))
    assert "rows.py" in row.log


def test_measures_time_and_memory_of_the_row_alone() -> None:
    """The peak of an earlier row does not count for a later one."""
    big, small = _computed("holds 64 MiB", "none")
    # Where the kernel counts pages per processor, it may be wrong by some hundred of them.
    assert big.peak_memory_bytes > small.peak_memory_bytes + 0.9 * 2**26 > 0.9 * 2**26
    assert small.wall_s < big.wall_s


def test_other_code_is_refused() -> None:
    """A process that runs other sources than the plan says ends the study."""
    supervisor = Supervisor(_KIND, _LIMITS)
    task = Task("k", _KIND, {"deed": "none"}, "", "other")
    with pytest.raises(
        InputError, match=r"loaded code version .*, but rows were planned with other"
    ):
        supervisor.compute(Order(task, str(Path.cwd())))
    supervisor.close()


def test_a_process_killed_from_outside_is_begun_again_a_few_times() -> None:
    """Nobody can tell who sent the signal, so it gets a second chance, and no third."""
    killed, right = _computed("killed", "none")
    assert killed.status is Status.CRASHED
    assert killed.error == "its process died: SIGKILL (in each of 2 attempts)"
    assert (killed.attempts, right.attempts) == (2, 1)


def test_killing_ends_a_row_in_flight() -> None:
    """Also one that never returns to Python."""
    supervisor = Supervisor(_KIND, Limits(seconds=1000, memory_gib=0.6))
    failed: list[BaseException] = []

    def compute() -> None:
        try:
            supervisor.compute(_order("hang"))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=compute)
    thread.start()
    time.sleep(1.0)
    supervisor.kill()
    thread.join(10)
    assert not thread.is_alive()
    assert "stopped" in str(failed[0])
