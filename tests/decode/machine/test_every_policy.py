"""Both engines give the same run: every policy with a kernel, every predictor, every option.

Runs are drawn from a seed, not by Hypothesis, which prefers small numbers. Differences between the
engines show when workers are full, requests wait, and memory overflows, clients cancel or workers
fail during the run.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bfio.decode.adaptive.rehearsal import loads_grow
from bfio.decode.cluster import Cluster
from bfio.decode.drift import CONSTANT, LLM, Drift, DriftReading
from bfio.decode.engine import Interpreted
from bfio.decode.features.memory import peaks
from bfio.decode.machine import whole_run
from bfio.decode.machine.counters import ACTIVE
from bfio.decode.machine.kernel import Kernel, KernelTask
from bfio.decode.machine.phases import admit_assigned, free_slots
from bfio.decode.machine.state import State
from bfio.decode.machine.window import Window, project, remaining_running, waiting_requests
from bfio.decode.observers import Watching
from bfio.decode.option_kinds import PrefillTier, Telemetry
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import find
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import free_memory
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from tests.decode.machine.equality import (
    GREEDY,
    OTHERS,
    as_plain_python,
    both_engines,
    differences,
)
from tests.decode.machine.test_greedy import is_compiled_for_queues

#: Predictors that kernels know; those that learn do so within a few requests.
PREDICTORS = (
    "none", "oracle", "noisy-oracle:0.7", "noisy-oracle:model=lognormal:error=1.5",
    "noisy-oracle:model=bias:error=1/2", "noisy-oracle:model=quantile:buckets=3",
    "noisy-oracle:model=shuffled", "survival", "exact-match",
)  # fmt: skip


@dataclass(frozen=True)
class KernelRun:
    """A run that both engines can do."""

    workload: Workload
    policy: str
    cluster: Cluster
    policy_options: dict[str, Any]
    options: dict[str, Any]

    def differences(self) -> list[str]:
        """Return the fields in which what the engines do differs."""
        compiled, reference = both_engines(
            self.workload, self.policy, self.cluster, self.policy_options, **self.options
        )
        assert compiled is not None
        return differences(compiled, reference)


class Drawing:
    """Draws a run of 5 to 40 requests on 2 to 4 workers of 1 to 3 slots.

    Each feature of a run is there with a chance of a third or so, so that it meets others and is
    met alone.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def whole(self, least: int, most: int) -> int:
        """Return a number, either end included."""
        return int(self.rng.integers(least, most + 1))

    def one_of(self, *values: Any) -> Any:
        """Return one of these."""
        return values[self.whole(0, len(values) - 1)]

    def run(self, policy: str) -> KernelRun:
        """Return a run of a policy."""
        requests, workers = self.workload(), self.whole(2, 4)
        options = self.options(requests, workers)
        if not is_compiled_for_queues(policy):
            options |= {"dispatch": "pooled", "margin": None}
        if policy == "rolling-horizon":
            options["delay"] = 0
        alike = not find(policy).interruptible
        if alike:
            options |= {"delay": 0, "prefill": None, "telemetry": None, "overflow": "reserve"}
            options |= dict.fromkeys(("failures", "cancellations", "stragglers"), "none")
        cluster = self.cluster(requests, workers, options["drift"], alike)
        if cluster.memory is not None:
            # Kernels know no late reports of memory.
            options["telemetry"] = None
        overflows = cluster.memory is not None and options["overflow"] != "reserve"
        events = {options["failures"], options["cancellations"]} != {"none"}
        if (overflows or events) and not options["drift"].is_uniform:
            options["drift"] = replace(options["drift"], reading=DriftReading.GLOBAL_STEP)
        return KernelRun(requests, policy, cluster, self.policy_options(policy), options)

    def workload(self) -> Workload:
        """Return requests of few or many sizes, some with equal prefixes."""
        n, rng = self.one_of(self.whole(5, 40), self.whole(25, 40)), self.rng
        prompts = rng.integers(1, self.one_of(4, 60, 60, 700), n)
        outputs = np.minimum(rng.geometric(self.one_of(0.05, 0.2, 0.5, 0.8), n), 40)
        times = np.cumsum(rng.choice([0, 0, 1, 5], n)).tolist()
        turns = [rng.integers(1, 3, -(-prompt // 512)) for prompt in prompts.tolist()]
        hashes = [np.cumsum(turn * 3 ** np.arange(len(turn))).tolist() for turn in turns]
        return Workload(prompts, outputs, tuple(map(Fraction, times)), block_hashes=hashes)

    def cluster(self, requests: Workload, workers: int, drift: Drift, alike: bool) -> Cluster:
        """Return a machine; memory holds the largest request and little more."""
        largest = int(peaks(requests, drift, leaves=True).max())
        machine = Cluster(
            workers,
            self.whole(1, 3),
            step_overhead_s=0.3,
            token_time_s=0.01,
            mean_time_s=self.one_of(0.0, 0.01),
            prefix_cache=self.one_of(None, 600, 1300),
        )
        if alike:
            return machine
        each = range(workers)
        return replace(
            machine,
            slots=self.one_of(machine.slots, tuple(self.whole(1, 3) for _ in each)),
            speed=self.one_of(1.0, 1.0, tuple(self.one_of(1.0, 2.0, 0.75) for _ in each)),
            memory=self.one_of(None, tuple(self.whole(largest, 2 * largest) for _ in each)),
        )

    def options(self, requests: Workload, workers: int) -> dict[str, Any]:
        """Return options that go with each other on most machines."""
        timed, dispatch = self.one_of(True, False), self.one_of("pooled", "pooled", "immediate")
        past = self.whole(0, 9)
        tier = PrefillTier(
            workers=self.whole(1, 3),
            token_time_s=1e-3,
            overhead_s=self.one_of(0.0, 0.4),
            transfer_time_s=self.one_of(0.0, 1e-4),
            ttl_s=self.one_of(float("inf"), 1.0, 20.0),
            places=self.one_of(None, self.whole(1, 4)),
        )
        late = Telemetry(self.whole(0, 3), self.one_of(0.0, 0.3))
        drifts = Drift((0, 2, 1)), Drift((0, 2, 1), DriftReading.GLOBAL_STEP), CONSTANT
        return {
            "arrivals": "timed" if timed else "pool",
            "pool": 128 if timed else self.whole(1, 12),
            "dispatch": dispatch,
            "margin": self.one_of(None, self.whole(0, 3)) if dispatch == "immediate" else None,
            "delay": self.one_of(0, 0, self.whole(1, 4)),
            "projection": self.one_of("constant", "growing", "growing"),
            "predictor": self.predictor(),
            "history": requests.head(past) if past > 5 else None,
            "window_knows": self.one_of("active", "all", "all"),
            "drift": self.one_of(LLM, LLM, LLM, self.one_of(*drifts)),
            "overflow": self.one_of("recompute", "swap", "reserve"),
            "swap_time_s": self.one_of(0.0, 0.01),
            "failures": self.one_of("none", "none", self.failures(workers)),
            "stragglers": self.one_of("none", "none", self.stragglers(workers)),
            "cancellations": self.one_of("none", self.cancellations(requests))
            if timed
            else "none",
            "prefill": self.one_of(None, None, tier) if timed else None,
            "telemetry": self.one_of(None, None, late),
            "steps": self.one_of(None, None, None, self.whole(0, 60)),
            "seed": self.whole(0, 2**32),
        }

    def predictor(self) -> str:
        """Return a predictor, mostly one that learns."""
        refresh, refit = self.whole(1, 9), self.whole(1, 7)
        gate, anchor = self.one_of("0", "1/3", "1/2", "1"), self.one_of("hold", "decrement")
        learns = f":refresh={refresh}:refit={refit}:gate={gate}:anchor={anchor}"
        survival = f"survival{learns}:window={self.whole(1, 20)}"
        matching = f"exact-match{learns}:least={self.whole(1, 4)}:buckets={self.whole(1, 4)}"
        return str(self.one_of(survival, matching, self.one_of(*PREDICTORS)))

    def failures(self, workers: int) -> tuple[tuple[float, int, str], ...]:
        """Return failures of each worker and their ends."""
        events = []
        for worker in range(workers):
            for k in range(self.whole(0, 2)):
                start = 40 * k + self.whole(0, 20)
                events.append((start / 2, worker, "fail"))
                events.append(((start + self.whole(1, 19)) / 2, worker, "recover"))
        return tuple(sorted(events))

    def stragglers(self, workers: int) -> tuple[tuple[float, int, float], ...]:
        """Return when workers become slower or faster."""
        events = range(self.whole(1, 4))
        rows = ((self.whole(0, 60), self.whole(0, workers - 1)) for _ in events)
        return tuple(sorted((time, worker, self.one_of(0.5, 1.0, 3.0)) for time, worker in rows))

    def cancellations(self, requests: Workload) -> Any:
        """Return when some clients give up."""
        times = requests.exact_arrivals().seconds().tolist()
        gone = [
            (t + self.whole(0, 60) / 4, i) for i, t in enumerate(times) if self.whole(0, 2) == 0
        ]
        return tuple(sorted(gone)) or "none"

    def policy_options(self, policy: str) -> dict[str, Any]:
        """Return what a policy reads."""
        if policy == "adaptive":
            return dict(horizon=self.one_of(1, 2, self.whole(0, 9), 40))
        if policy == "rolling-horizon":
            return dict(horizon=self.whole(0, 9), moves=self.whole(1, 9))
        if policy in ("br-0", "br-h"):
            return dict(
                horizon=self.whole(1, 12) if policy == "br-h" else None,
                threshold=self.whole(0, 4),
                candidates=self.one_of(None, self.whole(1, 8)),
                beta=self.one_of(None, Fraction(9, 2)),
                gamma=self.one_of(None, Fraction(1)) if policy == "br-h" else None,
                max_wait=self.one_of(None, self.whole(0, 6)),
            )
        return {}


def drawings() -> st.SearchStrategy[Drawing]:
    """Draw from any seed."""
    return st.integers(0, 2**64).map(Drawing)


def assert_same(policy: str, drawing: Drawing) -> None:
    """Assert that both engines can do a run, and do the same."""
    name = drawing.one_of(*GREEDY) if policy == "greedy" else policy
    assert drawing.run(name).differences() == []


@pytest.mark.parametrize("policy", [*OTHERS, "greedy"])
@given(drawing=drawings())
def test_both_engines_give_the_same_run(policy: str, drawing: Drawing) -> None:
    """Bit by bit, whatever lets requests start late or again, and whatever is learnt."""
    assert_same(policy, drawing)


@pytest.mark.deep
@pytest.mark.parametrize("policy", [*OTHERS, "greedy"])
@given(drawing=drawings())
def test_both_engines_give_the_same_run_thousands_of_times(policy: str, drawing: Drawing) -> None:
    """As above, with the whole budget of examples for each."""
    assert_same(policy, drawing)


class Sensitive:
    """A policy by which requests go elsewhere if any number that it is shown is another."""

    def __init__(self, horizon: int, is_told_of_requests: bool) -> None:
        self.horizon, self.is_told_of_requests = horizon, is_told_of_requests

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Show the state."""
        grows = np.any(state.contributions[:, 1:2] > state.contributions[:, :1])
        return scattered(
            state.free_slots,
            state.room,
            state.needs,
            state.projected_loads,
            state.projected_running,
            state.contributions,
            np.array([grows]),
            state.remaining if self.is_told_of_requests else np.zeros(0),
        )


def scattered(free: IntArray, room: IntArray, needs: IntArray, *seen: Any) -> list[int | None]:
    """Return a worker that takes it for each request in turn, which one by all that is seen."""
    rng = np.random.default_rng(crc32(b"".join(array.tobytes() for array in seen)))
    free, room = free.copy(), room.copy()
    answer: list[int | None] = []
    for need in needs.tolist():
        open_to_it = np.flatnonzero((free > 0) & (need <= room)).tolist()
        worker = open_to_it[rng.integers(len(open_to_it))] if open_to_it else None
        if worker is not None:
            free[worker] -= 1
            room[worker] -= need
        answer.append(worker)
    return answer


def scatter(state: State, window: Window, policy: Sensitive) -> bool:
    """Decide as `Sensitive` does, as kernels do."""
    free, waiting = free_slots(state), waiting_requests(state)
    if len(waiting) == 0 or free.sum() == 0:
        return True
    project(state, window)
    running = np.sort(state.lists.running[: state.counters[ACTIVE]])
    left = np.minimum(remaining_running(state, running), policy.horizon + 1)
    answer = scattered(
        free,
        free_memory(state),
        state.requests.need[waiting],
        window.base,
        window.running,
        window.contribution[: len(waiting)],
        np.array([loads_grow(state)]),
        left if policy.is_told_of_requests else np.zeros(0),
    )
    assign = [-1 if worker is None else worker for worker in answer]
    admit_assigned(state, np.array(assign, dtype=np.int64))
    return True


@example(7)  # waiting requests of which none has two steps left
@example(14)  # a request that starts again, between two turns of its predictor
@example(18)  # a request that starts later than it was let in
@given(st.integers(0, 2**64))
def test_policies_see_the_same(seed: int) -> None:
    """Kernels, as plain Python, project what the interpreted engine shows a policy."""
    drawing = Drawing(seed)
    run = drawing.run("fcfs")
    asked = run.options | {"dispatch": "pooled", "margin": None}
    history = asked.pop("history")
    policy = Sensitive(drawing.whole(1, 9), asked["telemetry"] is None)
    spec = PolicySpec(
        "sensitive",
        lambda _: policy,
        summary="",
        source="",
        kernel=Kernel(lambda _: policy, decide=scatter, reads_window=True),
    )
    options, watching = RunOptions(**asked), Watching()
    task = KernelTask(run.workload, run.cluster, options, spec.options, policy, history)
    with as_plain_python():
        compiled = whole_run.run_compiled(spec, task, watching)
    assert compiled is not None
    rest = run.cluster, options, watching, history
    reference = Interpreted(run.workload, policy, spec.name, policy.horizon, *rest).run()
    assert differences(compiled, reference) == []
