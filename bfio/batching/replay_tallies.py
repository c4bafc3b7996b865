"""The counts of a run, derived again from its log."""

import numpy as np

from bfio.batching.log import BatchLog
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
    tallies, derived = run.tallies, _Derived(log, end)
    engines, stages = derived.engines(len(tallies.engines)), derived.stages(len(tallies.stages))
    requests = {ARRIVED: len(np.unique(log.tasks[:, 1])), DEPARTED: derived.departed(run)}
    return {
        "counted_requests": sum(int(tallies.run[k] != value) for k, value in requests.items()),
        **_differences("engine", tallies.engines, engines),
        **_differences("stage", tallies.stages, stages),
        **derived.wrong_times(run),
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

    def engines(self, num: int) -> dict[int, IntArray]:
        """Return counts of engines."""
        engine, parts = self.batches[:, 0], self.parts
        of_part, is_decode = engine[parts[:, 0]], parts[:, 3] == 1
        busy = np.minimum(self.batches[:, 1] + self.batches[:, 2], self.end) - self.batches[:, 1]
        # A request is there from the slot in which it may be loaded to its departure, a token to
        # the slot in which it is loaded.
        stay = np.minimum(self._departures(), self.end) - self.tasks[:, 4]
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
        done = self._departures() <= self.end
        return {
            JOINED: np.bincount(stage, minlength=num),
            DONE: np.bincount(stage[done], minlength=num),
            WORK: _sums(stage, tokens, num) - loaded,
        }

    def departed(self, run: BatchRun) -> int:
        """Return how many requests departed."""
        done = self._departures() <= self.end
        network = run.scenario.network
        left: dict[int, int] = {}
        if not network.fork_join and not network.routes:
            return int(np.count_nonzero(done))
        for task, is_done in zip(self.tasks.tolist(), done.tolist(), strict=True):
            request, stage = task[1], task[2]
            if network.forks(stage):
                kind = network.stages[stage].request_type
                size = sum(other.request_type == kind for other in network.stages)
                left[request] = left.get(request, size) - is_done
        # Of a routed request only the draws tell where it departs: those are compared by the sums.
        routed = [not network.forks(k) for k in self.tasks[:, 2].tolist()]
        if any(routed):
            return int(run.tallies.run[DEPARTED])
        return sum(value == 0 for value in left.values())

    def wrong_times(self, run: BatchRun) -> dict[str, int]:
        """Compare times, of which only those of requests that are one task follow from a log."""
        times = {TTFT: self._ttft(), TBT: self._tbt()}
        if not run.scenario.network.routes:
            departures = self._departures()
            done = departures <= self.end
            times[E2E] = departures[done] - self.tasks[done, 4]
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

    def _departures(self) -> IntArray:
        """Return when each task departs; a large number if it has not been loaded wholly."""
        tokens = np.zeros(len(self.tasks), dtype=np.int64)
        last = np.zeros(len(self.tasks), dtype=np.int64)
        np.add.at(tokens, self.parts[:, 1], self.parts[:, 2])
        np.maximum.at(last, self.parts[:, 1], self.done)
        whole = tokens == self.tasks[:, 5] + self.tasks[:, 6]
        return np.where(whole, last, np.iinfo(np.int64).max)

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
