"""The parts of the line of settings: requests, machine, arrivals, look-ahead, predictor, seed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import TypeAlias

from bfio.common.number_text import exact
from bfio.common.options import options_of, split_options
from bfio.decode.cluster import STEP_OVERHEAD_S, TOKEN_TIME_S, Cluster, per_worker_text
from bfio.decode.drift import LLM, Drift
from bfio.decode.energy_model import EnergyModel
from bfio.decode.options import (
    SWAP_TIME_S,
    ArrivalMode,
    Dispatch,
    Overflow,
    Projection,
    RunOptions,
    Ties,
    WindowKnows,
)
from bfio.decode.policy_registry import all_options, look_ahead
from bfio.decode.prediction.registry import lengths_of
from bfio.decode.predictor import LengthSource, Predictor
from bfio.decode.service_level import ServiceLevel
from formulations.errors import InputError

#: A policy as it was named, and its options with the values in force (`Run.policy_options`).
NamedPolicy: TypeAlias = tuple[str, Mapping[str, object]]


def setting_parts(
    requests: str,
    cluster: Cluster,
    options: Sequence[RunOptions],
    policies: Sequence[NamedPolicy] = (),
    energy: EnergyModel | None = None,
) -> dict[str, str]:
    """Return the parts of such a line by what they are about, but for the version.

    Two runs that differ in an option differ in a part.

    Parameters
    ----------
    requests : str
        See `requests_used`.
    cluster, options, policies, energy
        As `settings` takes them.
    """
    first = options[0]
    alone = len(look_aheads(policies)) == 1
    parts = {
        "requests": requests,
        "machine": f"{cluster.shape} (workers x slots)",
        "step time": _step_time(cluster),
        "speed": "" if cluster.speed == 1 else f"speed {per_worker_text(cluster.speed)}",
        "memory": _memory(cluster, first),
        "overflow": _overflow(cluster, first),
        "prefix cache": _prefix_cache(cluster),
        "token budget": _token_budget(cluster, first),
        "arrivals": _arrivals(first),
        "prefill": "" if first.prefill is None else f"prefill tier {first.prefill.text}",
        "telemetry": "" if first.telemetry is None else f"telemetry {first.telemetry.text}",
        "steps": "" if first.steps is None else f"at most {first.steps:,} steps",
        "dispatch": _dispatch(options),
        "ties": "" if first.ties is Ties.LOWEST else f"{first.ties} ties",
        "delay": f"decisions delayed by {first.delay} steps" if first.delay else "",
        "stragglers": _schedule("stragglers", first.stragglers),
        "failures": _schedule("failures", first.failures),
        "cancellations": _schedule("cancellations", first.cancellations),
        "drift": _drift(first.drift),
        "service level": _service_level(first.slo),
        "look-ahead": _look_ahead(first, policies),
        "predictor": _information(first),
        "seed": f"seed {first.seed}",
        **policy_parts(policies, besides=("horizon",) if alone else ()),
        "energy": energy_part(energy or EnergyModel()),
    }
    return {name: text for name, text in parts.items() if text}


def policy_parts(policies: Sequence[NamedPolicy], besides: Sequence[str] = ()) -> dict[str, str]:
    """Return a part for each option that has not its usual value for some policy.

    Parameters
    ----------
    policies : sequence of (str, mapping)
        As `settings` takes them.
    besides : sequence of str
        Options that something else tells.
    """
    parts = {}
    for name, tables in all_options().items():
        read = [(label, given[name]) for label, given in policies if name in given]
        plain = all(
            (entry := tables.get(split_options(who)[0])) is not None and entry.default == value
            for who, value in read
        )
        if name not in besides and not plain:
            parts[name] = f"{name} {', '.join(_told(read))}"
    return parts


def look_aheads(policies: Sequence[NamedPolicy]) -> list[int]:
    """Return the look-aheads of some policies, in ascending order; at least one, be it 0."""
    return sorted({look_ahead(given) for _, given in policies} or {0})


def _told(read: Sequence[tuple[str, object]]) -> Iterator[str]:
    """Yield the values of an option: one that all share, or each with its policies."""
    texts = [(label, "by default" if value is None else exact(value)) for label, value in read]
    different = dict.fromkeys(text for _, text in texts)
    for text in different:
        who = " and ".join(label for label, other in texts if other == text)
        yield text if len(different) == 1 else f"{text} ({who})"


def _step_time(cluster: Cluster) -> str:
    """Return the constants of a step if they are not the published ones."""
    constants = (cluster.step_overhead_s, cluster.token_time_s, cluster.mean_time_s)
    if constants == (STEP_OVERHEAD_S, TOKEN_TIME_S, 0.0):
        return ""
    overhead, peak = map(_short, constants[:2], (STEP_OVERHEAD_S, TOKEN_TIME_S))
    mean = exact(cluster.mean_time_s)
    of_mean = f" + {mean} s/token of the mean" if cluster.mean_time_s else ""
    return f"step time {overhead} s + {peak} s/token of the peak{of_mean}"


def _short(value: float | tuple[float, ...], published: float) -> str:
    """Return a time or those of each worker, the published one with six digits."""
    return f"{value:.6g}" if value == published else per_worker_text(value)


def _service_level(slo: ServiceLevel | None) -> str:
    if slo is None:
        return ""
    limits = {"TTFT": slo.ttft_s, "TPOT": slo.tpot_s}
    told = [f"{name} <= {exact(limit)} s" for name, limit in limits.items() if limit < math.inf]
    return f"service level {' and '.join(told)}"


def energy_part(energy: EnergyModel) -> str:
    """Return the constants of the power curve that are not the usual ones, by their options."""
    usual = EnergyModel()
    changed = [
        f"{entry.name} {exact(getattr(energy, entry.field))}"
        for entry in options_of(EnergyModel)
        if getattr(energy, entry.field) != getattr(usual, entry.field)
    ]
    return f"energy with {', '.join(changed)}" if changed else ""


def _schedule(name: str, given: str | Sequence[object]) -> str:
    if not isinstance(given, str):
        digest = sha256(repr(tuple(given)).encode()).hexdigest()[:8]
        return f"{name} at {len(given)} times ({digest})"
    return "" if given == "none" else f"{name} {given}"


def _drift(drift: Drift) -> str:
    if drift == LLM:
        return ""
    runs = [(value, len(list(same))) for value, same in groupby(drift.increments)]
    texts = [f"{count}*{value}" if count > 1 else f"{value}" for value, count in runs]
    return f"drift {drift.reading.value}:{','.join(texts)}"


def _dispatch(options: Sequence[RunOptions]) -> str:
    if options[0].dispatch is not Dispatch.IMMEDIATE:
        return ""
    margins = {entry.margin for entry in options if entry.dispatch is Dispatch.IMMEDIATE}
    numbers = sorted(margin for margin in margins if margin is not None)
    texts = [f"at most {margin} beyond its slots" for margin in numbers]
    texts += ["any number"] * (None in margins and bool(numbers))
    in_flight = f" ({' or '.join(texts)} in flight)" if texts else ""
    return f"immediate dispatch{in_flight}"


def _memory(cluster: Cluster, options: RunOptions) -> str:
    if cluster.memory is None:
        return ""
    swaps = options.swap_time_s != SWAP_TIME_S
    time = f", {exact(options.swap_time_s)} s a token" if swaps else ""
    return f"memory {per_worker_text(cluster.memory)} tokens ({options.overflow.value}{time})"


def _overflow(cluster: Cluster, options: RunOptions) -> str:
    """Return what would happen at an overflow where there is none, if it is not as usual."""
    said = (options.overflow, options.swap_time_s)
    if cluster.memory is not None or said == (Overflow.RECOMPUTE, SWAP_TIME_S):
        return ""
    return f"overflow {said[0].value}, {exact(said[1])} s a token, where no memory is limited"


def _prefix_cache(cluster: Cluster) -> str:
    if cluster.prefix_cache is None:
        return ""
    return f"prefix cache {per_worker_text(cluster.prefix_cache)} tokens"


def _token_budget(cluster: Cluster, options: RunOptions) -> str:
    if cluster.token_budget is None:
        return ""
    time = f", {exact(cluster.batch_token_time_s)} s a token" if cluster.batch_token_time_s else ""
    free = f" beyond {cluster.free_tokens}" if time and cluster.free_tokens else ""
    return f"token budget {per_worker_text(cluster.token_budget)} ({options.batching}{time}{free})"


def _arrivals(options: RunOptions) -> str:
    if options.arrivals is ArrivalMode.POOL:
        return f"pool of {options.pool:,}"
    if options.load is not None:
        return f"timed arrivals at load {exact(options.load)} of capacity"
    rate = "" if options.rate_scale == 1 else f" at {exact(options.rate_scale)} times their rate"
    return f"timed arrivals{rate}"


def _look_ahead(options: RunOptions, policies: Sequence[NamedPolicy]) -> str:
    horizons = look_aheads(policies)
    text = f"look-ahead {' to '.join(str(h) for h in (horizons[0], *horizons[1:][-1:]))}"
    projection = options.projection
    told = horizons[-1] or projection is not Projection.CONSTANT
    return f"{text} ({projection} loads)" if told else text


def _information(options: RunOptions) -> str:
    """Return the predictor, and what a policy that looks ahead knows of whose lengths by it."""
    source, name = length_source(options.predictor), predictor_name(options.predictor)
    if source is LengthSource.UNKNOWN and options.window_knows is WindowKnows.ACTIVE:
        return f"predictor {name} (unknown lengths)"
    words = {LengthSource.KNOWN: "known", LengthSource.UNKNOWN: "unknown"}
    lengths = words.get(source, "predicted")
    return f"predictor {name} ({lengths} lengths of {options.window_knows} requests)"


def length_source(predictor: str | Predictor) -> LengthSource:
    """Return where the lengths of a predictor come from."""
    try:
        return lengths_of(predictor)
    except InputError:
        # A run keeps the name alone of a predictor that was handed over as an object.
        return LengthSource.ASKED


def predictor_name(predictor: str | Predictor) -> str:
    """Return what a predictor is called."""
    return str(getattr(predictor, "name", predictor))
