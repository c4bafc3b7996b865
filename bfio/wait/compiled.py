"""Built-in policies on the compiled engines; other policies run on the reference engine."""

import numpy as np

from bfio.common.engine_choice import Engine
from bfio.common.kernel_groups import ensure_compiled
from bfio.common.kernels import entry_point
from bfio.wait.chains import Chain, ChainLog, ThresholdPolicy
from bfio.wait.cohorts import Cohorts, run_cohorts
from bfio.wait.fcfs import FirstComeFirstServed, run_first_come
from bfio.wait.instance import StageClock, StageInstance
from bfio.wait.machine import (
    BATCH,
    GO_ON,
    NONE,
    NUM_COUNTERS,
    ROWS,
    Course,
    Ending,
    filled,
    new_course,
    new_presence,
    new_table,
    with_rows,
)
from bfio.wait.policy import StagePolicy
from bfio.wait.run import StageRun, finished_run, span_log, with_room
from formulations.arrays import IntArray, frozen, frozen_columns

run_cohorts_compiled = entry_point(run_cohorts)
run_first_come_compiled = entry_point(run_first_come)


def compile_kernels() -> None:
    """Compile the kernels, or load them from the cache on disk, before a run is timed."""
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    instance = StageInstance(2, StageClock(1, 1, 0), zero, one, one)
    for policy in (ThresholdPolicy((Chain((1,), (1,)),)), FirstComeFirstServed()):
        run_compiled(instance, policy, "", Ending())


def run_compiled(
    instance: StageInstance, policy: StagePolicy, name: str, ending: Ending
) -> StageRun:
    """Run a built-in policy; arguments and result as in `bfio.wait.simulation.run_reference`."""
    ensure_compiled("wait")
    if isinstance(policy, ThresholdPolicy):
        return _run_cohorts(instance, policy, name, ending)
    assert isinstance(policy, FirstComeFirstServed)
    return _run_first_come(instance, policy, name, ending)


def _course(instance: StageInstance, ending: Ending) -> Course:
    """Return the initial state of a run, for the compiled engine."""
    return new_course(instance, ending)._replace(counters=filled(NUM_COUNTERS))


def _run_first_come(
    instance: StageInstance, policy: FirstComeFirstServed, name: str, ending: Ending
) -> StageRun:
    limits = policy.limits(instance.memory)
    course, presence = _course(instance, ending), new_presence(len(instance))
    batch = filled(len(instance))
    while (ended := run_first_come_compiled(course, presence, limits, batch)) == GO_ON:
        course, presence = with_room(course, presence)
    log = span_log(course, presence)
    return finished_run(instance, name, course, ended, presence.evictions, log, Engine.COMPILED)


def _run_cohorts(
    instance: StageInstance, policy: ThresholdPolicy, name: str, ending: Ending
) -> StageRun:
    course, cohorts = _course(instance, ending), _cohorts(policy, instance)
    while (ended := run_cohorts_compiled(course, cohorts)) == GO_ON:
        rows = int(course.counters[BATCH]) + 1
        course = course._replace(batches=with_rows(course.batches, rows))
        cohorts = cohorts._replace(levels=with_rows(cohorts.levels, rows))
    served = frozen(cohorts.levels[: course.counters[BATCH]].copy())
    entries = frozen_columns(cohorts.entries[: course.counters[ROWS]])
    log = ChainLog(instance, policy, served, *entries)
    return finished_run(instance, name, course, ended, new_table(2), log, Engine.COMPILED)


def _cohorts(policy: ThresholdPolicy, instance: StageInstance) -> Cohorts:
    """Return the initial state of the chains of a policy."""
    chain, num_chains = policy.chain_of(instance), len(policy.chains)
    rows = [row for one in policy.chains for row in one.segments]
    entry, end, threshold = np.array(rows, dtype=np.int64).T.copy()
    ring = _running_total((end - entry + 1).tolist())
    lists = {name: filled(len(rows), NONE) for name in ("queue_first", "queue_last")}
    lists |= {name: filled(int(ring[-1]), NONE) for name in ("ring_first", "ring_last")}
    of_segments = ("queue_size", "queue_tokens", "members", "tokens", "advances")
    return Cohorts(
        chain=chain.copy(),
        of_chain=np.argsort(chain, kind="stable").astype(np.int64),
        following=filled(len(chain), NONE),
        first_of_chain=_running_total(np.bincount(chain, minlength=num_chains).tolist()),
        first=_running_total([len(one.ends) for one in policy.chains]),
        entry=entry,
        end=end,
        threshold=threshold,
        ring=ring,
        **lists,
        **{name: filled(len(rows)) for name in of_segments},
        **{name: filled(num_chains) for name in ("taken", "cohort", "before", "level")},
        levels=new_table(num_chains),
        entries=np.empty((_num_entries(instance, policy, chain), 3), dtype=np.int64),
    )


def _running_total(counts: list[int]) -> IntArray:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _num_entries(instance: StageInstance, policy: ThresholdPolicy, chain: IntArray) -> int:
    """Return the total number of entries into segments over all requests."""
    total = 0
    for c, one in enumerate(policy.chains):
        outputs = instance.output[chain == c]
        total += int((np.searchsorted(one.ends, outputs) + 1).sum())
    return total
