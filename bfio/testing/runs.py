"""Hypothesis strategies that draw workloads, machines, arrivals and runs of the decode engine."""

from __future__ import annotations

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
from bfio.decode.policy_registry import all_options, given_to
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.workloads import (
    ArrivalProcess,
    Diurnal,
    GammaRenewal,
    MarkovModulated,
    OnOff,
    Poisson,
    Surges,
)
from bfio.workloads.workload import Workload


def what_is_read(policy: Any, cluster: Cluster, options: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of `simulate`, without options that this policy does not read."""
    of_policies = {name: value for name, value in options.items() if name in all_options()}
    run = {e.name: options[e.name] for e in fields(RunOptions) if e.name in options}
    read = given_to(policy, of_policies, RunOptions(**run), cluster)
    return {n: value for n, value in options.items() if n not in of_policies or n in read}


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
    """Assign each request to a random worker, as immediate dispatch requires."""
    return [int(w) for w in state.rng.integers(state.num_workers, size=state.num_waiting)]


@dataclass(frozen=True)
class Scenario:
    """A drawn simulation without its policy.

    Parameters
    ----------
    workload : Workload
        The requests.
    cluster : Cluster
        The machine.
    options : dict
        Keywords of `bfio.simulate`.
    """

    workload: Workload
    cluster: Cluster
    options: dict[str, Any]

    def erratic_policy(self) -> Policy:
        """Return a random policy for the dispatch of this scenario, pooled or immediate."""
        return capricious if self.options["dispatch"] == "pooled" else anywhere

    def with_outputs(self, outputs: list[int]) -> Scenario:
        """Return the scenario with other output lengths [tokens] for its requests."""
        load = self.workload
        changed = Workload(load.prompt_tokens, outputs, load.arrival_times)  # type: ignore[arg-type]
        return replace(self, workload=changed)

    def simulate(self, policy: Any, **changes: Any) -> Run:
        """Simulate a policy, with some options changed and without options it does not read."""
        options = what_is_read(policy, self.cluster, {**self.options, **changes})
        return simulate(self.workload, policy, self.cluster, **options)


def drifts() -> st.SearchStrategy[Drift]:
    """Draw load growth per step: LLM decode, constant, periodic by age or step, or falling."""
    increments = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple)
    growing = st.builds(Drift, increments, st.sampled_from(DriftReading))
    return growing | st.sampled_from([Drift((1, 1, -2)), Drift((0, 5, -3)), Drift((7, -4, 0, -1))])


@st.composite
def workloads(
    draw: st.DrawFn, *, max_requests: int = 25, max_prompt: int = 10**12, max_output: int = 12
) -> Workload:
    """Draw requests, many of them equal or small, with arrival times and prompt-block hashes.

    Parameters
    ----------
    max_requests : int
        Largest ``n``.
    max_prompt, max_output : int
        Largest prompt and output [tokens].
    """
    sizes = st.integers(1, 20) | st.integers(1, 2100) | st.integers(1, 10**12)
    prompts = draw(st.lists(sizes.map(lambda s: min(s, max_prompt)), max_size=max_requests))
    n = len(prompts)
    outputs = draw(st.lists(st.integers(1, max_output), min_size=n, max_size=n))
    gaps = draw(st.lists(st.sampled_from(["0", "0.1", "1", "40"]), min_size=n, max_size=n))
    times = [sum((Fraction(g) for g in gaps[: i + 1]), Fraction(0)) for i in range(n)]
    hashes = [draw(_block_hashes(prompt)) for prompt in prompts]
    return Workload(prompts, outputs, tuple(times), block_hashes=hashes)  # type: ignore[arg-type]


def _block_hashes(prompt: int) -> st.SearchStrategy[list[int]]:
    """Draw prompt-block hashes with few different prefixes; none for prompts over 2,100 tokens."""
    if prompt > 2100:
        return st.just([])
    blocks = -(-prompt // 512)
    turns = st.lists(st.integers(1, 2), min_size=blocks, max_size=blocks)
    # Each hash identifies the prefix up to its block.
    return turns.map(lambda found: np.cumsum(np.array(found) * 3 ** np.arange(blocks)).tolist())


@st.composite
def clusters(
    draw: st.DrawFn, largest: int, *, max_workers: int = 5, max_slots: int = 4
) -> Cluster:
    """Draw a machine with optional worker speeds, memory limits and prefix caches.

    Parameters
    ----------
    largest : int
        Largest peak of a request [tokens]; a limited memory holds at least this much.
    max_workers, max_slots : int
        Largest ``G``, and most slots of a worker.
    """
    workers = draw(st.integers(1, max_workers))

    def one_or_each(values: st.SearchStrategy[Any]) -> Any:
        each = st.lists(values, min_size=workers, max_size=workers).map(tuple)
        return draw(values | each if draw(st.booleans()) else values)

    return Cluster(
        workers=workers,
        slots=one_or_each(st.integers(1, max_slots)),
        step_overhead_s=one_or_each(st.sampled_from([0.3, 1.0])),
        # With unequal workers, the step program needs a time per token above 0.
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
    """Draw failures, each with a recovery, so that every run can end; often there are none."""
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
    """Draw cancellations of requests some time after their arrival; often there are none."""
    if arrivals == "pool" or draw(st.booleans()):
        return "none"
    # With a scaled arrival rate, a request may arrive slightly earlier or later than assumed here.
    patience = draw(st.lists(st.none() | st.integers(0, 30), max_size=len(requests)))
    times = zip(patience, requests.exact_arrivals().seconds().tolist(), strict=False)
    events = [(t + p / 4, i) for i, (p, t) in enumerate(times) if p is not None]
    return tuple(sorted(events)) or "none"


def reports() -> st.SearchStrategy[Telemetry | None]:
    """Draw the delay and the loss rate of load reports; None for immediate, complete reports."""
    late = st.builds(Telemetry, st.integers(1, 4), st.sampled_from([0.0, 0.3]))
    return st.none() | st.just(Telemetry(0, 0.5)) | late


@st.composite
def tiers(draw: st.DrawFn, arrivals: str, requests: Workload) -> Any:
    """Draw a prefill tier, or None."""
    if arrivals == "pool" or draw(st.booleans()):
        return None
    # A long prompt could expire before it is transferred, and would then repeat prefill forever.
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
    crowded: bool = False,
) -> Scenario:
    """Draw a workload, a small machine, and options of a run from all features of the engine.

    Parameters
    ----------
    drained : bool
        Whether all runs last until no request is left; otherwise some have a limit on steps.
    delays, prefill, telemetry : bool
        Whether to draw decision delays, prefill tiers, and delayed or lost load reports.
    crowded : bool
        Whether to draw small requests and little memory, so that memory often overflows.
    """
    arrivals = draw(st.sampled_from(["pool", "timed"]))
    requests = draw(workloads(max_requests=10, max_prompt=5) if crowded else workloads())
    drift = draw(drifts())
    largest = int(peaks(requests, drift, leaves=True).max(initial=1))
    cluster = draw(clusters(largest, max_workers=2 if crowded else 5))
    if crowded:
        cluster = replace(cluster, slots=4, memory=draw(st.integers(largest, largest + 4)))
    overflow = draw(st.sampled_from(["recompute", "swap", "swap" if crowded else "reserve"]))
    events = draw(failures(cluster.workers))
    overflows = cluster.memory is not None and overflow != "reserve"
    leave = draw(cancellations(arrivals, requests))
    if (overflows or events != "none" or leave != "none") and not drift.is_uniform:
        # The engine refuses drift by age (of the request) if requests may be interrupted.
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
def plain_scenarios(
    draw: st.DrawFn,
    *,
    max_workers: int = 3,
    max_slots: int = 2,
    max_requests: int = 6,
    max_prompt: int = 20,
    max_output: int = 4,
) -> Scenario:
    """Draw a pool of requests, or arrivals at whole seconds, on equal workers with 1 s per step.

    Parameters
    ----------
    max_workers, max_slots : int
        Largest ``G`` and ``B``.
    max_requests : int
        Largest ``n``.
    max_prompt, max_output : int
        Largest prompt and output [tokens].
    """
    n = draw(st.integers(1, max_requests))

    def each(values: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(values, min_size=n, max_size=n))

    prompts, outputs = each(st.integers(1, max_prompt)), each(st.integers(1, max_output))
    times = tuple(map(Fraction, np.cumsum(each(st.integers(0, 2))).tolist()))
    cluster = Cluster(
        workers=draw(st.integers(1, max_workers)),
        slots=draw(st.integers(1, max_slots)),
        step_overhead_s=1.0,
        token_time_s=1e-6,
    )
    arrivals = draw(st.sampled_from(["pool", "timed"]))
    options = {"arrivals": arrivals, "seed": draw(st.integers(0, 9))}
    return Scenario(Workload(prompts, outputs, times), cluster, options)  # type: ignore[arg-type]


def arrival_processes(max_rate: int = 100) -> st.SearchStrategy[ArrivalProcess]:
    """Draw a random arrival process of any kind, with states and surges of seconds to minutes.

    Parameters
    ----------
    max_rate : int
        Largest rate of a state, and largest long-run rate [requests/s].
    """
    rates = st.sampled_from([0.5, 1.0, 7.5, float(max_rate)]).map(lambda r: min(r, max_rate))
    seconds = st.sampled_from([1.0, 5.0, 60.0])
    states = st.lists(st.tuples(rates, seconds), min_size=2, max_size=4)
    return st.one_of(
        st.builds(Poisson, rates),
        st.builds(GammaRenewal, rates, st.sampled_from([0.2, 1.0, 4.0])),
        st.builds(OnOff, rates, rates | st.just(0.0), seconds, seconds),
        st.builds(Diurnal, rates, st.sampled_from([0.0, 0.5, 1.0]), seconds),
        st.builds(Surges, rates, rates, st.just(60.0), st.sampled_from([1.0, 5.0])),
        states.map(lambda pairs: MarkovModulated(*zip(*pairs, strict=True))),
    )
