"""Simulate a network of agents; `simulate` is the public entry point."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bfio.batching.engine import RunInProgress, compiled, interpreted
from bfio.batching.options import MAX_SLOTS, BatchOptions
from bfio.batching.policy import TokenBudgetPolicy
from bfio.batching.run import BatchRun, BatchVerdict, Course
from bfio.batching.scenario import Scenario
from bfio.batching.streams import Streams
from bfio.batching.tallies import (
    ARRIVED,
    DECODING,
    DEPARTED,
    PREFILLING,
    WORK,
    BatchLog,
    Moment,
    Tallies,
)
from bfio.common.kernel_groups import Engine, takes_compiled
from bfio.common.options import spelled_out
from formulations.errors import InputError, check_kind
from formulations.scalars import truth

#: Approximate time that the compiled engine saves per slot with tens of requests [s].
_SAVED_S = 5e-4


@spelled_out(BatchOptions)
def simulate(
    scenario: Scenario,
    *,
    seed: int = 0,
    engine: Engine | str = Engine.AUTO,
    keeps_log: bool = False,
    tell: Callable[[int, int], None] | None = None,
    options: BatchOptions | None = None,
) -> BatchRun:
    """Simulate a scenario and return the run.

    Memory grows with the number of requests present at a time, not with the duration, unless a log
    is kept.

    Parameters
    ----------
    scenario : Scenario
        Scenario to simulate.
    seed : int
        Seed of all draws. Equal seeds give equal runs; a longer run starts like a shorter one.
    engine : Engine
        Engine to use.
    keeps_log : bool
        Whether all tasks and batches are logged for the checker.
    tell : callable, optional
        Called after each block with the slot and the number of departed requests.
    options : BatchOptions, optional
        Duration and measurements. Each field can be given as a keyword instead.

    Raises
    ------
    InputError
        If a value is invalid, or a policy returns an invalid batch.
    """
    check_kind(scenario, Scenario, "scenario", "Scenario(...)")
    truth(keeps_log, "keeps_log")
    asked = options or BatchOptions()
    slot = scenario.network.slot
    duration, warmup = asked.slots("horizon", slot), asked.slots("warmup", slot) or 0
    laws = [law for law in scenario.arrival_laws if law.rate]
    if duration is None and not all(law.is_over(MAX_SLOTS) for law in laws):
        raise InputError(
            "horizon", "is missing, but arrivals never end", "give the duration of the run"
        )
    streams, deadlines = Streams(scenario, seed), asked.deadlines(slot)
    servings = [scenario.serving_of(agent.name) for agent in scenario.network.agents]
    able = all(type(serving.policy) is TokenBudgetPolicy for serving in servings)
    saved_s = _SAVED_S * (MAX_SLOTS if duration is None else duration)
    is_fast = takes_compiled(engine, able=able, kernels="batching", saved_s=saved_s)
    begin = compiled if is_fast else interpreted
    machine = begin(scenario, streams, deadlines, keeps_log=keeps_log)
    record = _Record(machine, tell)
    before = record.until(warmup, 1)
    machine.forget_longest()
    ended = record.until(duration, asked.blocks)
    log = BatchLog.of(machine.log_rows()) if keeps_log else None
    return BatchRun(
        scenario=scenario,
        policy=", ".join(dict.fromkeys(serving.name for serving in servings)),
        seed=int(seed),
        verdict=BatchVerdict.DRAINED if duration is None else BatchVerdict.HORIZON,
        warmup=before.slot,
        tallies=ended.since(before) if warmup else ended,
        course=record.course(),
        log=log,
        engine=Engine.COMPILED if is_fast else Engine.REFERENCE,
    )


def logged_beginning(
    run: BatchRun, tokens: int, most: int = MAX_SLOTS, engine: Engine | str = Engine.AUTO
) -> BatchRun:
    """Simulate the beginning of a run again with a log, for its check.

    A log grows with the tokens: it covers as many slots as load about ``tokens`` tokens, and at
    most ``most`` slots of a run that loads none.
    """
    end, loaded = int(run.course.slot[-1]), int(run.course.loaded[-1].sum())
    slots = max(1, min(end, end * tokens // loaded if loaded else most))
    length = slots * (run.scenario.network.slot or 1)
    again = {"seed": run.seed, "engine": engine, "keeps_log": True}
    return simulate(run.scenario, **again, horizon=length, blocks=1)


@dataclass
class _Record:
    """Recorder of the states of a run at the ends of blocks."""

    machine: RunInProgress
    tell: Callable[[int, int], None] | None
    rows: list[Moment] = field(default_factory=list)

    def until(self, slot: int | None, blocks: int) -> Tallies:
        """Run until a slot, or until no request is left; return the counters."""
        if not self.rows:
            self.machine.advance(0)
            self.rows.append(self.machine.moment())
        begin = self.rows[-1].slot
        if slot is None:
            self._until_empty(begin, blocks)
        else:
            for k in range(1, blocks + 1):
                self._advance(begin + (slot - begin) * k // blocks, idles=True)
        return self.machine.tallies()

    def _until_empty(self, begin: int, blocks: int) -> None:
        # Merge pairs of blocks once there are twice as many as requested.
        length, kept = 1024, len(self.rows)
        while not self.machine.is_empty():
            self._advance(self.rows[-1].slot + length, idles=False)
            if len(self.rows) - kept >= 2 * blocks:
                self.rows[kept:] = self.rows[kept + 1 :: 2]
                length *= 2

    def _advance(self, slot: int, *, idles: bool) -> None:
        if slot <= self.rows[-1].slot:
            return
        self.machine.advance(slot)
        if idles:
            self.machine.idle_until(slot)
        self.rows.append(self.machine.moment())
        if self.tell is not None:
            self.tell(self.rows[-1].slot, int(self.rows[-1].run[DEPARTED]))

    def course(self) -> Course:
        """Return the states at the ends of the blocks."""
        rows = self.rows
        return Course(
            slot=np.array([row.slot for row in rows], dtype=np.int64),
            prefilling=np.array([row.stages[:, PREFILLING] for row in rows]),
            decoding=np.array([row.stages[:, DECODING] for row in rows]),
            work=np.array([row.stages[:, WORK] for row in rows]),
            arrived=np.array([row.run[ARRIVED] for row in rows]),
            departed=np.array([row.run[DEPARTED] for row in rows]),
            loaded=np.array([row.loaded for row in rows]),
        )
