"""What the values of rows mean: unit and description by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

#: Parts of a run, as prefixes of the names of values.
_PARTS = {
    "steady.": "over the steady part of the run",
    "saturated.": "over the part of the run in which the pool was refilled",
    "cold.": "for the first decision, with all slots free",
    "baseline.": "of the baseline",
    "policy.": "of the policy",
    "wall_clock.": "for the time of all steps",
    "wall_clock_conserving.": "for the time of all steps, hindsight conserving work",
    "peaks.": "for the sum of peaks (a step costs its largest load only)",
    "peaks_conserving.": "for the sum of peaks, hindsight conserving work",
    "imbalance.": "for the total imbalance",
    "latency.": "for the total latency in steps",
}
_HALF_WIDTH = ".half_width"


@dataclass(frozen=True)
class Description:
    """Unit and one-line description of a value; empty where unknown."""

    unit: str = ""
    text: str = ""


#: Values of the kinds about one worker with a KV cache.
_OF_THE_CACHE = (
    ("verdict", "", "how the run ended"),
    ("is_finished", "", "whether every request completed"),
    ("is_loop", "", "whether the state came back without a completion"),
    ("is_stopped", "", "whether the run was given up at a limit"),
    ("latency_p50_s", "s", "median of completion minus arrival"),
    ("latency_max_s", "s", "largest completion minus arrival"),
    ("busy_s", "s", "time in which batches ran"),
    ("rate_per_s", "1/s", "arrivals per second that offer the load"),
    ("overflows", "", "how often the running requests outgrew the memory"),
    ("draws", "", "rounds of clearing"),
    ("cleared", "", "how often a request was cleared"),
    ("wasted_tokens", "tokens", "output tokens of stays that were cleared"),
    ("left_out", "requests", "requests that exceed the memory alone and were left out"),
    ("peak_memory", "tokens", "tokens in the fullest batch"),
    (
        "peak_memory_share",
        "1",
        "tokens in the fullest batch and of paused requests, over the memory; above 1 could not "
        "take place",
    ),
    ("mean_memory_share", "1", "mean tokens in the cache over M, while batches ran"),
    ("memory", "tokens", "tokens in the cache, mean of each interval of time"),
    ("waiting", "requests", "requests known but not running, mean of each interval of time"),
    ("memory_limit", "tokens", "memory M of the instance"),
    ("total_latency", "rounds", "total latency of the algorithm"),
    ("mc_sf_latency", "rounds", "total latency of MC-SF"),
    ("reference_latency", "rounds", "total latency of a schedule that waits where it pays"),
    ("incumbent", "rounds", "total latency of the schedule that the method found"),
    ("optimum_at_least", "rounds", "lower bound on the least total latency"),
    ("optimum_at_most", "rounds", "total latency of the best schedule in hand"),
    ("optimum_gap", "1", "(best schedule in hand - bound) over the former"),
    ("own_gap", "1", "(schedule that the method found - bound) over the former"),
    ("below_mc_sf", "1", "(MC-SF - bound) over MC-SF"),
    ("proven", "", "whether integers prove the optimum"),
    ("closed", "", "whether the method's bound meets its schedule, in floats perhaps"),
    ("relaxation", "rounds", "value of the linear relaxation, as a float solver has it"),
    ("beats_relaxation", "", "whether the bound lies above the linear relaxation"),
    ("ratio_at_least", "1", "total latency over that of the best schedule in hand"),
    ("ratio_at_most", "1", "total latency over the lower bound"),
    ("surely_optimal", "", "whether the algorithm meets the lower bound"),
    ("possibly_optimal", "", "whether nothing better than the algorithm's schedule is known"),
    ("excess", "1", "ratio to the best schedule in hand, minus 1"),
    ("excess_over_bound", "1", "ratio to the lower bound, minus 1"),
    ("printed_ratio", "1", "ratio that the printed proof arrives at"),
    ("limit_ratio", "1", "what the ratio of MC-SF tends to as M grows"),
    ("instances", "", "instances that were added up"),
    ("schedule_s", "s", "wall-clock time of the first schedules"),
    ("prices_s", "s", "wall-clock time of the prices"),
    ("search_s", "s", "wall-clock time of the search"),
    ("build_s", "s", "wall-clock time of writing the program down"),
)
#: Values of prices of myopia, each for several criteria.
_OF_MYOPIA = (
    ("attained", "", "what the run costs"),
    ("best_known", "", "what the best schedule in hand costs"),
    ("bound", "", "lower bound on what any schedule costs"),
    ("price_at_least", "1", "cost of the run over that of the best schedule in hand"),
    ("price_at_most", "1", "cost of the run over the lower bound"),
    ("has_no_limit", "", "whether the bound is 0 and the run costs something"),
    ("avoidable_idle_at_least", "1", "(run - best schedule in hand) over G times the run's peaks"),
    ("avoidable_idle_at_most", "1", "(run - lower bound) over G times the run's peaks"),
    ("hindsight_s", "s", "wall-clock time of all hindsight optima of the row"),
    ("requests", "requests", "requests of the instance"),
)
#: Values of the kinds about one engine in stages.
_OF_STAGES = (
    ("throughput", "1/s", "stages of completed requests"),
    ("decode_throughput", "1/s", "output tokens of completed requests"),
    ("fluid_throughput", "1/s", "most stages that the fluid model serves within the memory"),
    ("fluid_decode_throughput", "1/s", "the same in output tokens"),
    ("throughput_share", "1", "stages served over the fluid optimum"),
    ("decode_throughput_share", "1", "output tokens served over the fluid optimum"),
    ("gap", "1/s", "stages that arrived and were not completed"),
    ("decode_gap", "1/s", "output tokens that arrived and were not completed"),
    ("latency_p99_s", "s", "99th percentile of completion minus arrival"),
    ("batches", "", "batches that ran"),
    ("ttft_mean_s", "s", "mean of first token minus arrival"),
    ("ttft_p95_s", "s", "95th percentile of first token minus arrival"),
    ("ttft_p99_s", "s", "99th percentile of first token minus arrival"),
    ("ttft_max_s", "s", "largest first token minus arrival"),
    ("open_share", "1", "share of the arrived requests that did not complete in time"),
    ("observed_s", "s", "length of the observation"),
    ("stage_events", "", "prompts times stages that ran"),
    ("mean_batch_s", "s", "mean duration of a batch"),
    ("busy_share", "1", "share of the time in which batches ran"),
    ("overflow_share", "1", "share of the batches that needed more than the memory"),
    ("is_within_memory", "", "whether no batch needed more than the memory"),
    ("evictions", "", "how often a request lost what it held"),
    ("offered_load", "1", "work per second over what a full memory serves"),
    ("work_load", "1", "work per second times the time per token"),
    ("equilibrium_memory", "tokens", "memory of the fluid equilibrium"),
    ("equilibrium_batch_s", "s", "iteration time of the fluid equilibrium"),
    ("thresholds", "", "prompts per stage of each class or segment"),
    ("policy_memory", "tokens", "full batch of the thresholds"),
    ("policy_memory_share", "1", "full batch of the thresholds over the memory"),
    ("policy_batch_s", "s", "duration of the full batch of the thresholds"),
    ("conditions_hold", "", "whether the thresholds keep up with what is offered, with slack"),
    ("memory_bound", "tokens", "memory that suffices with the asked probability"),
    ("peak_over_bound", "1", "peak memory over that bound"),
    ("exceeds_bound", "", "whether the peak exceeds that bound"),
    ("unscaled_gap", "1/s", "gap on the clock without scaling"),
    ("unscaled_latency_mean_s", "s", "mean latency on the clock without scaling"),
    ("unscaled_ttft_mean_s", "s", "mean time to first token on the clock without scaling"),
    ("keeps_up", "", "whether thresholds exist"),
    ("num_segments", "", "segments of the plan"),
    ("boundaries", "", "last stage of each segment"),
    ("batch_memory", "tokens", "full batch, the first part of (12)"),
    ("waiting_memory", "tokens", "waiting cohorts, the second part of (12)"),
    ("deviation_memory", "tokens", "deviations, the third part of (12)"),
    ("total_memory", "tokens", "memory that suffices with the asked probability"),
    ("total_memory_share", "1", "that memory over what there is"),
    ("batch_share", "1", "full batch over that memory"),
    ("printed_batch_memory", "tokens", "full batch as printed in (14)"),
    ("printed_total_memory", "tokens", "memory with the full batch as printed"),
    ("printed_over_exact", "1", "full batch as printed over the exact one"),
    ("segment_load", "1", "load if requests are as long as their segment"),
    ("least_exponent", "1", "smallest root of (16)"),
)
_DESCRIPTIONS = {
    name: Description(unit, text)
    for name, unit, text in (
        ("wall_s", "s", "wall-clock time of the run, or of the whole row if it times no run"),
        ("cpu_s", "s", "processor time of the row"),
        ("decide_s", "s", "wall-clock time of the decisions"),
        ("solve_s", "s", "wall-clock time of the solver"),
        ("peak_memory_bytes", "bytes", "largest resident memory of the row's process"),
        ("solves", "", "optima asked for"),
        ("unproven", "", "optima asked for that stayed unproven"),
        ("attempts", "", "how often the row was begun"),
        ("is_drained", "", "whether every request completed"),
        ("proven_share", "1", "share of the solved steps whose optimum was proven"),
        ("proven_decisions", "decisions", "decisions whose optimum was proven"),
        ("share_optimal", "1", "share of proven decisions that were optimal"),
        ("regret", "tokens", "objective minus the optimum over as many admitted requests"),
        ("regrets", "tokens", "objective minus optimum, of each proven decision"),
        ("regret_mean", "tokens", "mean of objective minus optimum"),
        ("regret_median", "tokens", "median of objective minus optimum"),
        ("regret_p99", "tokens", "99th percentile of objective minus optimum"),
        ("regret_max", "tokens", "largest objective minus optimum"),
        ("regret_at_most", "tokens", "objective minus the best bound of the optimum"),
        ("objective", "tokens", "objective of the decision"),
        ("optimum_mean", "tokens", "mean optimum"),
        ("relative_regret", "1", "sum of regrets over sum of optima"),
        ("is_proven", "", "whether the optimum was proven"),
        ("imbalance", "tokens", "G·max load - total load of each step (BF-IO eq. 2)"),
        ("max_load", "tokens", "load of the fullest worker in each step"),
        ("mean_load", "tokens", "mean load of the workers in each step"),
        ("iir", "1", "AvgImbalance of the baseline over that of the policy"),
        ("sqrt_b_log_g", "1", "√(B ln G), the growth in theorems 1 and 2 of BF-IO"),
        ("iir_over_sqrt_b_log_g", "1", "improvement ratio over √(B ln G)"),
        ("relative_imbalance", "1", "AvgImbalance of the policy over that of the baseline"),
        *_OF_THE_CACHE,
        *_OF_MYOPIA,
        *_OF_STAGES,
    )
}


#: What is measured of every row, whatever computes it.
_MEASURED = ("wall_s", "cpu_s", "peak_memory_bytes", "solves", "unproven", "attempts")
#: Descriptions of values that users' own kinds compute.
_REGISTERED: dict[str, Description] = {}


def describe(name: str, computes: str = "") -> Description:
    """Return what is known of a value: its unit and text, with the part of the run it is over.

    Parameters
    ----------
    name : str
        Name of the value.
    computes : str
        What computes it. A value of a user's own ``module:function`` may be called like one of
        ours and mean another thing: it has no description but one that was registered.
    """
    if name in _REGISTERED:
        return _REGISTERED[name]
    if ":" in computes:
        return _DESCRIPTIONS[name] if name in _MEASURED else Description()
    if name in _DESCRIPTIONS:
        return _DESCRIPTIONS[name]
    for prefix, part in _PARTS.items():
        if name.startswith(prefix):
            return _extended(name.removeprefix(prefix), "{}, " + part)
    if name.endswith(_HALF_WIDTH):
        whole = "half a 95 % interval by batch means of: {}"
        return _extended(name.removesuffix(_HALF_WIDTH), whole)
    return _known_metrics().get(name, Description())


def _extended(name: str, sentence: str) -> Description:
    known = describe(name)
    return Description(known.unit, sentence.format(known.text)) if known.text else known


@cache
def _known_metrics() -> Mapping[str, Description]:
    from bfio.decode.metrics import metrics

    return {entry.name: Description(entry.unit, entry.description) for entry in metrics()}


def register(name: str, unit: str, text: str) -> None:
    """Add the description of a value that a kind of row computes."""
    _REGISTERED[name] = Description(unit, text)


def with_unit(name: str, computes: str = "") -> str:
    """Return the name with its unit in brackets, as an axis shows it; see `describe`."""
    unit = describe(name, computes).unit
    return f"{name} [{unit}]" if unit and unit != "1" else name
