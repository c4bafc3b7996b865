"""The line of settings and the remarks that go with a table or plot of runs."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from bfio.common.options import LOOK_AHEAD, options_of, split_options
from bfio.common.provenance import version_and_commit
from bfio.common.text import exact
from bfio.decode.cluster import STEP_OVERHEAD_S, TOKEN_TIME_S, Cluster, per_worker_text
from bfio.decode.drift import LLM, Drift
from bfio.decode.energy_model import EnergyModel
from bfio.decode.features.registry import idle, settings_after, unseen
from bfio.decode.options import (
    ArrivalMode,
    Dispatch,
    Projection,
    RunOptions,
    WindowKnows,
)
from bfio.decode.policy_registry import all_options, look_ahead
from bfio.decode.run import Run
from bfio.prediction.predictor import LengthSource, Predictor
from bfio.prediction.registry import lengths_of
from bfio.workloads.statistics import requests_used
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.scalars import percentage
from formulations.words import counted

#: Limits of a solve: options of policies, also recorded in their statistics.
LIMITS = ("work_limit", "time_limit")
#: Share of rows out of order above which a remark doubts the arrival times of a trace.
_DISORDER = 0.2
#: A measured part is reported as not stationary if its mean load differs by more than this share
#: between the first and the last fifth of its steps.
_MOST_DRIFT, _FIFTHS = 0.2, 5
#: A policy as the user wrote it, and its options in force (`Run.policy_options`).
NamedPolicy: TypeAlias = tuple[str, Mapping[str, object]]


def setting_parts(
    requests: str,
    cluster: Cluster,
    options: Sequence[RunOptions],
    policies: Sequence[NamedPolicy] = (),
    energy: EnergyModel | None = None,
) -> dict[str, str]:
    """Return the parts of `settings` by subject, without the version.

    Runs that differ in an option differ in a part of this text. ``requests`` is the text of
    `requests_used`.
    """
    first = options[0]
    alone = len(look_aheads(policies)) == 1
    parts = {
        "requests": requests,
        "machine": f"{cluster.shape} (workers x slots)",
        "step time": _step_time(cluster),
        "speed": "" if cluster.speed == 1 else f"speed {per_worker_text(cluster.speed)}",
        **settings_after("speed", cluster, first),
        "arrivals": _arrivals(first),
        **settings_after("arrivals", cluster, first),
        "steps": "" if first.steps is None else f"at most {counted(first.steps, 'step')}",
        "dispatch": _dispatch(options),
        **settings_after("dispatch", cluster, first),
        "drift": _drift(first.drift),
        **settings_after("drift", cluster, first),
        "look-ahead": _look_ahead(first, policies),
        "predictor": _information(first),
        "seed": f"seed {first.seed}",
        **policy_parts(policies, besides=(LOOK_AHEAD,) if alone else ()),
        "energy": energy_part(energy or EnergyModel()),
    }
    return {name: text for name, text in parts.items() if text}


def policy_parts(policies: Sequence[NamedPolicy], besides: Sequence[str] = ()) -> dict[str, str]:
    """Return a text for each option that some policy sets to other than its default.

    ``besides`` are options to leave out, because another text shows them.
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
    """Return the distinct look-aheads of policies in ascending order; [0] if there are none."""
    return sorted({look_ahead(given) for _, given in policies} or {0})


def _told(read: Sequence[tuple[str, object]]) -> Iterator[str]:
    """Yield the value of an option if all policies share it, else each value and its policies."""
    texts = [(label, "by default" if value is None else exact(value)) for label, value in read]
    different = dict.fromkeys(text for _, text in texts)
    for text in different:
        who = " and ".join(label for label, other in texts if other == text)
        yield text if len(different) == 1 else f"{text} ({who})"


def _step_time(cluster: Cluster) -> str:
    """Return the constants of the step time if these differ from the published constants."""
    constants = (cluster.step_overhead_s, cluster.token_time_s, cluster.mean_time_s)
    if constants == (STEP_OVERHEAD_S, TOKEN_TIME_S, 0.0):
        return ""
    overhead, peak = map(_short, constants[:2], (STEP_OVERHEAD_S, TOKEN_TIME_S))
    mean = exact(cluster.mean_time_s)
    of_mean = f" + {mean} s/token of the mean" if cluster.mean_time_s else ""
    return f"step time {overhead} s + {peak} s/token of the peak{of_mean}"


def _short(value: float | tuple[float, ...], published: float) -> str:
    """Return a time or the times of each worker; the published time has six digits."""
    return f"{value:.6g}" if value == published else per_worker_text(value)


def energy_part(energy: EnergyModel) -> str:
    """Return the constants of the power curve that differ from the defaults, by option name."""
    usual = EnergyModel()
    changed = [
        f"{entry.name} {exact(getattr(energy, entry.field))}"
        for entry in options_of(EnergyModel)
        if getattr(energy, entry.field) != getattr(usual, entry.field)
    ]
    return f"energy with {', '.join(changed)}" if changed else ""


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
    """Return the predictor, and the requests for which the look-ahead window contains lengths."""
    source, name = length_source(options.predictor), predictor_name(options.predictor)
    if source is LengthSource.UNKNOWN and options.window_knows is WindowKnows.ACTIVE:
        return f"predictor {name} (unknown lengths)"
    words = {LengthSource.KNOWN: "known", LengthSource.UNKNOWN: "unknown"}
    lengths = words.get(source, "predicted")
    return f"predictor {name} ({lengths} lengths of {options.window_knows} requests)"


def length_source(predictor: str | Predictor) -> LengthSource:
    """Return the source of the output lengths that a predictor returns."""
    try:
        return lengths_of(predictor)
    except InputError:
        # A run keeps only the name of a predictor that was given as an object.
        return LengthSource.ASKED


def predictor_name(predictor: str | Predictor) -> str:
    """Return the name of a predictor."""
    return str(getattr(predictor, "name", predictor))


def settings(
    workload: Workload,
    cluster: Cluster,
    options: Sequence[RunOptions],
    limits: Sequence[Mapping[str, object]] = (),
    energy: EnergyModel | None = None,
    policies: Sequence[NamedPolicy] = (),
) -> str:
    """Return one line of text that describes runs on one workload and machine.

    The ``options`` of the runs differ in their in-flight margin only. ``limits`` are limits of
    solves, with keys ``work_limit`` and ``time_limit``; mappings without these keys are ignored.
    ``policies`` are the requested policies, each with its options in force.
    """
    requests, drawn = requests_used(workload), workload.provenance.get("seed")
    # The requests may be drawn with another seed than the run; a command has one seed for both.
    if drawn not in (None, options[0].seed):
        requests += f" drawn with seed {drawn}"
    parts = setting_parts(requests, cluster, options, policies, energy)
    if nobody_asks(options[0], policies):
        parts["predictor"] = f"predictor {predictor_name(options[0].predictor)} (not asked)"
    solving = dict.fromkeys(_solve_limits(entry) for entry in limits if "work_limit" in entry)
    if len(solving) == 1:
        parts = {name: text for name, text in parts.items() if name not in LIMITS}
    return ", ".join([*parts.values(), *solving, version_and_commit()])


def nobody_asks(options: RunOptions, policies: Sequence[NamedPolicy]) -> bool:
    """Return whether a predictor was given but has no effect, because no policy looks ahead."""
    return predictor_name(options.predictor) != "none" and not look_aheads(policies)[-1]


def _solve_limits(limits: Mapping[str, object]) -> str:
    ticks, seconds = map(limits.get, LIMITS)
    parts = [] if ticks is None else [f"{ticks:,} ticks"]
    parts += [] if seconds is None else [f"{exact(seconds)} s by the clock"]
    return f"at most {' or '.join(parts)} a solve"


def by_the_clock(
    who: str, limits: Mapping[str, object], struck: int, solved: int
) -> Iterator[str]:
    """Yield a remark on the wall-clock limit of solves, if there is such a limit.

    ``who`` names the policy, ``solved`` is its number of solves, and ``struck`` the number that
    the limit stopped.
    """
    seconds = limits.get("time_limit")
    if seconds is None:
        return
    if struck:
        yield (
            f"{who}: the time limit of {seconds:g} s ended {struck:,} of {solved:,} solves early; "
            "results may differ between machines. With work_limit=TICKS, results are equal on all "
            "machines."
        )
    else:
        yield (
            f"{who}: the time limit of {seconds:g} s ended none of {solved:,} solves early, but "
            f"may do so on a slower machine and change the results."
        )


def unused_arrivals(has_arrival_times: bool, options: RunOptions) -> Iterator[str]:
    """Yield a hint if the requests have arrival times that the run does not use."""
    if has_arrival_times and options.arrivals is ArrivalMode.POOL:
        yield (
            "The requests have arrival times, which are not used: a pool reveals requests as "
            'others start. Use arrivals="timed" to run with these times.'
        )


def unused_window_knows(options: RunOptions) -> Iterator[str]:
    """Yield a hint if the window should contain all lengths but no predictor gives lengths."""
    waiting = options.window_knows is WindowKnows.ALL
    if waiting and length_source(options.predictor) is LengthSource.UNKNOWN:
        yield (
            "The option window_knows=all has no effect: predictor "
            f'{predictor_name(options.predictor)} gives no lengths. Use predictor="oracle".'
        )


def unused_projection(options: RunOptions) -> Iterator[str]:
    """Yield a hint if a projection is given although no policy looks ahead."""
    if options.projection is not RunOptions().projection:
        yield (
            f"The option projection={options.projection} has no effect: no policy here looks "
            "ahead."
        )


def unused_discounts(policies: Sequence[NamedPolicy]) -> Iterator[str]:
    """Yield a hint for each policy with a discount per look-ahead step and no look-ahead."""
    for name, given in policies:
        discount = given.get("gamma", 1)
        if discount != 1 and not look_ahead(given):
            yield (
                f"The option gamma={exact(discount)} has no effect on {name}, which does not look "
                "ahead."
            )


def is_blind(options: RunOptions) -> bool:
    """Return whether all columns of the look-ahead window equal the first one throughout a run."""
    unknown = length_source(options.predictor) is LengthSource.UNKNOWN
    return unknown and options.projection is Projection.CONSTANT


def blind_windows() -> str:
    """Return a hint that the look-ahead has no effect, and how to change that; see `is_blind`."""
    return (
        'Look-ahead has no effect here: no ends are predicted (predictor="survival" or "oracle"), '
        'and projected loads are constant (projection="growing").'
    )


def idle_features(
    names: Sequence[str], workload: Workload, cluster: Cluster, options: RunOptions
) -> Iterator[str]:
    """Yield the requested features of the machine that have no effect; see `idle`."""
    tells = workload.prompt_blocks is not None or workload.prompt_keys is not None
    yield from idle(names, cluster, options, tells_prompts=tells)


def unused_history(past: int, why: str) -> str:
    """Return a hint that requests reserved as history are not used; ``why`` begins the hint."""
    return f"{why}: the first {past:,} requests are nevertheless left out of the run."


def learns(options: RunOptions) -> bool:
    """Return whether the predictor of a run learns from past requests."""
    return length_source(options.predictor) not in (LengthSource.UNKNOWN, LengthSource.KNOWN)


def unasked_predictor(options: RunOptions) -> str:
    """Return a hint that no policy uses the predictor, and how to use it; see `nobody_asks`."""
    return (
        f"Predictor {predictor_name(options.predictor)} has no effect, because no policy here "
        f"looks ahead. Use br-h, or bf-io with {LOOK_AHEAD}=H."
    )


def disordered_arrivals(workload: Workload) -> Iterator[str]:
    """Yield a hint if many rows of the trace were out of order."""
    out_of_order = workload.provenance.get("out_of_order_rows")
    if isinstance(out_of_order, int) and out_of_order > _DISORDER * len(workload):
        yield (
            f"{out_of_order:,} rows of the trace were out of order and have been sorted: check "
            "that the column of arrivals holds times."
        )


def unused(
    workload: Workload, first: RunOptions, policies: Sequence[NamedPolicy]
) -> Iterator[str]:
    """Yield a remark for each part of the requests and options that has no effect."""
    yield from unused_arrivals(workload.arrival_times is not None, first)
    yield from disordered_arrivals(workload)
    if workload.history is not None and not learns(first):
        why = f"Predictor {predictor_name(first.predictor)} learns nothing"
        yield unused_history(len(workload.history), why)
    yield from unused_window_knows(first)
    yield from unused_discounts(policies)
    if nobody_asks(first, policies):
        yield unasked_predictor(first)
    if not look_aheads(policies)[-1]:
        yield from unused_projection(first)
    elif is_blind(first):
        yield blind_windows()


def remarks(
    workload: Workload, runs: Sequence[Run], measured: Sequence[Run] | None = None
) -> Iterator[str]:
    """Yield remarks that a reader of the metrics of these runs should know, one sentence each.

    ``measured`` are the runs on the repeated requests, if the requests were repeated.
    """
    yield from unused(workload, runs[0].options, [(r.policy, r.policy_options) for r in runs])
    names = [run.policy for run in runs]
    yield from idle_features(names, workload, runs[0].cluster, runs[0].options)
    yield from unseen(runs)
    for run in runs:
        counts = [run.statistics.get(name) for name in ("clocked_steps", "steps")]
        if all(isinstance(count, int) for count in counts):
            struck, solved = (int(str(count)) for count in counts)
            yield from by_the_clock(run.policy, run.statistics, struck, solved)
    yield from _of_measured_part(measured or runs)
    ends = [drain_share(run) for run in runs if run.is_drained]
    if runs[0].options.arrivals is ArrivalMode.POOL and ends and max(ends) > 0:
        yield (
            f"In the last {_percents(ends)} % of the steps of the whole run the pool is not "
            f"refilled: metrics of the whole run depend on which requests a policy left for the "
            f"end."
        )


def _of_measured_part(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a description of the measured part, and remarks on its limitations."""
    part = runs[0].measured
    if part is None:
        return
    if part.why_not:
        yield f"No part of the run is measured: {part.why_not}."
        return
    found = [(run, steps) for run in runs if (steps := part.steps(run)) is not None]
    for run in runs:
        if part.steps(run) is None:
            yield f"{run.policy} was stopped before the end of the measured part."
    if not found:
        return
    kind = "that arrive in it" if part.is_timed else f"{part.first:,} to {part.last - 1:,}"
    times = f"times of requests are those of requests {kind}, whenever they complete"
    if part.last == part.first:
        times = "it is too short for times of requests: repeat the requests more often"
    yield (
        f"The measured part was fixed before the runs and is the same for all policies; {times}."
    )
    warm_up = min(int(steps[0]) for _, steps in found)
    longest, who = max((part.mser_steps(run), run.policy) for run, _ in found)
    judged = f"{who}, so it may be too short there" if longest > warm_up else "any policy"
    yield f"Warm-up: {warm_up:,} steps; rule MSER-5 gives at most {longest:,} under {judged}."
    busiest = max(float(run.active[steps].max()) for run, steps in found)
    share = busiest / runs[0].cluster.total_slots
    if share < 1:
        yield f"At no step are all slots busy: at most {percentage(share, 0)} % are."
    yield from _not_stationary(found)


def load_drift(run: Run, steps: IntArray) -> tuple[float, float]:
    """Return the mean load of a worker over the first and last fifth of steps [tokens]."""
    loads = run.total_load[steps] / run.cluster.workers
    count = max(1, len(loads) // _FIFTHS)
    return float(loads[:count].mean()), float(loads[-count:].mean())


def _not_stationary(found: Sequence[tuple[Run, IntArray]]) -> Iterator[str]:
    """Yield a remark if the load drifts within the measured part, with the largest drift."""
    drifts = [(run.policy, *load_drift(run, steps)) for run, steps in found]
    changes = [
        (abs(last - first) / first, who, first, last) for who, first, last in drifts if first
    ]
    moving = [entry for entry in changes if entry[0] > _MOST_DRIFT]
    if moving:
        _, who, first, last = max(moving, key=lambda entry: entry[0])
        share = f" ({len(moving)} of {len(found)} runs drift so)" if len(found) > 1 else ""
        yield (
            f"The measured part is not stationary: under {who} the mean load of a worker is "
            f"{first:,.0f} tokens in its first fifth and {last:,.0f} in its last{share}. Its "
            f"means depend on the length of the run."
        )


def _percents(shares: Sequence[float]) -> str:
    lowest, highest = (percentage(share, 0) for share in (min(shares), max(shares)))
    return lowest if lowest == highest else f"{lowest} to {highest}"


def drain_share(run: Run) -> float:
    """Return the share of a run's steps that follow the reveal of the last request."""
    return 1 - (int(run.reveal_step.max(initial=-1)) + 1) / run.steps if run.steps else 0.0
