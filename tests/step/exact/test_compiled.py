"""Machine code on disk belongs to its sources, those of other files included."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import bfio
from bfio.step.exact.compiled import SOURCES

_CALLER = """\
import sys
from pathlib import Path
import bfio.step.exact.compiled as compiled
compiled.SOURCES = (Path(__file__).parent,)
from callee import number

@compiled.compiled
def twice():
    return 2 * number()

print(twice())
"""
_CALLEE = """\
import bfio.step.exact.compiled as compiled

@compiled.compiled
def number():
    return {}
"""


def test_all_sources_are_watched() -> None:
    """Every module that compiles a function this way is in one of the folders."""
    package = Path(bfio.__file__).parent
    users = [
        path
        for path in package.rglob("*.py")
        if "exact.compiled import" in path.read_text(encoding="utf-8")
    ]
    assert len(users) > 10
    assert {path.parent for path in users} <= set(SOURCES)


@pytest.mark.deep
def test_a_changed_callee_is_compiled_anew(tmp_path: Path) -> None:
    """The caller's own file stays as it was, to the time stamp."""
    (tmp_path / "caller.py").write_text(_CALLER, encoding="utf-8")
    results = []
    for value in (3, 50):
        (tmp_path / "callee.py").write_text(_CALLEE.format(value), encoding="utf-8")
        run = subprocess.run(
            [sys.executable, str(tmp_path / "caller.py")],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        results.append(run.stdout.strip())
    assert results == ["6", "100"]
