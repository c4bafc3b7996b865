"""Rows that serve requests on one engine in stages: WAIT, Nested WAIT, and their baselines."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from bfio.common.options import from_mapping, names_of
from bfio.common.users_code import call_check
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, planned_kind
from bfio.studies.row_parts.arguments import Arguments, digest_of
from bfio.studies.row_parts.cache_arguments import algorithm_digest
from bfio.studies.row_parts.wait_offer import (
    OFFER_ARGUMENTS,
    probability_of,
    stage_offer,
)
from bfio.studies.row_parts.wait_policy import (
    THRESHOLD_VALUES,
    StagePolicyOptions,
    ThresholdFacts,
    policy_plan,
    threshold_facts,
)
from bfio.studies.row_parts.wait_values import (
    FLUID_VALUES,
    RUN_VALUES,
    fluid_values,
    run_values,
    unscaled_values,
)
from bfio.wait.options import ServeOptions
from bfio.wait.replay import violations
from bfio.wait.run import StageRun
from bfio.wait.simulation import serve
from formulations.thresholds import WaitProblem

DEFAULT_BATCHES = 10_000_000
ARGUMENTS = (*OFFER_ARGUMENTS, *names_of(StagePolicyOptions, ServeOptions), "probability")


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Read the arguments; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    offer = stage_offer(given, context)
    policy = policy_plan(given, offer.known)
    call_check(policy.policy, policy.text, offer.samples())
    batches = given.whole("batches", DEFAULT_BATCHES, minimum=1)
    options = from_mapping(ServeOptions, given.given, batches=batches)
    probability = probability_of(given)

    def compute() -> RowResult:
        run = serve(offer.draw(), policy.policy, name=policy.text, options=options)
        facts = threshold_facts(policy)
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

    return Planned(digest_of(offer.digest, algorithm_digest(policy.text)), compute)


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
    """Return by how much WAIT held more than its full batch, which it never may."""
    if facts is None or not isinstance(facts.problem, WaitProblem):
        return {}
    excess = run.peak_memory - facts.memory
    return {"full_batch": excess} if excess > 0 else {}


KIND = planned_kind(
    "wait",
    "one policy on one engine in stages: WAIT, Nested WAIT or first come, first served",
    plan,
    [*RUN_VALUES, *FLUID_VALUES, *THRESHOLD_VALUES],
)
