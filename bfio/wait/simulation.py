"""Simulate a policy on an instance of one engine; `serve` is the public entry point.

The reference engine executes the decisions of any policy. Times are integers. At each decision all
arrivals up to then are known. The requests of a batch pass one stage each; the engine is busy for
``d0 + d1·X``, where X is the number of their tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bfio.common.kernel_groups import Engine, ensure_compiled, takes_compiled
from bfio.common.kernels import entry_point
from bfio.common.options import FLAG, POSITIVE, CheckedOptions, option, spelled_out, whole
from bfio.common.plugins import call_check, checked_choice, policy_statistics
from bfio.wait.chains import Chain, ChainLog, ThresholdPolicy
from bfio.wait.cohorts import Cohorts, run_cohorts
from bfio.wait.fcfs import FirstComeFirstServed, run_first_come
from bfio.wait.machine import (
    BATCH,
    CLOCK,
    COMPLETED,
    GO_ON,
    HOLDING,
    NONE,
    NUM_COUNTERS,
    REVEALED,
    ROWS,
    STUCK,
    Course,
    Ending,
    evict,
    filled,
    has_room,
    how_it_ends,
    new_course,
    new_presence,
    new_table,
    reveal,
    run_batch,
    wait_for_arrival,
    with_rows,
)
from bfio.wait.policy import (
    MAX_CLOCK,
    Decision,
    KnownRequests,
    StageClock,
    StageInstance,
    StagePolicy,
    StageState,
)
from bfio.wait.run import EventLog, StageRun, finished_run, span_log, with_room
from formulations.arrays import IntArray, frozen, frozen_columns
from formulations.errors import InputError, check_kind
from formulations.named_objects import users_code

if TYPE_CHECKING:
    from fractions import Fraction

#: Maximum value of the option.
_MAX_BATCHES = 2**62


@dataclass(frozen=True)
class ServeOptions(CheckedOptions):
    """Options that end a run.

    Parameters
    ----------
    horizon_s : Fraction or int, optional
        End of the observation [s]: later completions do not count. By default the run ends when no
        work is left.
    drain : bool, optional
        Whether the run continues after the observation until all requests are served; after the
        last arrival thresholds are ignored. By default true if ``horizon_s`` is not given.
    batches : int
        Maximum number of batches; then the run stops with the verdict ``stopped``.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    horizon_s: Fraction | int | None = option(
        None,
        POSITIVE,
        "T",
        "end of the observation [s]; required without a trace; with a trace by default until "
        "all requests are served",
    )
    drain: bool | None = option(
        None,
        FLAG,
        "",
        "whether to continue after horizon_s until all requests are served, ignoring thresholds "
        "after the last arrival (default if no horizon_s is given)",
    )
    batches: int = option(
        10**8,
        whole(0, _MAX_BATCHES),
        "K",
        "stop a run after this number of batches (studies: 10,000,000)",
    )

    @property
    def end_s(self) -> Fraction | int | None:
        """Time at which the run ends with work left [s]; None if it continues."""
        return None if self.drain else self.horizon_s

    @property
    def drains(self) -> bool:
        """Whether policies serve all remaining requests after the last arrival."""
        return self.horizon_s is None if self.drain is None else bool(self.drain)


#: Final state, ending code, evictions and log of a run.
_End: TypeAlias = tuple[Course, int, IntArray, EventLog]


class _Interpreted:
    """An interpreted run of any policy."""

    def __init__(
        self, instance: StageInstance, policy: StagePolicy, name: str, ending: Ending
    ) -> None:
        self.instance, self.policy, self.name = instance, policy, name
        self.course, self.presence = new_course(instance, ending), new_presence(len(instance))

    def run(self, tell: Callable[[int], None]) -> _End:
        """Run to the end, reporting completions to ``tell``.

        Raises
        ------
        InputError
            If the policy returns an invalid answer.
        """
        ended = self._to_its_end(tell)
        log = span_log(self.course, self.presence)
        return self.course, ended, self.presence.evictions, log

    def _to_its_end(self, tell: Callable[[int], None]) -> int:
        while True:
            reveal(self.course)
            ended = how_it_ends(self.course)
            if ended != GO_ON:
                return ended
            tell(self.course.counters[COMPLETED])
            decision = self.decide()
            if not has_room(self.course, self.presence):
                self.course, self.presence = with_room(self.course, self.presence)
            for i in decision.evict:
                evict(self.course, self.presence, i)
            if decision.batch:
                run_batch(self.course, self.presence, decision.batch, len(decision.batch))
            # Evicted requests wait, so the policy is called again. This ends, because each call
            # holds fewer.
            elif not decision.evict and not wait_for_arrival(self.course):
                return STUCK

    def decide(self) -> Decision:
        """Call the policy and check its answer."""
        counters, line = self.course.counters, self.presence.line
        revealed, first = counters[REVEALED], counters[COMPLETED]
        after = first + counters[HOLDING]
        held, waiting = line[first:after].tolist(), line[after:revealed].tolist()
        # Taken before the call, because the policy may modify the lists.
        may_go, may_run = set(held), {*held, *waiting}
        state = StageState(
            instance=KnownRequests.of(self.instance, revealed, self.policy),
            clock=counters[CLOCK],
            waiting=waiting,
            held=held,
            stage=frozen(self.presence.stage[:revealed]),
            is_draining=self.course.ending.drain and revealed == len(self.instance),
        )
        where = f"policy {self.name}, batch {counters[BATCH]}"
        with users_code(where, remedy="correct the policy"):
            answer = self.policy(state)
        given = answer if isinstance(answer, Decision) else Decision(answer)
        evicted = checked_choice(given.evict, may_go, where, "request")
        return Decision(checked_choice(given.batch, may_run, where, "request"), evicted)


#: Minimum time that a compiled engine saves per stage event [s].
_SAVED_S = 2e-6


@spelled_out(ServeOptions)
def serve(
    instance: StageInstance,
    policy: StagePolicy,
    *,
    name: str = "",
    engine: Engine | str = Engine.AUTO,
    tell: Callable[[int], None] | None = None,
    options: ServeOptions | None = None,
) -> StageRun:
    """Serve requests on one engine and return the run.

    Parameters
    ----------
    instance : StageInstance
        Instance to serve.
    policy : StagePolicy
        Policy from `bfio.wait.registry.build`, or any callable with a `StageState`.
    name : str
        Name in results; by default the name of the policy's function or class.
    engine : Engine
        Engine to use.
    tell : callable, optional
        Called before each decision with the number of completed requests; not by compiled engines.
    options : ServeOptions, optional
        End of the run. Each field can be given as a keyword instead.

    Raises
    ------
    InputError
        If a value is invalid, or the policy rejects the instance or returns an invalid answer.
    """
    check_kind(instance, StageInstance, "instance", "StageInstance(...)")
    name = name or getattr(policy, "__name__", type(policy).__name__)
    call_check(policy, name, instance)
    asked = options or ServeOptions()
    duration = NONE if asked.end_s is None else _clock(instance, asked.end_s)
    ending = Ending(duration, asked.drains, asked.batches)
    # Subclasses are excluded, because they may decide differently.
    able = type(policy) in (ThresholdPolicy, FirstComeFirstServed)
    saved_s = int(instance.iterations.sum()) * _SAVED_S
    compiled = takes_compiled(engine, able=able, kernels="wait", saved_s=saved_s)
    if compiled:
        ensure_compiled("wait")
        course = new_course(instance, ending)._replace(counters=filled(NUM_COUNTERS))
        if isinstance(policy, ThresholdPolicy):
            end = _run_cohorts(instance, policy, course)
        else:
            assert isinstance(policy, FirstComeFirstServed)
            end = _run_first_come(instance, policy, course)
    else:
        end = _Interpreted(instance, policy, name, ending).run(tell or (lambda completed: None))
    used = Engine.COMPILED if compiled else Engine.REFERENCE
    return finished_run(instance, name, *end, used, policy_statistics(policy, name))


def _clock(instance: StageInstance, seconds: Fraction | int) -> int:
    units = instance.clock.units(seconds)
    if not 0 < units <= MAX_CLOCK:
        raise InputError(
            "horizon", f"{float(seconds):.6g} s is out of range", "use a time > 0 within the clock"
        )
    return units


run_cohorts_compiled = entry_point(run_cohorts, by_reference=True)
run_first_come_compiled = entry_point(run_first_come, by_reference=True)


def compile_kernels() -> None:
    """Compile the kernels, or load them from the cache on disk, before a run is timed."""
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    instance = StageInstance(2, StageClock(1, 1, 0), zero, one, one)
    for policy in (ThresholdPolicy((Chain((1,), (1,)),)), FirstComeFirstServed()):
        serve(instance, policy, engine=Engine.COMPILED)


def _run_first_come(instance: StageInstance, policy: FirstComeFirstServed, course: Course) -> _End:
    limits, presence = policy.limits(instance.memory), new_presence(len(instance))
    batch = filled(len(instance))
    while (ended := run_first_come_compiled(course, presence, limits, batch)) == GO_ON:
        course, presence = with_room(course, presence)
    return course, ended, presence.evictions, span_log(course, presence)


def _run_cohorts(instance: StageInstance, policy: ThresholdPolicy, course: Course) -> _End:
    cohorts = _cohorts(policy, instance)
    while (ended := run_cohorts_compiled(course, cohorts)) == GO_ON:
        rows = int(course.counters[BATCH]) + 1
        course = course._replace(batches=with_rows(course.batches, rows))
        cohorts = cohorts._replace(levels=with_rows(cohorts.levels, rows))
    served = frozen(cohorts.levels[: course.counters[BATCH]].copy())
    entries = frozen_columns(cohorts.entries[: course.counters[ROWS]])
    return course, ended, new_table(2), ChainLog(instance, policy, served, *entries)


def _cohorts(policy: ThresholdPolicy, instance: StageInstance) -> Cohorts:
    """Return the initial state of a policy's chains."""
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
    return sum(
        int((np.searchsorted(one.ends, instance.output[chain == c]) + 1).sum())
        for c, one in enumerate(policy.chains)
    )
