"""The checker of runs detects every kind of invalid run."""

from dataclasses import replace

import numpy as np
import pytest

from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.replay import memory_of_batches, violations
from bfio.kvcache.run import CacheRun
from bfio.kvcache.simulation import serve
from bfio.testing.instances import latency_problem
from formulations.arrays import IntArray


@pytest.fixture
def run() -> CacheRun:
    """Return a run with clearings, idle time between batches, and three requests."""
    data = latency_problem(8, [(0, 1, 4), (0, 1, 4), (400, 2, 3)])
    found = serve(data, "beta-clearing:alpha=0.25:beta=0.5", seed=3)
    assert found.cleared > 0
    assert violations(found) == {}
    return found


def changed(column: IntArray, index: int, by: int) -> IntArray:
    """Return a copy with one entry changed."""
    copy = column.copy()
    copy[index] += by
    return copy


def test_memory_is_rebuilt_by_hand() -> None:
    """C: 2, 3 tokens from batch 0 and 4, 5 from batch 1: 2, 3 + 4, 5."""
    run = serve(latency_problem(9, [(0, 1, 2), (1, 3, 2)]), "mc-sf")
    assert memory_of_batches(run).tolist() == [2, 7, 5]


@pytest.mark.parametrize(
    ("table", "column", "by", "expected"),
    [
        ("batches", "memory", 1, "recorded_memory[0]"),
        ("batches", "active", 1, "recorded_active[0]"),
        ("batches", "duration", 1, "recorded_duration[0]"),
        ("batches", "start", 1, "clock[0]"),
        ("stays", "num_batches", -1, "recorded_memory[2]"),
        ("stays", "first_batch", -5, "stays_outside"),
        ("stays", "end", 1, "stays_open"),
    ],
)
def test_each_column_matters(
    run: CacheRun, table: str, column: str, by: int, expected: str
) -> None:
    """One wrong entry is found and named."""
    part = getattr(run, table)
    broken = replace(part, **{column: changed(getattr(part, column), 0, by)})
    assert expected in violations(replace(run, **{table: broken}))


def test_wrong_times_of_requests_are_found(run: CacheRun) -> None:
    """Starts and completions follow from the stays."""
    assert violations(replace(run, start=changed(run.start, 1, 1))) == {"recorded_starts": 1}
    found = violations(replace(run, completion=changed(run.completion, 0, -1)))
    assert found == {"recorded_completions": 1}


def test_an_exceeded_memory_is_found(run: CacheRun) -> None:
    """The run needs 8 tokens at some time; an instance of 7 has 1 too few."""
    data = run.instance
    smaller = CacheInstance(7, data.arrival, data.prompt, data.output, data.convention)
    found = violations(replace(run, instance=smaller))
    assert found
    assert all(name.startswith("memory_limit") and tokens == 1 for name, tokens in found.items())


def test_a_start_before_arrival_is_found(run: CacheRun) -> None:
    """Request 2 cannot have started at 400 if it arrives at 401."""
    data = run.instance
    later = CacheInstance(8, changed(data.arrival, 2, 1), data.prompt, data.output)
    assert violations(replace(run, instance=later)) == {"starts_before_arrival": 1}


def test_missing_and_repeated_stays_are_found(run: CacheRun) -> None:
    """A finished run has one complete stay of each request, and it is the last."""
    stays = run.stays
    longer = changed(run.instance.output, 0, 1)
    data = replace(run.instance, output=longer)
    assert "stays_of_wrong_length" in violations(replace(run, instance=data))
    someone_else = replace(stays, request=np.full_like(stays.request, 2))
    found = violations(replace(run, stays=someone_else))
    assert {"stays_after_completion", "requests_unfinished"} <= set(found)
