"""The compiled engine is the reference engine."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.machine import RunningRows
from bfio.kvcache.policy import fits
from bfio.kvcache.replay import violations
from bfio.kvcache.run import CacheLimits, CacheRun
from bfio.kvcache.simulation import fits as incremental
from bfio.kvcache.simulation import serve
from bfio.testing.instances import latency_problem
from formulations.errors import InputError
from tests.kvcache.instances import ALGORITHMS, instances


def record(run: CacheRun) -> dict[str, object]:
    """Return all that a run holds, as plain values."""
    found: dict[str, object] = {"verdict": run.verdict, "reason": run.reason}
    found |= {"overflows": run.overflows, "draws": run.draws}
    found |= {"start": run.start.tolist(), "completion": run.completion.tolist()}
    for table in (run.batches, run.stays):
        found |= {entry.name: getattr(table, entry.name).tolist() for entry in fields(table)}
    return found


@given(
    instances(),
    st.sampled_from(ALGORITHMS),
    st.integers(0, 2**32),
    st.one_of(st.none(), st.integers(0, 6)),
    st.integers(1, 30),
)
def test_both_engines_give_the_same_run(
    data: CacheInstance, algorithm: str, seed: int, error: int | None, max_clearings: int
) -> None:
    """Every batch, stay and time, with any convention, batch time, prediction, seed and limit."""
    predicted = None if error is None else np.maximum(1, data.output - error)
    limits = CacheLimits(fruitless_clearings=max_clearings, batches=400)
    reference, compiled = (
        serve(data, algorithm, predicted=predicted, seed=seed, engine=engine, limits=limits)
        for engine in ("reference", "compiled")
    )
    assert record(reference) == record(compiled)
    assert violations(reference) == {}


RUNNING = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), max_size=8)


@given(RUNNING, st.integers(1, 30), st.integers(1, 14), st.integers(1, 200), st.integers(0, 50))
def test_the_incremental_test_decides_as_equation_1(
    running: list[tuple[int, int]], need: int, length: int, memory: int, batch: int
) -> None:
    """One pass over running sums against the sums themselves, wherever the running ones fit."""
    rows = running_rows(running, batch)
    expected = fits([*running, (need, length)], memory)
    found = incremental(rows, len(running), batch, need, length, memory)
    # The pass looks only at batches in which the candidate is there.
    assert found == expected or not fits(running, memory)


def test_the_incremental_test_with_hand_numbers() -> None:
    """Running: 4 tokens for 2 batches (4, 5). A candidate of 3 for 3 batches needs 7, 9, 5."""
    rows = running_rows([(4, 2)], 7)
    assert incremental(rows, 1, 7, 3, 3, 9)
    assert not incremental(rows, 1, 7, 3, 3, 8)


def running_rows(running: list[tuple[int, int]], batch: int) -> RunningRows:
    """Return the machine's rows of running requests, of (need, batches left) each."""
    ends = sorted((batch + left, need - batch) for need, left in running)
    columns = [(i, end, end, level) for i, (end, level) in enumerate(ends)]
    return RunningRows(*np.array(columns, dtype=np.int64).reshape(len(columns), 4).T)


def test_tables_grow_beyond_their_first_size() -> None:
    """3,000 requests one after another: 3,000 stays and 6,000 batches."""
    data = latency_problem(4, [(0, 2, 2)] * 3000)
    run = serve(data, "mc-sf", engine="compiled")
    assert (len(run.stays), len(run.batches)) == (3000, 6000)
    assert run.start.tolist() == list(range(0, 6000, 2))
    assert violations(run) == {}


def test_long_runs_are_compiled_and_user_policies_are_not() -> None:
    """What may be compiled is decided by the policy, what is worth it by the size."""
    data = latency_problem(9, [(0, 2, 2)])
    with pytest.raises(
        InputError, match="'compiled' does not support this policy, only built-in ones"
    ):
        serve(data, lambda state: list(range(len(state.waiting))), engine="compiled")
    with pytest.raises(InputError, match="engine: 'fast' is unknown; use one of auto, compiled"):
        serve(data, "mc-sf", engine="fast")


def test_the_same_seed_gives_the_same_run() -> None:
    """And another seed another one."""
    data = latency_problem(16, [(0, 2, 9)] * 12)
    runs = [record(serve(data, "beta-clearing:alpha=0", seed=seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
