"""Small policies and the strategies that the tests of the engine share."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift
from bfio.decode.option_kinds import PrefillTier
from bfio.decode.policy_registry import (
    choose,
)
from bfio.decode.state import DecodeState
from bfio.testing.runs import Scenario, failures, scenarios
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
