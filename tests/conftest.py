"""Set up Hypothesis profiles, the folder of trace cuts, and headless plots and tables."""

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.places import ROOT
from tests.studies.here import compute_here

os.environ.setdefault("MPLBACKEND", "Agg")
# Tables have the width of output without a terminal, whatever terminal runs the tests.
os.environ.pop("COLUMNS", None)

# Compiled kernels and solvers make the first example slow; the suite has its own time limit.
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
# Enough examples to find the planted faults. The long profile has as many as two cores can run
# in some hours.
settings.register_profile("fast", max_examples=10, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("ci", settings.get_profile("fast"), derandomize=True)
settings.register_profile("deep", max_examples=500, deadline=None, suppress_health_check=_SLOW)
settings.register_profile(
    "proofs", max_examples=20_000, deadline=None, suppress_health_check=_SLOW
)
settings.load_profile(os.environ.get("BFIO_TEST_PROFILE", "fast"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the objects of loaded modules from garbage collection; they live to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests first; at the end all other processes would wait for the last of them."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def rows_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute study rows in this process, because starting another one takes seconds."""
    monkeypatch.setattr("bfio.studies.runner.compute_locally", compute_here)


@pytest.fixture(scope="module")
def rows_of_module_in_this_process() -> Iterator[None]:
    """Do so for all tests of a module and what they share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bfio.studies.runner.compute_locally", compute_here)
        yield


_SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real trace cuts; skip the test if it is missing."""
    if not _SHARED.is_dir():
        pytest.skip("../shared/data is not here: no real trace cut to read")
    return _SHARED
