"""The emulated machine beside the simulator, and what it keeps whatever happens."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from bfio.decode.cluster import Cluster
from bfio.decode.drift import LLM
from bfio.decode.stints import stints
from bfio.live.fleet import FAULTS, End, Fleet, Job, apply_fault, peak
from bfio.live.wire import WireError
from bfio.testing.runs import scenarios

POLICIES = ("fcfs", "jsq", "power-of-2", "random", "br-0", "br-h")


@given(scenarios(), st.sampled_from(POLICIES))
def test_steps_equal_those_of_the_simulator(scenario: Any, policy: str) -> None:
    """Loads, requests, times, starts and ends of every step, bit for bit."""
    plain: dict[str, Any] = {
        "drift": LLM, "failures": "none", "cancellations": "none", "window_knows": "active",
        "predictor": "none", "projection": "constant",
    }  # fmt: skip
    if scenario.options["overflow"] == "swap" or scenario.options["dispatch"] == "immediate":
        # A request that stops for recomputation comes again from outside, to the pool.
        plain["overflow"] = "reserve"
    # The memory was drawn for another growth; no output is longer than 12 tokens.
    memory = scenario.cluster.memory and (scenario.cluster.worker_memory() + 12).tolist()
    cluster = replace(scenario.cluster, prefix_cache=None, memory=memory)
    run = replace(scenario, cluster=cluster).simulate(policy, **plain)
    fleet = Fleet(cluster, reserves=run.options.overflow == "reserve")
    due: dict[int, list[list[int]]] = defaultdict(list)
    if run.options.dispatch == "immediate":
        for i in np.flatnonzero(run.worker >= 0).tolist():
            due[int(run.bound_step[i])].append([i, int(run.worker[i]), 0])
    else:
        found = stints(run)
        before = found.emitted - (found.end - found.start)
        columns = (found.start, found.request, found.worker, before)
        for start, *entry in zip(*(column.tolist() for column in columns), strict=True):
            due[start].append(entry)
    ends: dict[int, int] = {}

    def submit(request: int, worker: int, before: int) -> None:
        prompt = int(run.prompt_tokens[request]) + before
        output = int(scenario.workload.output_tokens[request]) - before

        def report(tokens: int, end: End | None) -> None:
            assert tokens == 1
            if end is End.LENGTH:
                ends[request] = fleet.steps

        fleet.submit(Job(prompt, output, report), worker)

    for k in range(run.steps):
        if run.idle_before_s[k] > 0:
            fleet.now_s = float(run.start_s[k])
        for entry in sorted(due[k]):
            submit(*entry)
        step = fleet.begin()
        assert step is not None
        assert (step.start_s, step.duration_s) == (run.start_s[k], run.duration_s[k])
        assert run.loads is not None
        assert step.loads == tuple(run.loads[k].tolist())
        assert sum(step.running) == run.active[k]
        fleet.emit()
        fleet.advance()
    assert ends == {i: k for i, k in enumerate(run.finish_step.tolist()) if k >= 0}


class Schedules(RuleBasedStateMachine):
    """Requests, steps, cancellations and faults in any order, on a small fleet."""

    jobs = Bundle("jobs")

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet(Cluster(workers=3, slots=2, memory=30))
        #: Per accepted request: its worker, its tokens so far, its ends.
        self.told: dict[Job, tuple[int, list[int], list[End]]] = {}

    @rule(
        target=jobs, worker=st.integers(0, 2), prompt=st.integers(1, 35), output=st.integers(1, 8)
    )
    def submit(self, worker: int, prompt: int, output: int) -> Job:
        """Send a request; a worker that is down or too small refuses it."""
        tokens: list[int] = []
        ends: list[End] = []

        def report(new: int, end: End | None) -> None:
            assert not ends, "a report after the end"
            tokens.append(new)
            ends.extend([] if end is None else [end])

        job = Job(prompt, output, report)
        refused = not self.fleet.workers[worker].is_up or peak(job) > 30
        if refused:
            with pytest.raises(WireError):
                self.fleet.submit(job, worker)
        else:
            self.fleet.submit(job, worker)
            self.told[job] = (worker, tokens, ends)
        return job

    @rule(job=consumes(jobs))
    def cancel(self, job: Job) -> None:
        """Let a client leave, whatever has become of its request."""
        if job in self.told:
            self.fleet.cancel(job, self.told[job][0])

    @rule(name=st.sampled_from(sorted(FAULTS)), worker=st.integers(0, 2), much=st.integers(1, 3))
    def fault(self, name: str, worker: int, much: int) -> None:
        """Order a fault, between steps or within one."""
        order: dict[str, Any] = {"worker": worker, "fault": name}
        field = FAULTS[name].field
        apply_fault(self.fleet, order | ({field: much} if field else {}))

    @rule()
    def begin(self) -> None:
        """Begin a step, unless one has begun."""
        if not self.in_step:
            self.in_step = self.fleet.begin() is not None

    @rule()
    def end(self) -> None:
        """End the step that has begun."""
        if self.in_step:
            self.fleet.emit()
            self.fleet.advance()
            self.in_step = False

    in_step = False

    @invariant()
    def nothing_is_lost(self) -> None:
        """Each request is in one place or ended once; slots, memory and loads agree."""
        places = [job for w in self.fleet.workers for job in [*w.queue, *w.running]]
        assert len(places) == len(set(places))
        live = {job for job in self.told if job.end is None}
        assert set(places) == live
        for worker in self.fleet.workers:
            assert len(worker.running) <= worker.slots
            assert worker.load == sum(job.load for job in worker.running) <= 30
            assert worker.is_up or not (worker.running or worker.queue)
        for job, (_, tokens, ends) in self.told.items():
            assert sum(tokens) + job.unreported == job.emitted or ends == [End.LOST]
            assert job.emitted <= job.output
            assert (job.end is End.LENGTH) <= (job.emitted == job.output)
        assert sum(self.fleet.ends.values()) == len(self.told) - len(live)

    def teardown(self) -> None:
        """Every request ends and is told so once, with all its tokens, when all is well again."""
        self.end()
        for worker in range(3):
            apply_fault(self.fleet, {"worker": worker, "fault": "return"})
        while self.fleet.begin() is not None:
            self.fleet.emit()
            self.fleet.advance()
        assert self.fleet.is_idle
        for job, (_, tokens, ends) in self.told.items():
            assert ends == [job.end]
            if job.end in (End.LENGTH, End.RECOMPUTED):
                assert sum(tokens) == job.emitted
        counts = {end: sum(e == [end] for _, _, e in self.told.values()) for end in End}
        assert counts == self.fleet.ends


TestSchedules = Schedules.TestCase
_DEEP = settings().max_examples > 100
TestSchedules.settings = settings(
    max_examples=1000 if _DEEP else 40, stateful_step_count=60, deadline=None
)
