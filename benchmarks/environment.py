"""Where and with what a row was measured."""

import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.case import ROOT
from benchmarks.one_core import THREAD_VARIABLES
from bfio.simulation import versions

#: Packages whose sources decide what a row measures.
_MEASURED = ("formulations", "bfio", "benchmarks")


@cache
def environment() -> dict[str, Any]:
    """Return machine, package versions, commit, dirty flag and a digest of the sources.

    It is read once per process: that is the code the process runs.
    """
    return {
        "machine": _machine(),
        "versions": versions() | {"scipy": version("scipy")},
        "commit": _git("rev-parse", "HEAD"),
        "dirty": _is_dirty(),
        "sources": source_digest(ROOT),
        "threads": {name: os.environ.get(name) for name in THREAD_VARIABLES},
    }


def source_digest(root: Path) -> str:
    """Return a digest of every Python file of the measured packages.

    Unlike a commit it also tells two dirty trees apart, and is the same for two commits that
    differ in documents only.
    """
    digest = hashlib.sha256()
    for package in _MEASURED:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
    }


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else None


def _memory_gib() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError):
        return None


def _is_dirty() -> bool | None:
    changed = _git("status", "--porcelain", "--", *_MEASURED)
    return None if changed is None else bool(changed)


def _git(*arguments: str) -> str | None:
    """Return what git says, or None outside a checkout."""
    try:
        # Optional locks off: benchmarks only look, also while someone else commits.
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(ROOT), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
