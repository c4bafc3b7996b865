"""The checker finds what has been changed in a log, and in the counts of a run."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bfio.batching.log import BatchLog
from bfio.batching.replay import violations
from bfio.batching.run import BatchRun
from bfio.batching.scenario import Scenario
from bfio.batching.simulation import simulate
from formulations.arrays import IntArray
from formulations.batching import BatchTime, fork_join, rybko_stolyar, single_engine

ENGINE = Scenario(single_engine("0.3", 10, 10, budget=10, batch_time=BatchTime(2)))  # type: ignore[arg-type]


def changed(run: BatchRun, table: str, change: Callable[[IntArray], None]) -> BatchRun:
    """Return a run with another table in its log."""
    assert run.log is not None
    rows = getattr(run.log, table).copy()
    change(rows)
    return replace(run, log=replace(run.log, **{table: rows}))


def add(row: int, column: int, amount: int) -> Callable[[IntArray], None]:
    """Return a change of one entry."""

    def change(rows: IntArray) -> None:
        rows[row, column] += amount

    return change


@pytest.mark.parametrize(
    ("table", "change", "rule"),
    [
        ("batches", add(5, 1, -1), "batches_overlap"),
        ("batches", add(5, 1, 1), "idle_with_work"),
        ("batches", add(5, 2, -1), "recorded_slots"),
        ("batches", add(5, 3, 1), "recorded_tokens"),
        ("batches", add(5, 4, 1), "recorded_parts"),
        ("parts", add(0, 2, 20), "budget_exceeded"),
        ("parts", add(0, 3, 1), "decode_before_prefill"),
        ("parts", add(0, 1, 1), "decode_before_prefill"),
        ("parts", add(0, 1, 10**6), "parts_outside"),
        ("tasks", add(3, 4, 1), "arrivals_differ"),
        ("tasks", add(3, 0, 1), "parts_outside"),
        ("tasks", add(0, 4, 500), "loaded_before_ready"),
        ("tasks", add(-1, 5, 1), "sizes_differ"),
        ("tasks", add(-1, 6, -(10**6)), "sizes_below_one"),
    ],
)
def test_a_changed_log(table: str, change: Callable[[IntArray], None], rule: str) -> None:
    """Each rule is broken by a change of one number, and said by its name."""
    run = simulate(ENGINE, seed=1, horizon=600, keeps_log=True)
    assert violations(run) == {}
    assert rule in violations(changed(run, table, change))


@pytest.mark.parametrize(
    ("table", "place", "name"),
    [
        ("engines", (0, 0), "counted_of_engine[0]"),
        ("engines", (0, 4), "counted_fullness"),
        ("engines", (0, 8), "counted_of_engine[8]"),
        ("stages", (0, 1), "counted_of_stage[1]"),
        ("times", (0, 1), "counted_times[0]"),
        ("times", (1, 2), "counted_times[1]"),
        ("histograms", (2, 20), "counted_times[2]"),
        ("run", (1,), "counted_requests"),
    ],
)
def test_a_changed_count(table: str, place: tuple[int, ...], name: str) -> None:
    """Counts are derived again from the log."""
    run = simulate(ENGINE, seed=1, horizon=600, keeps_log=True)
    counts = getattr(run.tallies, table).copy()
    counts[place] += 1
    wrong = replace(run, tallies=replace(run.tallies, **{table: counts}))
    assert list(violations(wrong)) == [name]


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(rybko_stolyar("0.5"), sizes="poisson"),
        Scenario(fork_join("0.5", [(10, 10), (5, 15), (15, 5), (12, 8)], budgets=20)),
    ],
)
def test_a_task_handed_on_too_early(scenario: Scenario) -> None:
    """Of a network: a task that follows another begins when that ends."""
    run = simulate(scenario, seed=1, horizon=300, keeps_log=True)
    assert violations(run) == {}
    assert run.log is not None
    later = np.flatnonzero(run.log.tasks[:, 2] == 1)[0]
    broken = violations(changed(run, "tasks", add(int(later), 4, -1)))
    # A batch that waited for it would have been late, which is seen first.
    assert {"handed_on_late", "idle_with_work"} & set(broken)


def test_a_log_of_nothing() -> None:
    """No request, no batch, no violation."""
    quiet = Scenario(single_engine(0, 1, 1, budget=1))
    run = simulate(quiet, horizon=5, keeps_log=True)
    assert isinstance(run.log, BatchLog)
    assert (len(run.log.tasks), len(run.log.batches), violations(run)) == (0, 0, {})
