"""Provenance of results: package versions, machine and commit."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bfio.common.import_closure import ROOT

#: Environment variables that numerical libraries read once, when first imported.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_PACKAGES = ("bfio", "numpy", "scipy", "numba", "ortools", "highspy", "pyomo", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on."""
    return {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES}


def citable_versions() -> dict[str, Any]:
    """Return the versions that results depend on, and the commit to cite.

    ``commit`` is None outside a checkout; ``dirty`` is True if the sources differ from the commit.
    """
    return {**versions(), **_sources()}


@cache
def version_and_commit() -> str:
    """Return the version of this package, with the commit in a checkout; computed once."""
    sources = _sources()
    if sources["commit"] is None:
        return f"bfio {_version('bfio')}"
    changed = ", changed" if sources["dirty"] else ""
    return f"bfio {_version('bfio')} (commit {sources['commit'][:9]}{changed})"


@cache
def _sources() -> dict[str, Any]:
    """Return the commit and whether the sources differ from it."""
    # Leave out the library's data: they are results of the sources.
    places = ("formulations", "bfio", ":(exclude)bfio/library/data")
    return {"commit": commit(), "dirty": is_dirty(*places)}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def use_one_thread() -> None:
    """Set one thread for every numerical library; call it before numpy is imported."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))


@cache
def environment() -> dict[str, Any]:
    """Return machine, versions, commit and whether the sources differ from it; computed once.

    The answer describes the code that this process runs. Later changes on disk have no effect on
    it.
    """
    return {"machine": machine(), "versions": versions(), **_sources()}


def machine() -> dict[str, Any]:
    """Return system, processor, cores and memory of this machine."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
    }


def commit() -> str | None:
    """Return the commit of the checkout, or None outside one."""
    return _git("rev-parse", "HEAD")


def has_commit(name: str) -> bool | None:
    """Return whether the checkout contains a commit; None in a shallow clone or no checkout."""
    if _git("rev-parse", "--is-shallow-repository") != "false":
        return None
    return _git("cat-file", "-e", f"{name}^{{commit}}") is not None


def is_dirty(*folders: str) -> bool | None:
    """Return whether the checkout differs from its commit in these folders (git pathspecs)."""
    changed = _git("status", "--porcelain", "--", *folders)
    return None if changed is None else bool(changed)


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


def _git(*arguments: str) -> str | None:
    """Return the output of a git command in this package's checkout; None outside one."""
    if not (ROOT / ".git").exists():
        return None
    try:
        # Without optional locks, because git may be in use by another process.
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(ROOT), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
