"""Small policies and the strategies that the tests of the engine share."""

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.drift import CONSTANT, Drift, DriftReading
from bfio.decode.features.memory import peaks
from bfio.decode.option_kinds import PrefillTier, Telemetry
from bfio.decode.options import RunOptions
from bfio.decode.policy import Policy
from bfio.decode.policy_registry import (
    all_options,
    choose,
    given_to,
)
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.workloads.workload import Workload

#: A machine whose times are exact in binary: a step lasts 1 s and half a second per token.
EXACT = Cluster(workers=2, slots=1, step_overhead_s=1.0, token_time_s=0.5)


def workload(
    prompts: list[int], outputs: list[int], arrivals: list[str] | None = None
) -> Workload:
    """Build requests from plain lists; arrival times as decimal strings."""
    times = None if arrivals is None else tuple(Fraction(a) for a in arrivals)
    return Workload(prompts, outputs, times)  # type: ignore[arg-type]


def build(policy: str, **options: object) -> Any:
    """Make a policy with some options."""
    return choose(policy, options).make()


def what_is_read(policy: Any, cluster: Cluster, options: dict[str, Any]) -> dict[str, Any]:
    """Return keywords of `simulate`, without policy options that this policy lacks."""
    of_policies = {name: value for name, value in options.items() if name in all_options()}
    run = {e.name: options[e.name] for e in fields(RunOptions) if e.name in options}
    read = given_to(policy, of_policies, RunOptions(**run), cluster)
    return {n: value for n, value in options.items() if n not in of_policies or n in read}


def first_come(state: DecodeState) -> list[int | None]:
    """Oldest request to the worker with most free slots, lowest index first."""
    free = state.free_slots.tolist()
    answer: list[int | None] = []
    for _ in range(state.num_waiting):
        worker = max(range(len(free)), key=lambda g: free[g])
        answer.append(worker if free[worker] > 0 else None)
        free[worker] -= answer[-1] is not None
    return answer


def nobody(state: DecodeState) -> list[int | None]:
    """Never admit a request."""
    return [None] * state.num_waiting


def capricious(state: DecodeState) -> list[int | None]:
    """Admit requests at random to random workers, at least one if nothing runs."""
    free = state.free_slots.tolist()
    answer: list[int | None] = [None] * state.num_waiting
    for i in range(state.num_waiting):
        worker = int(state.rng.integers(len(free)))
        must = not state.running.any() and not any(w is not None for w in answer)
        if must:
            worker = free.index(max(free))
        if free[worker] > 0 and (must or state.rng.random() < 0.5):
            answer[i] = worker
            free[worker] -= 1
    return answer


def anywhere(state: DecodeState) -> list[int | None]:
    """Bind each request to a random worker, as immediate dispatch wants."""
    return [int(w) for w in state.rng.integers(state.num_workers, size=state.num_waiting)]


class Together:
    """`first_come` for immediate dispatch: it assigns all requests of a step together."""

    binds_together = True

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign oldest first."""
        return first_come(state)


def least_projected(state: DecodeState) -> list[int | None]:
    """Newest request first to the worker with the least load summed over the window."""
    loads = state.projected_loads.sum(axis=1) + state.queued_tokens
    free = state.free_slots.tolist()
    answer: list[int | None] = [None] * state.num_waiting
    for i in reversed(range(state.num_waiting)):
        open_workers = [g for g in range(len(free)) if free[g] > 0]
        if open_workers:
            worker = min(open_workers, key=lambda g: int(loads[g]))
            answer[i] = worker
            free[worker] -= 1
            loads[worker] += state.contributions[i].sum()
    return answer


@dataclass(frozen=True)
class Scenario:
    """One drawn simulation: everything but the policy."""

    workload: Workload
    cluster: Cluster
    options: dict[str, Any]

    def erratic_policy(self) -> Policy:
        """Return the policy that does whatever this kind of dispatch allows, at random."""
        return capricious if self.options["dispatch"] == "pooled" else anywhere

    def simulate(self, policy: Any, **changes: Any) -> Run:
        """Simulate it."""
        options = what_is_read(policy, self.cluster, {**self.options, **changes})
        return simulate(self.workload, policy, self.cluster, **options)


def drifts() -> st.SearchStrategy[Drift]:
    """LLM decode, constant work, periodic patterns in both readings, and some that fall."""
    increments = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple)
    growing = st.builds(Drift, increments, st.sampled_from(DriftReading))
    return growing | st.sampled_from([Drift((1, 1, -2)), Drift((0, 5, -3)), Drift((7, -4, 0, -1))])


@st.composite
def workloads(draw: st.DrawFn, max_requests: int = 25) -> Workload:
    """Draw requests with ties, ones, and prompts up to the largest accepted."""
    sizes = st.integers(1, 20) | st.integers(1, 2100) | st.integers(1, 10**12)
    prompts = draw(st.lists(sizes, max_size=max_requests))
    n = len(prompts)
    outputs = draw(st.lists(st.integers(1, 12), min_size=n, max_size=n))
    gaps = draw(st.lists(st.sampled_from(["0", "0.1", "1", "40"]), min_size=n, max_size=n))
    times = [sum((Fraction(g) for g in gaps[: i + 1]), Fraction(0)) for i in range(n)]
    hashes = [draw(block_hashes(prompt)) for prompt in prompts]
    return Workload(prompts, outputs, tuple(times), block_hashes=hashes)  # type: ignore[arg-type]


def block_hashes(prompt: int) -> st.SearchStrategy[list[int]]:
    """Few different prefixes; long prompts have no hashes."""
    if prompt > 2100:
        return st.just([])
    blocks = -(-prompt // 512)
    turns = st.lists(st.integers(1, 2), min_size=blocks, max_size=blocks)
    # Each hash stands for all turns so far.
    return turns.map(lambda found: np.cumsum(np.array(found) * 3 ** np.arange(blocks)).tolist())


@st.composite
def clusters(draw: st.DrawFn, largest: int) -> Cluster:
    """Draw a machine, mostly of equal workers; if memory is limited each holds any request."""
    workers = draw(st.integers(1, 5))

    def one_or_each(values: st.SearchStrategy[Any]) -> Any:
        each = st.lists(values, min_size=workers, max_size=workers).map(tuple)
        return draw(values | each if draw(st.booleans()) else values)

    return Cluster(
        workers=workers,
        slots=one_or_each(st.integers(1, 4)),
        step_overhead_s=one_or_each(st.sampled_from([0.3, 1.0])),
        # Step programs of unequal workers have no meaning where a token takes no time.
        token_time_s=draw(st.sampled_from([0.0, 0.07])) if workers == 1 else 0.07,
        mean_time_s=draw(st.sampled_from([0.0, 0.01])),
        memory=one_or_each(st.integers(largest, 3 * largest)) if draw(st.booleans()) else None,
        speed=one_or_each(st.sampled_from([1.0, 2.0, 0.75])),
        prefix_cache=one_or_each(st.integers(1, 9).map(lambda k: 600 * k))
        if draw(st.booleans())
        else None,
    )


@st.composite
def failures(draw: st.DrawFn, workers: int) -> tuple[tuple[float, int, str], ...] | str:
    """Draw failures, each with its recovery, so that every run can end; mostly there are none."""
    if draw(st.booleans()):
        return "none"
    events: list[tuple[float, int, str]] = []
    for worker in range(workers):
        times = draw(st.lists(st.integers(0, 40), max_size=4, unique=True).map(sorted))
        for fails, recovers in zip(times[::2], times[1::2], strict=False):
            events += [(fails / 4, worker, "fail"), (recovers / 4, worker, "recover")]
    return tuple(sorted(events))


@st.composite
def cancellations(draw: st.DrawFn, arrivals: str, requests: Workload) -> Any:
    """Draw clients that give up some time after they arrive; mostly there are none."""
    if arrivals == "pool" or draw(st.booleans()):
        return "none"
    # At the scaled times an arrival may come a bit before or after what it is here.
    patience = draw(st.lists(st.none() | st.integers(0, 30), max_size=len(requests)))
    times = zip(patience, requests.exact_arrivals().seconds().tolist(), strict=False)
    events = [(t + p / 4, i) for i, (p, t) in enumerate(times) if p is not None]
    return tuple(sorted(events)) or "none"


def reports() -> st.SearchStrategy[Telemetry | None]:
    """Draw how late loads are known and how often reports are lost; mostly neither."""
    late = st.builds(Telemetry, st.integers(1, 4), st.sampled_from([0.0, 0.3]))
    return st.none() | st.just(Telemetry(0, 0.5)) | late


@st.composite
def tiers(draw: st.DrawFn, arrivals: str, requests: Workload) -> Any:
    """Draw a prefill tier; mostly there is none."""
    if arrivals == "pool" or draw(st.booleans()):
        return None
    # Without this limit, requests that expire at once would repeat prefill endlessly.
    lives = [0.5, 20.0] if requests.prompt_tokens.max(initial=1) < 3000 else []
    return PrefillTier(
        workers=draw(st.integers(1, 3)),
        token_time_s=draw(st.sampled_from([0.0, 1e-3])),
        overhead_s=draw(st.sampled_from([0.0, 0.4])),
        transfer_time_s=draw(st.sampled_from([0.0, 1e-4])),
        ttl_s=draw(st.sampled_from([float("inf"), *lives])),
        places=draw(st.none() | st.integers(1, 4)),
    )


@st.composite
def scenarios(
    draw: st.DrawFn,
    drained: bool = False,
    delays: bool = False,
    prefill: bool = False,
    telemetry: bool = False,
) -> Scenario:
    """Draw any workload on any small machine with any options."""
    arrivals = draw(st.sampled_from(["pool", "timed"]))
    requests, drift = draw(workloads()), draw(drifts())
    cluster = draw(clusters(int(peaks(requests, drift, leaves=True).max(initial=1))))
    overflow = draw(st.sampled_from(["recompute", "swap", "reserve"]))
    events = draw(failures(cluster.workers))
    overflows = cluster.memory is not None and overflow != "reserve"
    leave = draw(cancellations(arrivals, requests))
    if (overflows or events != "none" or leave != "none") and not drift.is_uniform:
        # Growth by age is refused where requests may be interrupted.
        drift = CONSTANT if drift.may_fall else replace(drift, reading=DriftReading.GLOBAL_STEP)
    dispatch = draw(st.sampled_from(["pooled", "immediate"]))
    options = {
        "arrivals": arrivals,
        "pool": draw(st.integers(1, 30)) if arrivals == "pool" else 128,
        "rate_scale": draw(st.sampled_from([1, Fraction(7, 3)])) if arrivals == "timed" else 1,
        "dispatch": dispatch,
        "margin": draw(st.none() | st.integers(0, 3)) if dispatch == "immediate" else None,
        "delay": draw(st.integers(0, 4)) if delays else 0,
        "horizon": draw(st.integers(0, 7)),
        "projection": draw(st.sampled_from(["constant", "growing"])),
        "predictor": draw(st.sampled_from(["none", "oracle"])),
        "window_knows": draw(st.sampled_from(["active", "all"])),
        "drift": drift,
        "overflow": overflow,
        "swap_time_s": draw(st.sampled_from([0.0, 0.01])),
        "failures": events,
        "steps": None if drained else draw(st.none() | st.integers(0, 20)),
        "cancellations": leave,
        "prefill": draw(tiers(arrivals, requests)) if prefill else None,
        "telemetry": draw(reports()) if telemetry else None,
        "seed": draw(st.integers(0, 2**63 - 1)),
    }
    return Scenario(requests, cluster, options)


@st.composite
def crowded_tiers(draw: st.DrawFn, pooled: bool = False) -> Scenario:
    """Draw few requests behind a small prefill tier, all of whose times meet.

    Times are quarters of a second and exact: prefills, transfers, ends of steps and of caches,
    failures, and clients that give up, often at once.
    """
    n = draw(st.integers(1, 6))

    def numbers(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n))

    gaps = numbers(st.sampled_from([0, 0, 1, 2, 5]))
    times = np.cumsum(gaps).tolist()
    lengths, arrivals = st.integers(1, 4), tuple(Fraction(t, 4) for t in times)
    requests = Workload(numbers(lengths), numbers(lengths), arrivals)  # type: ignore[arg-type]
    workers = draw(st.integers(1, 2))
    cluster = Cluster(
        workers=workers,
        slots=draw(st.integers(1, 2)),
        step_overhead_s=draw(st.sampled_from([0.25, 1.0])),
        token_time_s=draw(st.sampled_from([0.25, 0.5])),
        memory=draw(st.sampled_from([None, 7, 9])),
    )
    computes = draw(st.sampled_from([0.0, 0.25]))
    tier = PrefillTier(
        workers=draw(st.integers(1, 3)),
        token_time_s=computes,
        overhead_s=draw(st.sampled_from([0.0, 0.25, 0.5] if computes else [0.25, 0.5])),
        transfer_time_s=draw(st.sampled_from([0.0, 0.0, 0.25])),
        ttl_s=draw(st.sampled_from([float("inf"), 0.25, 0.5, 1.0, 3.0])),
        places=draw(st.none() | st.integers(1, 2)),
    )
    patience = numbers(st.none() | st.integers(0, 20))
    leaving = enumerate(zip(times, patience, strict=True))
    gone = sorted((t / 4 + p / 4, i) for i, (t, p) in leaving if p is not None)
    dispatch = "pooled" if pooled else draw(st.sampled_from(["pooled", "immediate"]))
    options = {
        "arrivals": "timed",
        "pool": 128,
        "rate_scale": 1,
        "dispatch": dispatch,
        "margin": draw(st.none() | st.integers(0, 2)) if dispatch == "immediate" else None,
        "delay": 0 if pooled else draw(st.sampled_from([0, 0, 1, 2])),
        "horizon": 0,
        "projection": "constant",
        "predictor": "none",
        "window_knows": "active",
        "drift": Drift((1,)),
        "overflow": draw(st.sampled_from(["recompute", "swap", "reserve"])),
        "swap_time_s": draw(st.sampled_from([0.0, 0.25])),
        "failures": draw(failures(workers)),
        "steps": draw(st.none() | st.integers(0, 12)),
        "cancellations": tuple(gone) or "none",
        "prefill": tier,
        "telemetry": None,
        "seed": draw(st.integers(0, 2**32)),
    }
    return Scenario(requests, cluster, options)


@st.composite
def compiled_scenarios(draw: st.DrawFn) -> Scenario:
    """Draw any scenario that kernels support: no late reports with limited memory."""
    scenario = draw(scenarios(delays=True, prefill=True, telemetry=True))
    if scenario.cluster.memory is None:
        return scenario
    return replace(scenario, options=scenario.options | {"telemetry": None})


#: Rules of batches, with options that let decode tokens or prompts wait.
BATCHING = (
    "sarathi", "orca", "vllm", "vllm:limit=1", "faster-transformer", "faster-transformer:group=2",
    "sjf", "vllm-chunked", "vllm-chunked:limit=2", "sarathi:kp=1:kd=1",
    "orca:prefill=longest:limit=2",
)  # fmt: skip


@st.composite
def batched_scenarios(draw: st.DrawFn, drained: bool = False) -> Scenario:
    """Draw scenarios for token budgets: no interruptions, and small prompts."""
    scenario = draw(scenarios(drained=drained, delays=True))
    drawn, cluster = scenario.workload, scenario.cluster
    prompts = 1 + (drawn.prompt_tokens - 1) % 40
    small = Workload(prompts, drawn.output_tokens, drawn.arrival_times)
    budgets = st.integers(1, 30)
    each = st.lists(budgets, min_size=cluster.workers, max_size=cluster.workers).map(tuple)
    changes = {
        "overflow": "reserve" if cluster.memory is not None else scenario.options["overflow"],
        "failures": "none",
        "cancellations": "none",
        "batching": draw(st.sampled_from(BATCHING)),
    }
    per_token = draw(st.sampled_from([0.0, 0.03]))
    machine = replace(
        cluster,
        prefix_cache=None,
        token_budget=draw(budgets | each),
        batch_token_time_s=per_token,
        free_tokens=draw(st.sampled_from([0, 4])) if per_token else 0,
    )
    return Scenario(small, machine, scenario.options | changes)
