"""The checker of runs detects every kind of invalid run."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from bfio.wait.arrivals import poisson_instance
from bfio.wait.registry import build
from bfio.wait.replay import held_memory, violations
from bfio.wait.run import Events, StageBatches, StageRun, StageVerdict
from bfio.wait.simulation import serve
from formulations.arrays import IntArray
from tests.wait.cases import I0, instance


@dataclass(frozen=True)
class Known:
    """A record of events that are written out."""

    known: Events

    def events(self) -> Events:
        """Return them."""
        return self.known


@cache
def run() -> StageRun:
    """Return a run with evictions that ends at a horizon; all tests start from it."""
    found = serve(poisson_instance(I0, 60, seed=8), build("fcfs", I0), horizon_s=60)
    assert len(found.evictions) > 3
    assert violations(found) == {}
    return found


def changed(column: IntArray, index: int, by: int) -> IntArray:
    """Return a copy with one entry changed."""
    copy = column.copy()
    copy[index] += by
    return copy


def table(part: str, column: str, index: int, by: int) -> StageRun:
    """Return the run with one entry of a table changed."""
    broken = getattr(run(), part)
    return replace(
        run(), **{part: replace(broken, **{column: changed(getattr(broken, column), index, by)})}
    )


def with_events(change: Callable[[Events], Events]) -> StageRun:
    """Return the run with other events."""
    return replace(run(), log=Known(change(run().log.events())))


def events(column: str, index: int, by: int) -> StageRun:
    """Return the run with one entry of its events changed."""
    return with_events(lambda e: replace(e, **{column: changed(getattr(e, column), index, by)}))


def times(column: str) -> StageRun:
    """Return the run with one time of a request changed."""
    values: IntArray = getattr(run(), column)
    broken: dict[str, Any] = {column: changed(values, int(np.flatnonzero(values > 0)[0]), 1)}
    return replace(run(), **broken)


def data(**change: Any) -> StageRun:
    """Return the run as if it had served other requests."""
    return replace(run(), instance=replace(run().instance, **change))


def with_a_batch_of_nobody() -> StageRun:
    """Return the run with an additional empty batch."""
    columns = (getattr(run().batches, field.name) for field in fields(StageBatches))
    return replace(run(), batches=StageBatches(*(np.append(c, c[-1]) for c in columns)))


def passed_twice() -> StageRun:
    """Return the run with an event of the last batch written twice."""
    return with_events(
        lambda e: Events(*(np.append(c, c[-1]) for c in (e.batch, e.request, e.stage)))
    )


#: One broken run for each rule of the checker.
BROKEN: dict[str, Callable[[], StageRun]] = {
    "events_outside": lambda: events("batch", 0, -1),
    "evictions_outside": lambda: table("evictions", "batch", 0, -(10**6)),
    "events_at_once": passed_twice,
    "stages_out_of_order": lambda: events("stage", 5, 1),
    "stages_too_late": lambda: data(
        output=run().instance.output - 1 + (run().instance.output < 1)
    ),
    "evictions_of_nothing": lambda: table("evictions", "request", 0, 1),
    "empty_batch": with_a_batch_of_nobody,
    "recorded_tokens": lambda: table("batches", "tokens", 2, 1),
    "recorded_prompts": lambda: table("batches", "prompts", 2, -1),
    "recorded_memory": lambda: table("batches", "memory", 2, 1),
    "recorded_duration": lambda: table("batches", "duration", 2, -1),
    "recorded_waiting": lambda: table("batches", "waiting", 2, 1),
    "clock": lambda: table("batches", "start", int(np.argmax(run().batches.waiting > 2)) + 1, -1),
    "starts_before_arrival": lambda: data(arrival=run().instance.arrival + 10**6),
    "recorded_prefills": lambda: times("prefilled"),
    "recorded_first_tokens": lambda: times("first_token"),
    "recorded_completions": lambda: times("completion"),
    "requests_unfinished": lambda: replace(run(), verdict=StageVerdict.FINISHED),
    "batches_after_horizon": lambda: replace(run(), duration=int(run().batches.start[-1])),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_is_noticed(rule: str) -> None:
    """A run that breaks it is found, and the rule named."""
    assert rule in {name.split("[")[0] for name in violations(BROKEN[rule]())}


def test_amounts_say_where_and_by_how_much() -> None:
    """A recorded column that is wrong by 3 in batch 4, and nothing else."""
    assert violations(table("batches", "memory", 4, 3)) == {"recorded_memory[4]": 3}
    assert violations(table("batches", "tokens", 4, -3)) == {"recorded_tokens[4]": 3}
    assert violations(times("completion")) == {"recorded_completions": 1}
    assert violations(events("request", 0, 10**6)) == {"events_outside": 1}


def test_memory_by_hand() -> None:
    """Prompt 2 and outputs 1 and 0 in batches of one: 2, then 2 held and 2, then 3.

    Ongoing last: request 0 passes stage 0, pauses while request 1 passes its own, then ends.
    """
    order = iter([[0], [1], [0]])
    served = serve(instance(9, [(0, 2, 1), (0, 2, 0)]), lambda state: next(order))
    assert held_memory(served, served.log.events()).tolist() == [2, 4, 3]
    assert served.batches.memory.tolist() == [2, 4, 3]
    assert violations(served) == {}


def test_an_evicted_request_holds_nothing() -> None:
    """Memory 3 for two requests of 1 + 1 tokens: the second is evicted before stage 1."""
    served = serve(instance(3, [(0, 1, 1), (0, 1, 1)]), build("fcfs", I0))
    assert served.batches.memory.tolist() == [2, 3, 2]
    assert served.evictions.request.tolist() == [1]
    assert served.evictions.batch.tolist() == [1]
    assert violations(served) == {}
