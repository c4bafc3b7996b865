"""Hypothesis profiles, the shared trace folder, plots and tables without a screen."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.places import ROOT
from tests.studies.here import compute_here

os.environ.setdefault("MPLBACKEND", "Agg")
# Tables are as wide as where nobody looks on, whatever terminal runs the tests.
os.environ.pop("COLUMNS", None)

# Compiled kernels and solvers make the first example slow; the suite has its own time limit.
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
# So many find the faults that tests plant; the long profile has the others.
settings.register_profile("fast", max_examples=25, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("ci", settings.get_profile("fast"), derandomize=True)
settings.register_profile("deep", max_examples=2000, deadline=None, suppress_health_check=_SLOW)
settings.register_profile(
    "proofs", max_examples=20_000, deadline=None, suppress_health_check=_SLOW
)
settings.load_profile(os.environ.get("BFIO_TEST_PROFILE", "fast"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among a million objects of modules, which live to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def rows_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute rows of studies here: a process that loads the toolkit costs seconds."""
    monkeypatch.setattr("bfio.studies.runner.compute_locally", compute_here)


_SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real trace cuts, where it is at hand."""
    if not _SHARED.is_dir():
        pytest.skip("../shared/data is not here: no real trace cut to read")
    return _SHARED
