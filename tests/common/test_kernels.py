"""Machine code on disk matches its sources, including those in other files."""

import os
import subprocess
import sys
import time
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from bfio.common.compilable import compilable
from bfio.common.kernel_groups import groups
from bfio.common.kernels import (
    cache_folders,
    entry_of,
    entry_point,
    machine_code,
    made_of,
    note_use,
    remove_unused,
)
from bfio.common.numba_parts import TESTED
from bfio.decode.machine import moves
from bfio.decode.machine.whole_run import loop_of, machine_code_of
from bfio.decode.policy_registry import find
from formulations.arrays import IntArray
from tests.places import ROOT
from tests.processes import PATIENCE_S, started, with_numba

_CALLER = """\
import sys
from bfio.common.kernels import entry_point, machine_code
from callee import number

@entry_point
def twice():
    return 2 * number()

def show():
    print(twice(), dict(twice.entry.machine_code.stats.cache_hits) != {})
"""
_CALLEE = """\
from bfio.common.compilable import compilable

FACTOR = 1

@compilable
def number():
    '''Return a number.'''
    return FACTOR * {}
"""
_OTHER = """\
from bfio.common.kernels import entry_point, machine_code

@entry_point
def thrice(number):
    return 3 * number
"""
#: A kernel whose inner function raises, and is also called from Python, before or after.
_LATE = """\
import sys
from numba import njit
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point, machine_code

@compilable(allocates=True)
def checked(number):
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number

@entry_point
def twice(number):
    return 2 * checked(number)

compiled = machine_code(checked)
directly = njit(lambda number: 3 * compiled(number))
"""
#: Two kernels that call a function with its own machine code, and what was read from the disk.
_APART = """\
import numpy as np
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point, machine_code

@compilable(allocates=True, apart=True)
def total(numbers):
    if len(numbers) == 0:
        raise ValueError("no numbers")
    return np.cumsum(numbers)[-1]

@compilable
def doubled(numbers):
    return 2 * total(numbers)

@entry_point
def first(numbers):
    return doubled(numbers) + 1

@entry_point
def second(numbers):
    return first(numbers) + total(numbers)

def show():
    numbers = np.array([2, 3])
    try:
        second(numbers[:0])
    except ValueError as error:
        said = str(error)
    codes = (machine_code(total), first.entry.machine_code, second.entry.machine_code)
    print(second(numbers), said, *(sum(code.stats.cache_hits.values()) for code in codes))
"""
#: The symbol of a kernel.
_SYMBOL = """
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point, machine_code

@compilable
def inner(number):
    return number + 1

@entry_point
def following(number):
    return inner(number)

following(1)
for function in (following.entry.machine_code, machine_code(inner)):
    (made,) = function.overloads.values()
    print(made.fndesc.mangled_name)
"""
#: Each import asks the disk: the function is a new one.
_DAMAGE = """
import sys
from pathlib import Path
import caller
caller.show()
(file,) = Path("cache").rglob("*.kernel")
whole = file.read_bytes()
for damaged in (whole[:-100], whole[:1000] + b"x" + whole[1001:], b""):
    file.write_bytes(damaged)
    del sys.modules["caller"]
    import caller
    caller.show()
    assert file.read_bytes() != damaged
del sys.modules["caller"]
import caller
caller.show()
"""
#: Private names of Numba that `bfio.common.numba_parts` uses.
_PRIVATE = """
from numba import njit
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
function = njit(nogil=True, _nrt=False)(lambda x: x)
assert {"load_overload", "save_overload", "cache_path"} <= set(dir(function._cache))
function(1)
(result,) = function.overloads.values()
assert result.codegen.magic_tuple() and not result.lifted
from numba.core.codegen import JITCodeLibrary
from numba.core.runtime import nrtdynmod, rtsys
assert nrtdynmod.compile_nrt_functions and rtsys._library is rtsys.library
assert rtsys.library.name == "nrt" and rtsys._init_guard() is None
from numba.np.linalg import ensure_blas
import numba.np.arraymath
assert numba.cpython.hashing
names = "_unserialize _get_compiled_object _set_compiled_object serialize_using_object_code"
assert {*names.split(), "add_linking_library"} <= set(dir(JITCodeLibrary))
assert rtsys.initialize and result.codegen._engine.get_function_address
assert result.fndesc.llvm_func_name
assert result.library.has_dynamic_globals is False
function.targetctx.refresh()
assert CompileResult._rebuild(function.targetctx, *result._reduce()).entry_point
assert dumps(result._reduce())
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.targetconfig import ConfigStack
names = "_optimize_final_module _finalize_final_module _finalize_dynamic_globals _ensure_finalized"
assert {*names.split(), "get_pointer_to_function"} <= set(dir(JITCodeLibrary))
assert "_finalized" in vars(result.library) and result._find_referenced_environments() is not None
assert function._compiler.py_func and function.get_call_template
from numba.core.bytecode import FunctionIdentity
assert next(FunctionIdentity._unique_ids) >= 0
assert JITCPUCodegen.set_env and ConfigStack().top_or_none() is None
"""


def _filled(folder: Path) -> Path:
    """Write a caller, its callee and a module of its own."""
    (folder / "caller.py").write_text(_CALLER, encoding="utf-8")
    (folder / "callee.py").write_text(_CALLEE.format(3), encoding="utf-8")
    (folder / "other.py").write_text(_OTHER, encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder with these modules and without machine code."""
    return _filled(tmp_path)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with these modules and machine code of the caller."""
    made = _filled(tmp_path_factory.mktemp("compiled"))
    assert result(made) == "6 False"
    return made


def python(folder: Path, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, with a cache of its own."""
    own = {"NUMBA_CACHE_DIR": str(folder / "cache")}
    done = with_numba(folder, code, {**os.environ, **own, **variables})
    assert done.returncode == 0, done.stderr
    return done


_RUN = "import caller; caller.show()"


def result(folder: Path, code: str = _RUN) -> str:
    """Return what a program prints."""
    return python(folder, code).stdout.strip()


def test_an_edited_callee_is_compiled_anew(folder: Path) -> None:
    """The caller's own file stays as it was, to the time stamp; what is untouched is loaded."""
    assert result(folder) == "6 False"
    assert result(folder) == "6 True"
    (folder / "callee.py").write_text(_CALLEE.format(50), encoding="utf-8")
    assert result(folder) == "100 False"


def test_a_callee_that_moves_does_not_break_its_caller(folder: Path) -> None:
    """Its machine code stays valid, or is compiled again if it names the old module."""
    tuples = (
        "from typing import NamedTuple\nclass Pair(NamedTuple):\n    first: int\n    second: int\n"
    )
    caller = (
        "from bfio.common.kernels import entry_point\nfrom {0} import Pair, number\n"
        "@entry_point\ndef total(pair):\n    return pair.first + number()\n"
        "print(total(Pair(1, 2)))\n"
    )
    for home in ("callee", "moved"):
        (folder / f"{home}.py").write_text(_CALLEE.format(3) + tuples, encoding="utf-8")
        (folder / "caller.py").write_text(caller.format(home), encoding="utf-8")
        assert [result(folder, "import caller") for _ in range(2)] == ["4", "4"]
        (folder / f"{home}.py").unlink()


def test_a_function_compiled_apart_is_called_by_its_symbol(folder: Path) -> None:
    """Its callers share its code; if the code is lost, it is compiled again with this symbol."""
    (folder / "apart.py").write_text(_APART, encoding="utf-8")
    use = "import apart; apart.show()"
    assert result(folder, use) == "16 no numbers 0 0 0"
    assert result(folder, use) == "16 no numbers 1 1 1"
    (stored,) = (folder / "cache").rglob("apart.total-*.kernel")
    stored.unlink()
    assert result(folder, use) == "16 no numbers 0 1 1"
    assert result(folder, use) == "16 no numbers 1 1 1"
    (folder / "apart.py").write_text(_APART.replace("[-1]", "[0]"), encoding="utf-8")
    assert result(folder, use) == "7 no numbers 0 0 0"


def test_an_edit_elsewhere_leaves_machine_code_valid(folder: Path) -> None:
    """Only what is compiled counts."""
    use = (
        "import other\n"
        "print(other.thrice(2), dict(other.thrice.entry.machine_code.stats.cache_hits) != {})"
    )
    assert result(folder, use) == "6 False"
    (folder / "callee.py").write_text(_CALLEE.format(50), encoding="utf-8")
    assert result(folder, use) == "6 True"


def test_folders_that_nobody_uses_are_removed(folder: Path) -> None:
    """After a month; what was used meanwhile stays, and so does whatever else lies there."""
    root = folder / "cache" / "bfio" / "kernels"
    old, used, foreign = (root / name for name in ("0" * 32, "1" * 32, "notes"))
    month_ago = time.time() - 31 * 86_400
    for place in (old, used, foreign):
        place.mkdir(parents=True)
        (place / "file").touch()
        os.utime(place, (month_ago, month_ago))
    note_use(used)
    remove_unused(root)
    assert (old.exists(), used.exists(), foreign.exists()) == (False, True, True)
    remove_unused(root / "nowhere")


@pytest.mark.parametrize(
    ("old", "new", "is_kept"),
    [
        ("Return a number.", "Return the number.", True),
        ("@compilable", "#: A comment.\n@compilable", True),
        ("FACTOR = 1", "FACTOR, OTHER = 1, 5", True),
        ("def number", "def unused():\n    return 4\n\n@compilable\ndef number", True),
        ("FACTOR = 1", "FACTOR = 2", False),
        ("FACTOR = 1", "FACTOR = True", False),
        ("FACTOR *", "FACTOR +", False),
        ("@compilable", "@compilable(allocates=True)", False),
    ],
)
def test_only_what_is_compiled_decides(compiled: Path, old: str, new: str, is_kept: bool) -> None:
    """Neither comments nor other names of a file do; constants, code and ways to compile do."""
    edited = _CALLEE.format(3).replace(old, new)
    (compiled / "callee.py").write_text(edited, encoding="utf-8")
    ask = "import caller; print(caller.twice.entry.is_compiled())"
    assert result(compiled, ask) == str(is_kept)


def test_fields_of_named_tuples_decide(folder: Path) -> None:
    """Two of one type that change places leave code and types as they were."""
    module = (
        "from typing import NamedTuple\nfrom bfio.common.kernels import entry_point\n"
        "class Pair(NamedTuple):\n    {}: int\n    {}: int\n"
        "@entry_point\ndef first(pair):\n    return pair.one\n"
    )
    for names, value in ((("one", "two"), "5"), (("two", "one"), "7")):
        (folder / "pairs.py").write_text(module.format(*names), encoding="utf-8")
        assert result(folder, "import pairs; print(pairs.first(pairs.Pair(5, 7)))") == value


@pytest.mark.parametrize("group", groups())
def test_few_files_decide_on_a_kernel(group: str) -> None:
    """Those of the functions that are compiled: the machine and what it chooses."""
    for entry in groups()[group].entry_points():
        assert entry.made.digest is not None
        assert len(entry.made.modules) < 40, sorted(entry.made.modules)


@pytest.mark.parametrize(
    ("name", "value", "is_same"),
    [
        ("phases.ACTIVE", 97, False),
        ("phases.take_from_pool", moves.log_is_full, False),
        ("whole_run.CHUNK_S", 97, True),
        ("phases.State", tuple, True),
    ],
)
def test_what_a_loop_names_decides(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object, is_same: bool
) -> None:
    """A constant or a function of the machine does; names of annotations do not."""
    loop = entry_of(machine_code_of(loop_of(find("fcfs")))).py_func
    before = made_of(loop).digest
    monkeypatch.setattr(f"bfio.decode.machine.{name}", value)
    assert (made_of(loop).digest == before) is is_same


def test_a_profiler_leaves_machine_code_valid(folder: Path) -> None:
    """Numba then changes the code objects of what it calls, but not what they do."""
    code = """
import cProfile
from bfio.common.kernels import made_of
from other import thrice
flags, before = thrice.entry.py_func.__code__.co_flags, made_of(thrice.entry.py_func)
with cProfile.Profile():
    thrice(2)
print(thrice.entry.py_func.__code__.co_flags == flags, made_of(thrice.entry.py_func) == before)
"""
    assert result(folder, code) == "False True"


def test_numba_is_pinned_to_what_is_tested() -> None:
    """Private parts are used with these versions, and no others can be installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (numba,) = (name for name in project["dependencies"] if name.startswith("numba"))
    major, minor = TESTED[-1].split(".")
    assert numba == f"numba>={TESTED[0]},<{major}.{int(minor) + 1}"


def test_compiled_is_told_without_numba(folder: Path) -> None:
    """The answer changes with the sources, and Numba is not loaded."""
    ask = "import sys, other; print(other.thrice.entry.is_compiled(), 'numba' in sys.modules)"

    def answer() -> str:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
        command = [sys.executable, "-B", "-c", ask]
        return subprocess.check_output(command, cwd=folder, env=environment, text=True)

    assert answer() == "False False\n"
    result(folder, "import other; other.thrice(1)")
    assert answer() == "True False\n"
    (folder / "other.py").write_text(_OTHER.replace("3 *", "4 *"), encoding="utf-8")
    assert answer() == "False False\n"


def test_plain_numba_gives_the_same_and_keeps_nothing(folder: Path) -> None:
    """As with a version of Numba that was not tested: its own methods stay as they are."""
    code = (
        "import caller, other, late; caller.show()\n"
        "from numba.core.codegen import JITCodeLibrary\n"
        "print(JITCodeLibrary._unserialize.__module__, other.thrice(2), late.twice(4))\n"
        "print(other.thrice.entry.is_compiled())"
    )
    (folder / "late.py").write_text(_LATE, encoding="utf-8")
    said = python(folder, code, BFIO_PLAIN_NUMBA="1").stdout.split()
    assert said == ["6", "False", "numba.core.codegen", "6", "8", "False"]
    assert list(folder.rglob("*.kernel")) == []


def test_damaged_machine_code_is_compiled_anew(folder: Path) -> None:
    """Whether cut off, changed or empty."""
    assert result(folder, _DAMAGE).splitlines() == ["6 False"] * 4 + ["6 True"]
    assert result(folder) == "6 True"


def test_where_nothing_can_be_written_a_temporary_folder_serves(folder: Path) -> None:
    """One line says so; a file in place of the cache folder stands for a read-only disk."""
    (folder / "file").write_text("")
    (folder / "temporary").mkdir()
    places = {"NUMBA_CACHE_DIR": str(folder / "file"), "TMPDIR": str(folder / "temporary")}
    first = python(folder, f"{_RUN}; import other; other.thrice(1)", **places)
    assert first.stdout == "6 False\n"
    assert first.stderr.startswith(f"warning: cannot write machine code to {folder / 'file'}")
    assert first.stderr.count("\n") == 1
    second = python(folder, _RUN, **places)
    assert (second.stdout, second.stderr) == ("6 True\n", "")


def test_a_temporary_folder_of_others_is_left_alone(folder: Path) -> None:
    """Machine code is run: nobody else may be able to put it there."""
    (folder / "file").write_text("")
    places = {"NUMBA_CACHE_DIR": str(folder / "file"), "TMPDIR": str(folder)}
    spare = folder / cache_folders()[1].name
    spare.mkdir()
    spare.chmod(0o777)
    assert python(folder, _RUN, **places).stdout == "6 False\n"
    assert list(spare.iterdir()) == []


@pytest.mark.deep
def test_two_processes_may_compile_at_once(folder: Path) -> None:
    """Both get the right result, and what they leave is whole."""
    command = [sys.executable, "-c", _RUN]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    with ExitStack() as stack:
        programs = [
            stack.enter_context(
                started(command, cwd=folder, env=environment, stdout=subprocess.PIPE)
            )
            for _ in range(2)
        ]
        outputs = [program.communicate(timeout=PATIENCE_S)[0] for program in programs]
    assert [output.split()[0] for output in outputs] == ["6", "6"]
    assert result(folder) == "6 True"


def test_variables_of_an_enclosing_function_count(folder: Path) -> None:
    """They are constants of the machine code."""
    (folder / "maker.py").write_text(
        "from bfio.common.kernels import entry_point\n"
        "def maker(number):\n"
        "    @entry_point\n"
        "    def returned():\n"
        "        return number\n"
        "    return returned\n"
    )
    code = (
        "import maker\n"
        "for number in (1, 2, 1):\n"
        "    made = maker.maker(number)\n"
        "    print(made.entry.is_compiled(), made())"
    )
    assert result(folder, code).splitlines() == ["False 1", "False 2", "True 1"]


def test_inner_functions_work_though_their_own_code_is_generated_late(folder: Path) -> None:
    """Their errors too, compiled here or loaded; Numba's own functions are left as they were."""
    (folder / "late.py").write_text(_LATE, encoding="utf-8")
    code = (
        "import late\n"
        "print(late.twice(4), late.directly(5))\n"
        "for function in (late.twice, late.directly):\n"
        "    try:\n        function(-1)\n"
        "    except ValueError as error:\n        print(error)"
    )
    for _ in range(2):
        assert result(folder, code) == "8 15\n-1 is negative\n-1 is negative"


def test_what_is_private_to_numba_still_exists(folder: Path) -> None:
    """The names that the cache on disk is built on."""
    python(folder, _PRIVATE)


@pytest.mark.deep
def test_symbols_of_different_processes_differ_but_of_stored_functions(tmp_path: Path) -> None:
    """Of equal ones the linker takes one; Numba has one name for sorts of values and positions.

    Other machine code calls stored functions by their symbols, in every process.
    """
    (tmp_path / "symbol.py").write_text(_SYMBOL)

    def symbols(cache: str) -> list[str]:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / cache)}
        command = [sys.executable, str(tmp_path / "symbol.py")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return done.stdout.split()

    (stored, inner), (stored_again, inner_again) = symbols("first"), symbols("second")
    assert "following" in stored
    assert stored == stored_again
    assert "inner" in inner
    assert inner != inner_again


@compilable(into_caller=True)
def shift(values: IntArray, amount: int) -> int:
    """Add to all numbers, and return their sum."""
    for i in range(len(values)):
        values[i] += amount
    return int(values.sum())


@compilable(allocates=True, into_caller=True)
def doubled(values: IntArray) -> IntArray:
    """Return an array of twice the numbers."""
    return 2 * values


def run(values: IntArray, amount: int) -> int:
    """Call each of them, one twice."""
    return shift(values, amount) + shift(doubled(values), -amount)


def test_they_do_the_same_and_are_not_called() -> None:
    """Interpreted and compiled alike; Numba is told, also of what allocates."""
    slow, fast = np.arange(5), np.arange(5)
    compiled: Any = entry_point(run)
    assert run(slow, 3) == compiled(fast, 3) == 25 + 35
    assert slow.tolist() == fast.tolist() == [3, 4, 5, 6, 7]
    for function in (shift, doubled):
        options = cast(Any, machine_code(function)).targetoptions
        assert options["forceinline"]
        assert options["_nrt"] is (function is doubled)
