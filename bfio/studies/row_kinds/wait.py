"""Rows that simulate WAIT, Nested WAIT or a baseline on one engine whose requests pass stages."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from bfio.common.options import (
    POSITIVE,
    TEXT,
    CheckedOptions,
    from_mapping,
    names_of,
    option,
    whole,
)
from bfio.common.plugins import call_check
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, described_metrics, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments, algorithm_digest, digest_of, refused
from bfio.studies.row_parts.wait_offer import (
    OFFER_ARGUMENTS,
    multiplied,
    offered_load,
    probability_of,
    stage_offer,
    total_rate,
)
from bfio.wait.chains import ThresholdPolicy
from bfio.wait.policy import StagePolicy
from bfio.wait.registry import BUILT_IN, NoThresholdsError, build
from bfio.wait.replay import violations
from bfio.wait.run import METRICS, StageRun
from bfio.wait.simulation import ServeOptions, serve
from formulations.errors import InputError
from formulations.fluid import FluidObjective, FluidProblem, equilibrium, knapsack, work_rate
from formulations.thresholds import (
    NestedProblem,
    ThresholdProblem,
    WaitProblem,
    batch_time,
    policy_memory,
    safety_buffer,
    threshold_violations,
)

THRESHOLD_VALUES = descriptions(
    """
    thresholds | | prompts per stage of each class or segment
    policy_memory | tokens | full batch of the thresholds, M(n)
    policy_memory_share | 1 | `policy_memory` / memory
    policy_batch_s | s | duration of the full batch of the thresholds
    conditions_hold | | whether (9) or (10) holds strictly at the offered rates
    memory_bound | tokens | memory that suffices with the given probability
    peak_over_bound | 1 | peak memory / `memory_bound`
    exceeds_bound | | whether the peak memory exceeds `memory_bound`
    """
)


@dataclass(frozen=True)
class StagePolicyOptions(CheckedOptions):
    """Arguments of the policy, and the load for which its thresholds are derived.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    policy: str | None = option(
        None,
        TEXT,
        "NAME",
        "`wait`, `nested-wait`, `new-first`, `ongoing-first`, `fcfs` with options behind colons, "
        "or `module:function`",
    )
    limit: int | None = option(
        None,
        whole(1, 10**9),
        "B",
        "largest number of prompts in a batch; replaces the policy's option `limit`",
    )
    design_load: Fraction | None = option(
        None,
        POSITIVE,
        "LOAD",
        "thresholds are derived for this load if more is offered: at `d1·A >= 1` none exist "
        "(without it such a row is refused)",
    )


def policy_of(given: Arguments, known: FluidProblem) -> tuple[str, StagePolicy]:
    """Return the name of the policy with all options, and the policy for the classes it knows.

    If the classes offer more than ``design_load``, the thresholds are derived for ``design_load``.
    Above the largest load that can be served no thresholds exist.

    Parameters
    ----------
    given : Arguments
        Arguments of the row.
    known : FluidProblem
        The classes that the policy knows, at the rates that are offered.

    Raises
    ------
    InputError
        If the policy does not exist, or has no valid thresholds.
    """
    asked = from_mapping(StagePolicyOptions, given.given)
    if asked.policy is None:
        raise refused("policy", "missing", 'give one, e.g. "wait"')
    text, most = given.with_options(asked.policy, "limit"), asked.design_load or Fraction(0)
    # Built-in policies have no state and can be shared by rows. Users' own policies are built per
    # row.
    is_built_in = text.partition(":")[0] in BUILT_IN
    make = _shared if is_built_in else _built
    return text, make(text, known, most)


def _built(text: str, known: FluidProblem, most: Fraction) -> StagePolicy:
    load = offered_load(known)
    try:
        return build(text, multiplied(known, most / load) if 0 < most < load else known)
    except NoThresholdsError as error:
        now = f"design_load {most}" if 0 < most < load else f"load {float(load):.6g}"
        remedy = "set design_load to less, e.g. 0.9, or list thresholds"
        raise refused("policy", f"{text}: {error.what} at {now}", remedy) from None


_shared = lru_cache(maxsize=512)(_built)


@dataclass(frozen=True)
class ThresholdFacts:
    """The thresholds of WAIT or Nested WAIT and their stability condition.

    Parameters
    ----------
    problem : ThresholdProblem
        Condition (9) or (10), strict, at the offered rates.
    thresholds : tuple of int
        One threshold per class or segment.
    """

    problem: ThresholdProblem
    thresholds: tuple[int, ...]

    @property
    def memory(self) -> int:
        """``M(n)``, the memory of a full batch [tokens]."""
        return policy_memory(self.problem.weights, self.thresholds)

    def values(self) -> dict[str, Value]:
        """Return the row values that describe the thresholds."""
        worker = self.problem.conditions.worker
        return {
            "thresholds": ",".join(map(str, self.thresholds)),
            "policy_memory": self.memory,
            "policy_memory_share": self.memory / worker.memory,
            "policy_batch_s": float(batch_time(worker, self.problem.weights, self.thresholds)),
            "conditions_hold": not threshold_violations(self.problem, self.thresholds),
        }

    def memory_bound(self, duration: Fraction, probability: Fraction) -> int | None:
        """Return a memory [tokens] that suffices with probability 1 − δ; None if unknown.

        WAIT never holds more than a full batch. Nested WAIT also needs the buffer of (12).
        """
        if not isinstance(self.problem, NestedProblem):
            return self.memory
        buffer = safety_buffer(
            self.problem, self.thresholds, duration=duration, probability=probability
        )
        return buffer.total


def threshold_facts(policy: StagePolicy, known: FluidProblem) -> ThresholdFacts | None:
    """Return the thresholds of a policy; None if it has none, or none for the known classes."""
    if not isinstance(policy, ThresholdPolicy):
        return None
    thresholds = [n for chain in policy.chains for n in chain.thresholds]
    ends = [chain.ends for chain in policy.chains]
    problem: ThresholdProblem
    try:
        if policy.kinds is not None:
            problem = WaitProblem(known, strict=True)
        elif policy.prompts is not None:
            problem = NestedProblem.from_fluid(known).with_segments(ends)
        else:
            problem = NestedProblem.single_from_fluid(known, ends[0])
    except InputError:
        # Explicit segments fit no problem if prompts differ or the longest output is another one.
        return None
    return ThresholdFacts(problem, tuple(thresholds))


RUN_VALUES = described_metrics(METRICS) + descriptions(
    """
    verdict | | how the run ended
    open_share | share | share of the arrived requests not completed at the end of observation
    left_out | requests | requests left out because a single one exceeds the memory
    peak_memory_share | 1 | peak memory / memory; above 1 the run is infeasible
    mean_memory_share | 1 | mean tokens in the cache while batches ran / memory
    overflow_share | share | share of the batches that needed more than the memory
    unscaled_gap | 1/s | gap on the time scale before scaling by ζ
    unscaled_latency_mean_s | s | mean latency on the time scale before scaling by ζ
    unscaled_ttft_mean_s | s | mean TTFT on the time scale before scaling by ζ
    """
)
FLUID_VALUES = descriptions(
    """
    fluid_throughput | 1/s | most stages that the fluid model serves within the memory
    fluid_decode_throughput | 1/s | most output tokens served by the fluid model within the memory
    throughput_share | 1 | served stages / `fluid_throughput`
    decode_throughput_share | 1 | served output tokens / `fluid_decode_throughput`
    rate_per_s | 1/s | arrivals per second at the offered load
    offered_load | 1 | work per second / work that a full memory serves per second, A/K
    work_load | 1 | work per second times the time per token, d1·A
    equilibrium_memory | tokens | memory of the fluid equilibrium; None from a work load of 1 on
    equilibrium_batch_s | s | iteration time of the fluid equilibrium
    """
)
#: Metrics of a run that are proportional to 1/ζ.
_TIMES = ("latency_mean_s", "ttft_mean_s")


def run_values(run: StageRun) -> dict[str, Value]:
    """Return the metrics of a run with their intervals, and derived shares."""
    measured, memory = METRICS.measure(run), run.instance.memory
    requests, mean_memory = int(np.count_nonzero(run.arrived)), measured["mean_memory"]
    still_open = requests - int(np.count_nonzero(run.is_completed))
    return {
        **measured,
        **{f"{name}.half_width": width for name, width in METRICS.half_widths(run).items()},
        "verdict": run.verdict.value,
        "open_share": still_open / requests if requests else None,
        "peak_memory_share": run.peak_memory / memory,
        "mean_memory_share": None if mean_memory is None else mean_memory / memory,
        "overflow_share": run.overflows / len(run.batches) if len(run.batches) else None,
    }


def fluid_values(offered: FluidProblem, run: StageRun) -> dict[str, Value]:
    """Return the fluid optimum, and the throughput of the run as a share of it.

    The optimum is that of the throughput program: the largest number of stages, or output tokens,
    per second over all admitted rates whose equilibrium fits the memory. It equals the offered
    throughput if all requests fit.
    """
    values = dict(_fluid_values(offered))
    for name in ("throughput", "decode_throughput"):
        best = values[f"fluid_{name}"]
        attained = run.throughput(decode=name.startswith("decode"))
        values[f"{name}_share"] = attained / best if isinstance(best, float) and best else None
    return values


# A trace with thousands of distinct requests gives one problem that many rows share.
@lru_cache(maxsize=64)
def _fluid_values(offered: FluidProblem) -> Mapping[str, Value]:
    worker = offered.single_worker()
    load = worker.d1 * work_rate(offered.classes)
    state = equilibrium(offered.classes, worker) if load < 1 else None
    best = {
        objective: float(knapsack(offered, objective=objective).value or 0)
        for objective in FluidObjective
    }
    return {
        "rate_per_s": float(total_rate(offered)),
        "offered_load": float(offered_load(offered)),
        "work_load": float(load),
        "equilibrium_memory": None if state is None else float(state.memory),
        "equilibrium_batch_s": None if state is None else float(state.iteration_time),
        "fluid_throughput": best[FluidObjective.STAGES],
        "fluid_decode_throughput": best[FluidObjective.DECODE],
    }


def unscaled_values(run: StageRun, scale: Fraction) -> dict[str, Value]:
    """Return gap, latency and TTFT of the problem before its rates were multiplied by ζ.

    The gap of the run is divided by ζ, and its times are multiplied by ζ.
    """
    summary, zeta = run.summary(), float(scale)
    times = {name: summary[name] for name in _TIMES}
    return {
        "unscaled_gap": summary["gap"] / zeta,
        **{f"unscaled_{k}": None if v is None else v * zeta for k, v in times.items()},
    }


DEFAULT_BATCHES = 10_000_000
ARGUMENTS = (*OFFER_ARGUMENTS, *names_of(StagePolicyOptions, ServeOptions), "probability")


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    offer = stage_offer(given, context)
    name, policy = policy_of(given, offer.known)
    call_check(policy, name, offer.samples())
    batches = given.whole("batches", DEFAULT_BATCHES, minimum=1)
    options = from_mapping(ServeOptions, given.given, batches=batches)
    probability = probability_of(given)

    def compute() -> RowResult:
        run = serve(offer.draw(), policy, name=name, options=options)
        facts = threshold_facts(policy, offer.known)
        return RowResult(
            values={
                **run_values(run),
                **fluid_values(offer.offered(), run),
                **unscaled_values(run, offer.scale),
                **_threshold_values(facts, probability, run),
                "left_out": offer.left_out,
            },
            violations=violations(run) | _beyond_full_batch(facts, run),
        )

    return Planned(digest_of(offer.digest, algorithm_digest(name)), compute)


def _threshold_values(
    facts: ThresholdFacts | None, probability: Fraction | None, run: StageRun
) -> dict[str, Value]:
    values: dict[str, Value] = dict.fromkeys(entry.name for entry in THRESHOLD_VALUES)
    if facts is None:
        return values
    values |= facts.values()
    observed = Fraction(run.observed, run.instance.clock.units_per_second)
    if probability is None or observed == 0:
        return values
    if (bound := facts.memory_bound(observed, probability)) is not None:
        values["memory_bound"] = bound
        values["peak_over_bound"] = run.peak_memory / bound
        values["exceeds_bound"] = run.peak_memory > bound
    return values


def _beyond_full_batch(facts: ThresholdFacts | None, run: StageRun) -> dict[str, int]:
    """Return by how many tokens a WAIT run exceeded its full batch, a violation."""
    if facts is None or not isinstance(facts.problem, WaitProblem):
        return {}
    excess = run.peak_memory - facts.memory
    return {"full_batch": excess} if excess > 0 else {}


KIND = planned_kind(
    "wait",
    "simulation of WAIT, Nested WAIT or FCFS on one engine in stages",
    plan,
    [*RUN_VALUES, *FLUID_VALUES, *THRESHOLD_VALUES],
)
