"""The counts of a run, derived again from its log."""

import numpy as np

from bfio.batching.log import BatchLog
from bfio.batching.replay_requests import departures, request_ends
from bfio.batching.run import BatchRun
from bfio.batching.tallies import (
    AREA_REQUESTS,
    AREA_TOKENS,
    ARRIVED,
    BATCHES,
    BUSY,
    COUNT,
    DECODE,
    DEPARTED,
    DONE,
    E2E,
    JOINED,
    LONGEST,
    NUM_BINS,
    PREFILL,
    SUM,
    TBT,
    TTFT,
    WORK,
    bin_of,
)
from formulations.arrays import IntArray


def recorded_tallies(run: BatchRun) -> dict[str, int]:
    """Return how many counts of a run differ from those of its log, by what they count."""
    log, end = run.log, int(run.course.slot[-1])
    assert log is not None
    tallies, derived, ends = run.tallies, _Derived(log, end), request_ends(run)
    engines, stages = derived.engines(len(tallies.engines)), derived.stages(len(tallies.stages))
    arrived, departed = len(np.unique(log.tasks[:, 1])), len(ends.times)
    counted = int(tallies.run[DEPARTED])
    wrong = int(tallies.run[ARRIVED] != arrived)
    return {
        "counted_requests": wrong + (not departed <= counted <= departed + ends.unknown),
        "routes_differ": ends.wrong,
        **_differences("engine", tallies.engines, engines),
        **_differences("stage", tallies.stages, stages),
        **derived.wrong_times(run, None if ends.unknown else ends.times),
    }


def _differences(name: str, counted: IntArray, derived: dict[int, IntArray]) -> dict[str, int]:
    wrong = {c: int(np.count_nonzero(counted[:, c] != values)) for c, values in derived.items()}
    return {f"counted_of_{name}[{column}]": amount for column, amount in wrong.items()}


class _Derived:
    """What follows from a log that ends with a slot."""

    def __init__(self, log: BatchLog, end: int) -> None:
        self.log, self.end = log, end
        self.tasks, self.batches, self.parts = log.tasks, log.batches, log.parts
        self.start = self.batches[self.parts[:, 0], 1]
        self.done = self.start + self.batches[self.parts[:, 0], 2]
        self.departures = departures(log)

    def engines(self, num: int) -> dict[int, IntArray]:
        """Return counts of engines."""
        engine, parts = self.batches[:, 0], self.parts
        of_part, is_decode = engine[parts[:, 0]], parts[:, 3] == 1
        busy = np.minimum(self.batches[:, 1] + self.batches[:, 2], self.end) - self.batches[:, 1]
        # A request is there from the slot in which it may be loaded to its departure, a token to
        # the slot in which it is loaded.
        stay = np.minimum(self.departures, self.end) - self.tasks[:, 4]
        tokens = self.tasks[:, 5] + self.tasks[:, 6]
        area = _sums(self.tasks[:, 3], tokens * (self.end - self.tasks[:, 4]), num)
        area -= _sums(of_part, parts[:, 2] * (self.end - self.start - 1), num)
        return {
            BUSY: _sums(engine, busy, num),
            BATCHES: np.bincount(engine, minlength=num),
            PREFILL: _sums(of_part, np.where(is_decode, 0, parts[:, 2]), num),
            DECODE: _sums(of_part, is_decode.astype(np.int64), num),
            AREA_REQUESTS: _sums(self.tasks[:, 3], stay, num),
            AREA_TOKENS: area,
        }

    def stages(self, num: int) -> dict[int, IntArray]:
        """Return counts of stages."""
        stage, tokens = self.tasks[:, 2], self.tasks[:, 5] + self.tasks[:, 6]
        loaded = _sums(stage[self.parts[:, 1]], self.parts[:, 2], num)
        done = self.departures <= self.end
        return {
            JOINED: np.bincount(stage, minlength=num),
            DONE: np.bincount(stage[done], minlength=num),
            WORK: _sums(stage, tokens, num) - loaded,
        }

    def wrong_times(self, run: BatchRun, ends: IntArray | None) -> dict[str, int]:
        """Compare times; those of whole requests, if it is known which of them departed."""
        times = {TTFT: self._ttft(), TBT: self._tbt()}
        if ends is not None:
            times[E2E] = ends
        wrong = {}
        for which, values in times.items():
            counted = run.tallies.times[which]
            longest = int(values.max(initial=0))
            bins = np.bincount([bin_of(v) for v in values.tolist()], minlength=NUM_BINS)
            differ = [
                counted[COUNT] != len(values),
                counted[SUM] != values.sum(),
                counted[LONGEST] != longest,
                np.any(run.tallies.histograms[which] != bins),
            ]
            wrong[f"counted_times[{which}]"] = int(sum(map(bool, differ)))
        return wrong

    def _ttft(self) -> IntArray:
        """Return the times to the ends of prefills that are wholly loaded."""
        prefill = self.parts[:, 3] == 0
        tokens = np.zeros(len(self.tasks), dtype=np.int64)
        last = np.zeros(len(self.tasks), dtype=np.int64)
        np.add.at(tokens, self.parts[prefill, 1], self.parts[prefill, 2])
        np.maximum.at(last, self.parts[prefill, 1], self.done[prefill])
        whole = tokens == self.tasks[:, 5]
        return np.asarray(last[whole] - self.tasks[whole, 4])

    def _tbt(self) -> IntArray:
        """Return the times between a decode token and the token before it."""
        order = np.lexsort((self.parts[:, 0], self.parts[:, 1]))
        task, is_decode = self.parts[order, 1], self.parts[order, 3] == 1
        gaps = np.diff(self.done[order], prepend=0)
        same = np.concatenate(([False], task[1:] == task[:-1]))[: len(task)]
        return np.asarray(gaps[is_decode & same])


def _sums(group: IntArray, values: IntArray, num: int) -> IntArray:
    total = np.zeros(num, dtype=np.int64)
    np.add.at(total, group, values)
    return total
