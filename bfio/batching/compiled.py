"""Built-in policies on the compiled machine, behind the interface of the readable engine."""

import numpy as np

from bfio.batching.machine import state as s
from bfio.batching.machine.loop import run_slots
from bfio.batching.new_machine import new_machine
from bfio.batching.scenario import Scenario
from bfio.batching.streams import Streams
from bfio.batching.tallies import (
    AREA_REQUESTS,
    AREA_TOKENS,
    BUSY,
    DEADLINE,
    DECODE,
    DECODING,
    DONE,
    JOINED,
    LONGEST,
    PREFILL,
    PREFILLING,
    REQUESTS,
    TOKENS,
    Moment,
    Tallies,
)
from bfio.common.kernel_groups import ensure_compiled
from bfio.common.kernels import entry_point
from formulations.arrays import IntArray
from formulations.batching import single_engine


def compile_kernels() -> None:
    """Compile the kernel, or load it from the cache on disk, before any clock runs."""
    # Somebody may come: the kernel is not called where nobody does.
    scenario = Scenario(single_engine(1, 1, 1, budget=1))
    CompiledMachine(scenario, Streams(scenario, 0), (0, 0, 0)).advance(1)


run_slots_compiled = entry_point(run_slots)


class CompiledMachine:
    """A run in machine code; parameters and methods as of `ReferenceMachine`."""

    def __init__(
        self,
        scenario: Scenario,
        streams: Streams,
        deadlines: tuple[int, int, int],
        *,
        keeps_log: bool = False,
    ) -> None:
        ensure_compiled("batching")
        self.scenario, self.streams = scenario, streams
        self.state = new_machine(scenario, streams, keeps_log=keeps_log)
        self.state.times[:, DEADLINE] = deadlines
        self.known = 0

    def advance(self, until: int) -> None:
        """See `ReferenceMachine.advance`."""
        counters = self.state.counters
        while not self.is_empty():
            self._load_window()
            # All that arrives before the end of a window is known; not what comes after it.
            goal = until if self._is_complete() else min(until, self.known)
            need = run_slots_compiled(self.state, goal)
            if need != s.REACHED:
                self._give(need)
            elif counters[s.NOW] < goal and not self.is_empty():
                # Nobody is there, and nobody comes before the next window.
                self.idle_until(goal)
            if need == s.REACHED and counters[s.NOW] >= until:
                return

    def is_empty(self) -> bool:
        """See `ReferenceMachine.is_empty`."""
        state = self.state
        if state.counters[s.ARRIVAL] < len(state.arrivals) or state.counters[s.RETURNING]:
            return False
        # A request counts until it has departed from its engine.
        return self.streams.is_over() and not state.of_engines[:, REQUESTS].any()

    def idle_until(self, slot: int) -> None:
        """See `ReferenceMachine.idle_until`."""
        self.state.counters[s.NOW] = max(int(self.state.counters[s.NOW]), slot)

    def tallies(self) -> Tallies:
        """See `ReferenceMachine.tallies`."""
        state, now = self.state, int(self.state.counters[s.NOW])
        engines = state.of_engines.copy()
        engines[:, BUSY] -= np.maximum(state.engines[:, s.FREE_AT] - now, 0)
        engines[:, AREA_REQUESTS] += engines[:, REQUESTS] * now
        engines[:, AREA_TOKENS] += engines[:, TOKENS] * now
        tables = (state.run, state.times, state.histograms)
        run, times, histograms = (table.copy() for table in tables)
        return Tallies(now, run, engines, self._stages(), times, histograms)

    def moment(self) -> Moment:
        """See `ReferenceMachine.moment`."""
        state = self.state
        loaded = state.of_engines[:, PREFILL] + state.of_engines[:, DECODE]
        return Moment(int(state.counters[s.NOW]), state.run.copy(), self._stages(), loaded)

    def _stages(self) -> IntArray:
        """Return the counts of stages; the loop itself keeps fewer, see `state.BEGUN`."""
        stages = self.state.of_stages.copy()
        begun = stages[:, s.BEGUN].copy()
        stages[:, PREFILLING] = stages[:, JOINED] - begun
        stages[:, DECODING] = begun - stages[:, DONE]
        return stages

    def forget_longest(self) -> None:
        """See `ReferenceMachine.forget_longest`."""
        self.state.times[:, LONGEST] = 0

    def log_rows(self) -> IntArray:
        """See `ReferenceMachine.log_rows`."""
        return self.state.log[: self.state.counters[s.LOG_ROWS]].copy()

    def _is_complete(self) -> bool:
        return self.streams.is_over()

    def _load_window(self) -> None:
        """Take the next arrivals, once all of the present window have come."""
        counters = self.state.counters
        while (
            counters[s.ARRIVAL] >= len(self.state.arrivals)
            and counters[s.NOW] >= self.known
            and not self.streams.is_over()
        ):
            window = self.streams.window()
            self.known = window.end
            self.state = self.state._replace(arrivals=window.arrivals)
            counters[s.ARRIVAL] = 0

    def _give(self, need: int) -> None:
        """Give a table the rows that it needs."""
        state = self.state
        if need == s.NEEDS_DRAWS:
            stage = int(state.counters[s.MISSING])
            block = self.streams.block(stage)
            # At the end of the table, so that all rows are used when its end is reached.
            first = state.draws.shape[1] - len(block)
            state.draws[stage, first:] = block
            state.nodes[stage, s.N_DRAWN] = first
        elif need == s.NEEDS_TASKS:
            tasks = _linked(state.tasks, int(state.counters[s.FREE_TASK]), s.NEXT)
            state.counters[s.FREE_TASK] = len(state.tasks)
            self.state = state._replace(tasks=tasks)
        elif need == s.NEEDS_REQUESTS:
            requests = _linked(state.requests, int(state.counters[s.FREE_REQUEST]), 0)
            state.counters[s.FREE_REQUEST] = len(state.requests)
            self.state = state._replace(requests=requests)
        elif need == s.NEEDS_RETURNS:
            self.state = state._replace(returning=_doubled(state.returning))
        else:
            assert need == s.NEEDS_LOG
            self.state = state._replace(log=_doubled(state.log))


def _doubled(table: IntArray) -> IntArray:
    larger = np.zeros((2 * len(table), table.shape[1]), dtype=np.int64)
    larger[: len(table)] = table
    return larger


def _linked(table: IntArray, free: int, column: int) -> IntArray:
    """Return a table of twice the rows, the new ones linked, before those that are free."""
    larger = _doubled(table)
    larger[len(table) :, column] = np.arange(len(table) + 1, len(larger) + 1)
    larger[-1, column] = free
    return larger
