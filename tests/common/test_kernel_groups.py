"""Groups of kernels: found in packages, compiled once, when first needed."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import bfio
from bfio.common import kernel_groups
from bfio.common.kernel_groups import KernelGroup, compile_groups, groups, is_worthwhile
from bfio.common.kernels import EntryPoint, entry_of
from bfio.decode.machine.whole_run import group_of, loop_of, machine_code_of
from bfio.decode.policy_registry import built_in, find
from formulations.errors import InputError
from tests.places import ROOT
from tests.processes import with_numba

_KERNELS = """\
from bfio.common.kernels import entry_point
from bfio.common.kernel_groups import KernelGroup

@entry_point
def twice(number):
    return 2 * number

def warm_up():
    twice(1)

def fail():
    raise ValueError("no such luck")

def interrupted():
    import os, signal
    os.kill(os.getpid(), signal.SIGINT)
    twice(1)

GROUPS = (
    KernelGroup("users", ("users_kernels",), "users_kernels:warm_up", 1),
    KernelGroup("failing", ("users_kernels",), "users_kernels:fail", 1),
    KernelGroup("interrupted", ("users_kernels",), "users_kernels:interrupted", 1),
)
"""
_USE = """\
from bfio.common import kernel_groups
import users_kernels
kernel_groups.groups = lambda: {group.name: group for group in users_kernels.GROUPS}
for _ in range(2):
    kernel_groups.ensure_compiled("users")
print(users_kernels.twice(4), dict(users_kernels.twice.entry.machine_code.stats.cache_hits) != {})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a module of kernels, and make it a group of an installed package."""
    (tmp_path / "users_kernels.py").write_text(_KERNELS, encoding="utf-8")
    metadata = tmp_path / "users-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: users\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[bfio.kernels]\nusers = users_kernels:GROUPS\n")
    return tmp_path


def python(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run a program where the group is installed, with a cache of its own."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    own = {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": path}
    return with_numba(folder, code, {**os.environ, **own})


def named(entry: EntryPoint) -> tuple[str, str | None]:
    """Return what tells the machine code of an entry point."""
    return entry.name, entry.made.digest


def test_every_entry_point_belongs_to_one_group() -> None:
    """A kernel that no group has would never be prepared."""
    package = Path(bfio.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    written = re.compile(r"^(@entry_point$|\w+(: [^=\n]+)? = entry_point\()", re.MULTILINE)
    num_written = sum(len(written.findall(text)) for text in texts)
    specs = [spec for spec in built_in().values() if spec.kernel is not None]
    loops = {named(entry_of(machine_code_of(loop_of(spec)))) for spec in specs}
    held = [named(entry) for group in groups().values() for entry in group.entry_points()]
    assert loops < set(held)
    assert len(held) == len(set(held)) == num_written + len(loops) > 50


def test_what_is_missing_is_compiled_with_one_line(folder: Path) -> None:
    """By a process of its own; afterwards it is there, and nothing is said."""
    first, second = python(folder, _USE), python(folder, _USE)
    assert first.stdout == second.stdout == "8 True\n"
    assert first.stderr == (
        "compiling kernels: users, about 1 s, once per installation; "
        "`bfio prepare` compiles everything\n"
    )
    assert second.stderr == ""


def test_the_time_announced_is_that_of_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of thirty kernels is no reason to announce the time of all."""
    group = KernelGroup("some", (), "", 16)
    for compiled, seconds in ((0, 16), (15, 8), (29, 1)):
        monkeypatch.setattr(KernelGroup, "num_compiled", lambda group, done=compiled: (done, 30))
        assert group.seconds_missing() == seconds


def test_a_failure_is_told(folder: Path) -> None:
    """By name, after what the process said."""
    code = (
        "from bfio.common.kernel_groups import compile_groups, groups\n"
        "try:\n    compile_groups([groups()['failing']])\n"
        "except Exception as error:\n    print(error)"
    )
    done = python(folder, code)
    assert (
        done.stdout
        == "kernels failing: cannot be compiled; read the error of the compiling process above\n"
    )
    assert "no such luck" in done.stderr


def test_an_interrupt_is_the_business_of_the_process_that_waits(folder: Path) -> None:
    """Ctrl-C reaches those that compile as well; they leave no traceback, and end with it."""
    code = "from bfio.common.kernel_groups import *\ncompile_groups([groups()['interrupted']])"
    done = python(folder, code)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_group_that_fails_is_left_to_the_first_call(folder: Path) -> None:
    """So whoever needs it gets the error itself, or a kernel that works here."""
    done = python(folder, _USE.replace('ensure_compiled("users")', 'ensure_compiled("failing")'))
    assert done.stdout == "8 False\n"


def test_nothing_to_compile_takes_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty list is no error."""
    monkeypatch.setattr(kernel_groups, "_Compiling", None)
    assert compile_groups([]) == {}


def test_kernels_are_loaded_for_long_runs_and_compiled_for_very_long_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What runs would have saved before counts; once Numba is there, loading takes less."""
    ready, seconds = False, groups()["wait"].seconds
    monkeypatch.setattr(KernelGroup, "is_ready", lambda group: ready)
    modules = {name: None for name in sys.modules if name != "numba"}
    monkeypatch.setattr(kernel_groups, "sys", SimpleNamespace(modules=modules))

    def answers(*saved_s: float) -> list[bool]:
        monkeypatch.setattr(kernel_groups, "_saveable_s", {})
        return [is_worthwhile("wait", saved) for saved in saved_s]

    assert answers(0.4) == answers(seconds - 0.1) == [False]
    assert answers(seconds + 0.1) == [True]
    assert answers(seconds / 2, seconds / 2 - 0.1, 0.2, 0.1) == [False, False, True, True]
    ready = True
    assert answers(0.4) == [False]
    assert answers(0.6) == [True]
    assert answers(0.4, 0.2, 0) == [False, True, True]
    modules["numba"] = None
    assert answers(0.05) == [False]
    assert answers(0.2) == [True]


def test_groups_wait_for_their_own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of one engine say nothing about those of another."""
    monkeypatch.setattr(KernelGroup, "is_ready", lambda group: True)
    monkeypatch.setattr(kernel_groups, "_saveable_s", {})
    assert is_worthwhile("wait", 2)
    assert not is_worthwhile("kv-cache", 0.05)


def test_kernels_without_a_group_are_one() -> None:
    """Those of an installed policy; a built-in loop is one of its group."""
    loop = loop_of(find("fcfs"))
    assert group_of(loop) is groups()["baselines"]
    assert group_of(loop_of(find("br-h"))) is groups()["two-stage"]
    other = replace(loop, name="my.module:run")
    assert list(group_of(other).entry_points()) == [entry_of(machine_code_of(other))]


def test_errors_name_the_group() -> None:
    """A process that cannot run is bad news for a user, not a traceback."""
    group = KernelGroup("gone", (), "no_such_module:function", 1)
    with pytest.raises(InputError, match="kernels gone: cannot be compiled"):
        compile_groups([group])
