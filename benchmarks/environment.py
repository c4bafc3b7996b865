"""Where and with what a row was measured."""

import os
from functools import cache
from typing import Any

from bfio.common import provenance
from bfio.common.import_closure import ROOT
from bfio.common.provenance import (
    THREAD_VARIABLES,
    computing_sources,
    is_dirty,
    source_digest,
)


@cache
def environment() -> dict[str, Any]:
    """Return machine, package versions, commit, dirty flag and a digest of the sources.

    It is read once per process: that is the code the process runs.
    """
    return {
        **provenance.environment(),
        "dirty": is_dirty("formulations", "bfio", "benchmarks"),
        "sources": source_digest([*computing_sources(), *(ROOT / "benchmarks").rglob("*.py")]),
        "threads": {name: os.environ.get(name) for name in THREAD_VARIABLES},
    }
