"""The record of a run, with the quantities that a replay computes from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bfio.common.metrics import exact_sum
from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift
from bfio.decode.features.batching.feature import chunks_of, on_workers
from bfio.decode.features.cancellations import Cancellations, cancellations_of
from bfio.decode.features.failures import failures_of
from bfio.decode.features.feature import count, profile, profile_with_rests, running_total
from bfio.decode.run import Run
from bfio.decode.stints import Stints, cancelled_while_waiting, stints, stints_of
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray


def total_work(drift: Drift, prompt: int, start: int, output: int) -> int:
    """Return ``Σ_j w(j)`` of one request, exact [tokens]."""
    if drift.increments == (1,):
        return output * prompt + output * (output - 1) // 2
    return exact_sum(profile(drift, prompt, start, output))


@dataclass(frozen=True)
class Replay:
    """The record of a run, with the quantities that a replay computes from it."""

    run: Run  #: The record to check.
    workload: Workload  #: The requests of the run.
    cluster: Cluster  #: The machine of the run.

    @cached_property
    def started(self) -> IntArray:
        """Requests that started."""
        return np.flatnonzero(self.run.start_step >= 0)

    @cached_property
    def steps_run(self) -> IntArray:
        """Number of steps that each started request has run, finished or not."""
        steps = np.zeros(self.run.num_requests, dtype=np.int64)
        stints = self.stints
        np.add.at(steps, stints.request, stints.end - stints.start - stints.rested)
        return steps[self.started]

    @cached_property
    def stints(self) -> Stints:
        """The intervals in which each request had a slot, and where."""
        return stints(self.run)

    @cached_property
    def trajectory(self) -> tuple[IntArray, IntArray]:
        """Loads and numbers of running requests, each (K, G), computed from request records."""
        return self._trajectories[0]

    @cached_property
    def held(self) -> tuple[IntArray, IntArray]:
        """Loads and numbers of requests on workers, resting or running, each of shape (K, G)."""
        return self._trajectories[1]

    @cached_property
    def _trajectories(self) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        if self.run.rests is None and len(self.run.options.drift.increments) == 1:
            held = self._equal_growth(self.run.options.drift.increments[0])
            return held, held
        shape = (self.cluster.workers, self.run.steps)
        loads, count = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for _, worker, start, end, profile_ in self.walk():
            loads[worker, start:end] += profile_
            count[worker, start:end] += 1
        if self.run.rests is None:
            return (loads.T, count.T), (loads.T, count.T)
        running, runs = loads.copy(), count.copy()
        for (_, worker, start, _, profile_), rests in zip(
            self.walk(), self.rests_of_stints, strict=True
        ):
            for first, end in rests:
                running[worker, first:end] -= profile_[first - start : end - start]
                runs[worker, first:end] -= 1
        if self.batches:
            chunks = chunks_of(self.run)
            # A chunk reads the part of its prompt computed before it.
            running += on_workers(self.run, self.cluster, chunks, chunks.before).T
        return (running.T, runs.T), (loads.T, count.T)

    def _equal_growth(self, gain: int) -> tuple[IntArray, IntArray]:
        """Return loads and numbers of running requests if each gains ``gain`` tokens per step.

        A request with load p at step s has load p - gain·s + gain·k at step k. The sum of ``p -
        gain·s`` over running requests, and their number, change only at starts and ends.
        """
        stints, shape = self.stints, (self.run.steps + 1, self.cluster.workers)
        emitted = stints.emitted - (stints.end - stints.start)
        base = self.workload.prompt_tokens[stints.request] + gain * (emitted - stints.start)
        fixed, count = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for step, sign in ((stints.start, 1), (stints.end, -1)):
            np.add.at(fixed, (step, stints.worker), sign * base)
            np.add.at(count, (step, stints.worker), sign)
        fixed, count = fixed.cumsum(axis=0)[:-1], count.cumsum(axis=0)[:-1]
        return fixed + gain * np.arange(self.run.steps)[:, None] * count, count

    @property
    def batches(self) -> bool:
        """Whether workers have token budgets."""
        return self.cluster.token_budget is not None

    @cached_property
    def tokens(self) -> IntArray:
        """Tokens that workers compute, emitted or of prompts, shape (K, G)."""
        running = self.trajectory[1]
        if not self.batches:
            return running
        chunks = chunks_of(self.run)
        return running + on_workers(self.run, self.cluster, chunks, chunks.tokens)

    @cached_property
    def rests_of_stints(self) -> list[list[tuple[int, int]]]:
        """First step and end of each rest, by stint, in order of time."""
        stints, rests = self.stints, self.run.rests
        found: list[list[tuple[int, int]]] = [[] for _ in stints.request]
        if rests is not None and found:
            which = stints_of(rests, stints.request, stints.start, self.run.steps)
            for stint, first, end in zip(which.tolist(), *rests.T[1:].tolist(), strict=True):
                found[stint].append((first, end))
        return found

    def walk(self) -> Iterator[tuple[int, int, int, int, IntArray]]:
        """Yield request, worker, first step, end and loads of each stint, in their order."""
        drift, before = self.run.options.drift, -1
        load = emitted = 0
        for (request, worker, start, end, _, rested), rests in zip(
            zip(*map(np.ndarray.tolist, self.stints), strict=True),
            self.rests_of_stints,
            strict=True,
        ):
            if request != before:
                before, load, emitted = request, int(self.workload.prompt_tokens[request]), 0
            steps = end - start
            # One step more than the stint: the load with which the next stint would begin.
            loads = profile(drift, load, start, steps + 1, emitted)
            if rested:
                loads = profile_with_rests(drift, load, start, steps + 1, emitted, rests)
            yield request, worker, start, end, loads[:steps]
            load, emitted = int(loads[-1]), emitted + steps - rested

    @cached_property
    def revealed(self) -> IntArray:
        """Requests that were revealed."""
        return np.flatnonzero(self.run.reveal_step >= 0)

    @cached_property
    def waiting_before(self) -> IntArray:
        """Requests waiting at each step after reveal and before admission, shape (K,)."""
        starts, steps = self.admissions, self.run.steps
        waits = running_total(self.run.reveal_step, steps) + running_total(self.returns, steps)
        gone = self.run.cancel_step[cancelled_while_waiting(self.run, self.stints)]
        waits -= running_total(gone, steps)
        if self.run.expiries is not None:
            _, ready, lost = self.run.expiries.T
            waits += running_total(ready, steps) - running_total(lost, steps)
        return waits - (running_total(starts, steps) - count(starts, steps))

    @cached_property
    def outages(self) -> list[tuple[int, int, bool]]:
        """First step after each failure or recovery, its worker, and whether it is a recovery."""
        run = self.run
        schedule = failures_of(run.options.failures, self.cluster.workers, run.options.seed)
        first = np.searchsorted(run.start_s, schedule.time_s)
        # After its last step a run may still note that a worker has failed, once. A drawn
        # schedule goes on long after that.
        late = np.flatnonzero((first == run.steps) & (schedule.is_up == 0))
        late = late[np.unique(schedule.worker[late], return_index=True)[1]]
        seen = np.concatenate([np.flatnonzero(first < run.steps), np.sort(late)])
        columns = (first[seen], schedule.worker[seen], schedule.is_up[seen].astype(np.bool_))
        return list(zip(*(column.tolist() for column in columns), strict=True))

    @cached_property
    def cancellations(self) -> Cancellations:
        """The cancellations of the run."""
        run = self.run
        arrival_s = np.zeros(run.num_requests) if run.arrival_s is None else run.arrival_s
        return cancellations_of(run.options.cancellations, arrival_s, run.options.seed)

    @cached_property
    def returns(self) -> IntArray:
        """Steps at which an interrupted request waits again, one entry per event."""
        return self.stints.end[self.stints.waits_again]

    @cached_property
    def admissions(self) -> IntArray:
        """Steps at which a waiting request starts, one entry per start."""
        return self.stints.start[self.stints.was_waiting]
