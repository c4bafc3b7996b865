"""Where and with what a row was measured."""

import os
from functools import cache
from typing import Any

from bfio.provenance import (
    ROOT,
    THREAD_VARIABLES,
    commit,
    computing_sources,
    is_dirty,
    machine,
    source_digest,
    versions,
)

#: Packages whose sources decide what a row measures.
_MEASURED = ("formulations", "bfio", "benchmarks")


@cache
def environment() -> dict[str, Any]:
    """Return machine, package versions, commit, dirty flag and a digest of the sources.

    It is read once per process: that is the code the process runs.
    """
    return {
        "machine": machine(),
        "versions": versions(),
        "commit": commit(),
        "dirty": is_dirty(*_MEASURED),
        "sources": source_digest([*computing_sources(), *(ROOT / "benchmarks").rglob("*.py")]),
        "threads": {name: os.environ.get(name) for name in THREAD_VARIABLES},
    }
