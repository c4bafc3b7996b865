"""The checker detects changes in a log and in the counts of a run."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from bfio.batching.laws import Law, LawName
from bfio.batching.replay import request_ends, violations
from bfio.batching.run import BatchRun
from bfio.batching.scenario import Scenario
from bfio.batching.simulation import simulate
from bfio.batching.tallies import COUNT, DEPARTED, E2E, SUM, BatchLog
from formulations.arrays import IntArray
from formulations.batching import (
    Agent,
    AgentNetwork,
    BatchTime,
    Route,
    Stage,
    fork_join,
    rybko_stolyar,
    single_engine,
)

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


#: Requests that pass two agents, come back with a chance of a third, or leave.
LOOP = AgentNetwork(
    (Agent("a", 9, BatchTime(1)), Agent("b", 7, BatchTime(2))),  # type: ignore[arg-type]
    (
        Stage("r", "a", 3, 4, "0.3", "first"),  # type: ignore[arg-type]
        Stage("r", "b", 2, 3, 0, "second"),  # type: ignore[arg-type]
    ),
    (Route("first", "second", "0.8"), Route("second", "first", "0.3")),  # type: ignore[arg-type]
)
DELAY = Law(LawName.GEOMETRIC, Fraction(5))
NETWORKS = {
    "routed": Scenario(LOOP),
    "tool": Scenario(LOOP, delays={"second": DELAY}),
    "line": Scenario(rybko_stolyar("0.5"), sizes="poisson", delays={"A@2": DELAY}),
    "forked": Scenario(fork_join("0.5", [(10, 10), (5, 15), (15, 5), (12, 8)], budgets=20)),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    ("table", "place", "rule"),
    [
        ("times", (E2E, SUM), "counted_times[2]"),
        ("times", (E2E, COUNT), "counted_times[2]"),
        ("histograms", (E2E, 20), "counted_times[2]"),
        ("run", (DEPARTED,), "counted_requests"),
    ],
)
def test_departures_of_networks_are_derived(
    name: str, table: str, place: tuple[int, ...], rule: str
) -> None:
    """One request more that departed, or a slot more that one took, is noticed in any network."""
    run = simulate(NETWORKS[name], seed=2, horizon=400, keeps_log=True)
    assert violations(run) == {}
    assert run.tallies.run[DEPARTED] > 20
    assert request_ends(run).unknown == 0
    counts = getattr(run.tallies, table).copy()
    counts[place] += 1
    wrong = replace(run, tallies=replace(run.tallies, **{table: counts}))
    assert list(violations(wrong)) == [rule]


def test_what_is_not_known_is_no_violation() -> None:
    """Behind a delay, with a route into one: the last task may have left, or wait."""
    scenario = Scenario(LOOP, delays={"first": DELAY, "second": DELAY})
    run = simulate(scenario, seed=2, horizon=400, keeps_log=True)
    ends = request_ends(run)
    assert violations(run) == {}
    assert ends.unknown > 0
    departed = int(run.tallies.run[DEPARTED])
    assert len(ends.times) <= departed <= len(ends.times) + ends.unknown
    for amount in (-1, ends.unknown + 1):
        counts = run.tallies.run.copy()
        counts[DEPARTED] = len(ends.times) + amount
        wrong = replace(run, tallies=replace(run.tallies, run=counts))
        assert "counted_requests" in violations(wrong)


def test_another_route_than_the_one_drawn() -> None:
    """A request that goes on where it should have left, or the other way round."""
    run = simulate(Scenario(LOOP), seed=2, horizon=400, keeps_log=True)
    assert run.log is not None
    others = replace(run, seed=3)
    assert request_ends(others).wrong > 0
    assert request_ends(run).wrong == 0


def test_a_log_of_nothing() -> None:
    """No request, no batch, no violation."""
    quiet = Scenario(single_engine(0, 1, 1, budget=1))
    run = simulate(quiet, horizon=5, keeps_log=True)
    assert isinstance(run.log, BatchLog)
    assert (len(run.log.tasks), len(run.log.batches), violations(run)) == (0, 0, {})
