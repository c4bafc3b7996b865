"""Simulate a network of agents: `simulate` is the entry point for users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from bfio.batching.engine import RunInProgress, compiled, interpreted
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
from bfio.common.engine_choice import Engine, takes_compiled
from bfio.common.options import RATIONAL, WHOLE, option, spelled_out
from formulations.errors import InputError
from formulations.problem_data import Validated
from formulations.rationals import exact_number
from formulations.scalars import integer

#: Maximum duration [slots]; sums over slots stay within 64 bits.
MAX_SLOTS = 10**15
#: Deadline that every time meets [slots].
_NO_DEADLINE = 2**62


@dataclass(frozen=True)
class BatchOptions(Validated):
    """Duration and measurements of a run; times in seconds if a slot has a length, else in slots.

    Parameters
    ----------
    horizon : Fraction, optional
        End of the run. Without it, a run of a trace ends when all its requests have departed.
    warmup : Fraction
        Start of the measured part.
    blocks : int
        Number of states kept of the course of the run.
    ttft_deadline, tbt_deadline, e2e_deadline : Fraction, optional
        Deadlines of the measured times.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    horizon: Fraction | None = option(
        None, RATIONAL, "T", "end of the run [s, or slots]; needed unless a trace ends"
    )
    warmup: Fraction = option(
        Fraction(0), RATIONAL, "T", "from when on it is measured (default: from the beginning)"
    )
    blocks: int = option(1000, WHOLE, "N", "states kept of the course of the run (default 1000)")
    ttft_deadline: Fraction | None = option(
        None, RATIONAL, "T", "deadline of the time to the end of the prefill"
    )
    tbt_deadline: Fraction | None = option(
        None, RATIONAL, "T", "deadline of the time between two tokens"
    )
    e2e_deadline: Fraction | None = option(
        None, RATIONAL, "T", "deadline of the time from arrival to departure"
    )

    def __post_init__(self) -> None:
        """Validate."""
        integer(self.blocks, "blocks", minimum=1, maximum=10**6)
        self._set(warmup=exact_number(self.warmup, "warmup"))
        for name in ("horizon", "ttft_deadline", "tbt_deadline", "e2e_deadline"):
            if (given := getattr(self, name)) is not None:
                self._set(**{name: exact_number(given, name, positive=True)})
        if self.horizon is not None and self.warmup >= self.horizon:
            raise InputError("warmup", "nothing is left to measure", "make it less than horizon")

    def slots(self, name: str, slot: Fraction | None) -> int | None:
        """Return a time in whole slots, rounded down; None if the option is not given.

        Raises
        ------
        InputError
            If the time is shorter than a slot, or too long.
        """
        given = getattr(self, name)
        if given is None:
            return None
        slots = int(given / (slot or 1))
        if slots > MAX_SLOTS or (slots == 0 and given):
            raise InputError(name, f"{float(given):.6g} is {slots} slots", "use another time")
        return slots

    def deadlines(self, slot: Fraction | None) -> tuple[int, int, int]:
        """Return the deadlines of TTFT, TBT and E2E [slots]."""
        given = (self.slots(f"{name}_deadline", slot) for name in ("ttft", "tbt", "e2e"))
        ttft, tbt, e2e = (_NO_DEADLINE if slots is None else slots for slots in given)
        return ttft, tbt, e2e


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
    asked = options or BatchOptions()
    slot = scenario.network.slot
    duration, warmup = asked.slots("horizon", slot), asked.slots("warmup", slot) or 0
    if duration is None and not _ends(scenario):
        raise InputError("horizon", "arrivals never end", "give the duration of the run")
    streams, deadlines = Streams(scenario, seed), asked.deadlines(slot)
    machine, used = _machine(scenario, streams, deadlines, engine, duration, keeps_log=keeps_log)
    record = _Record(machine, tell)
    before = record.until(warmup, 1)
    machine.forget_longest()
    ended = record.until(duration, asked.blocks)
    log = BatchLog.of(machine.log_rows()) if keeps_log else None
    return BatchRun(
        scenario=scenario,
        policy=policy_names(scenario),
        seed=seed,
        verdict=BatchVerdict.DRAINED if duration is None else BatchVerdict.HORIZON,
        warmup=before.slot,
        tallies=ended.since(before) if warmup else ended,
        course=record.course(),
        log=log,
        engine=used,
    )


def policy_names(scenario: Scenario) -> str:
    """Return the names of the policies of the agents, without repetitions."""
    agents = scenario.network.agents
    return ", ".join(dict.fromkeys(scenario.serving_of(agent.name).name for agent in agents))


def _ends(scenario: Scenario) -> bool:
    laws = (law for law in scenario.arrival_laws if law.rate)
    return all(law.is_over(MAX_SLOTS) for law in laws)


def _machine(
    scenario: Scenario,
    streams: Streams,
    deadlines: tuple[int, int, int],
    engine: Engine | str,
    duration: int | None,
    *,
    keeps_log: bool,
) -> tuple[RunInProgress, Engine]:
    names = (agent.name for agent in scenario.network.agents)
    able = all(type(scenario.serving_of(name).policy) is TokenBudgetPolicy for name in names)
    saved_s = _SAVED_S * (MAX_SLOTS if duration is None else duration)
    if not takes_compiled(engine, able=able, kernels="batching", saved_s=saved_s):
        run = interpreted(scenario, streams, deadlines, keeps_log=keeps_log)
        return run, Engine.REFERENCE
    return compiled(scenario, streams, deadlines, keeps_log=keeps_log), Engine.COMPILED


@dataclass
class _Record:
    """States of a run at the ends of its blocks."""

    machine: RunInProgress
    tell: Callable[[int, int], None] | None
    rows: list[Moment] = field(default_factory=list)

    def until(self, slot: int | None, blocks: int) -> Tallies:
        """Run until a slot, or until the run is empty, and return the counters."""
        if not self.rows:
            self.machine.advance(0)
            self._keep()
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
        self._keep()
        if self.tell is not None:
            self.tell(self.rows[-1].slot, int(self.rows[-1].run[DEPARTED]))

    def _keep(self) -> None:
        self.rows.append(self.machine.moment())

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
