"""Rows that serve requests on one engine in stages: WAIT, Nested WAIT, and their baselines."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from bfio.common.users_code import call_check
from bfio.studies.row import Context, RowResult, Value
from bfio.studies.row_kind import RowKind
from bfio.studies.row_kinds.arguments import Arguments
from bfio.studies.row_kinds.cache_arguments import algorithm_digest
from bfio.studies.row_kinds.wait_offer import (
    OFFER_ARGUMENTS,
    StageOffer,
    digest_of,
    horizon_of,
    probability_of,
    stage_offer,
)
from bfio.studies.row_kinds.wait_policy import (
    POLICY_ARGUMENTS,
    PolicyPlan,
    ThresholdFacts,
    policy_plan,
    threshold_facts,
)
from bfio.studies.row_kinds.wait_values import fluid_values, run_values, unscaled_values
from bfio.wait.replay import violations
from bfio.wait.run import StageRun
from bfio.wait.simulation import serve
from formulations.thresholds import WaitProblem

DEFAULT_BATCHES = 10_000_000
ARGUMENTS = (
    *OFFER_ARGUMENTS, *POLICY_ARGUMENTS, "drain", "batches", "probability",
)  # fmt: skip


@dataclass(frozen=True)
class WaitPlan:
    """A row that is fully decided.

    Parameters
    ----------
    offer : StageOffer
        What arrives.
    policy : PolicyPlan
        Who serves it.
    horizon : Fraction, optional
        End of the observation [s]; by default the run goes on until nothing is left to do.
    drain : bool, optional
        Whether thresholds are ignored after the last arrival; by default without a horizon.
    batches : int
        Give up after so many.
    probability : Fraction, optional
        ``δ`` of the memory bound.
    """

    offer: StageOffer
    policy: PolicyPlan
    horizon: Fraction | None
    drain: bool | None
    batches: int
    probability: Fraction | None


def compute(arguments: Mapping[str, Any], context: Context) -> RowResult:
    """Serve the requests; see ``docs/row-kinds.md`` for arguments and values."""
    plan = _plan(Arguments(arguments, ARGUMENTS), context)
    run = serve(
        plan.offer.draw(),
        plan.policy.policy,
        name=plan.policy.text,
        horizon_s=plan.horizon,
        drain=plan.drain,
        batches=plan.batches,
    )
    facts = threshold_facts(plan.policy)
    return RowResult(
        values={
            **run_values(run),
            **fluid_values(plan.offer.offered(), run),
            **unscaled_values(run, plan.offer.scale),
            **_threshold_values(facts, plan.probability, run),
            "left_out": plan.offer.left_out,
        },
        violations=violations(run) | _beyond_full_batch(facts, run),
    )


def _threshold_values(
    facts: ThresholdFacts | None, probability: Fraction | None, run: StageRun
) -> dict[str, Value]:
    names = ("thresholds", "policy_memory", "policy_memory_share", "policy_batch_s")
    values: dict[str, Value] = dict.fromkeys((*names, "conditions_hold"))
    values |= dict.fromkeys(("memory_bound", "peak_over_bound", "exceeds_bound"))
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


def _plan(given: Arguments, context: Context) -> WaitPlan:
    offer = stage_offer(given, context)
    policy = policy_plan(given, offer.known)
    call_check(policy.policy, policy.text, offer.samples())
    return WaitPlan(
        offer=offer,
        policy=policy,
        horizon=horizon_of(given),
        drain=given.flag("drain") if given.has("drain") else None,
        batches=given.whole("batches", DEFAULT_BATCHES, minimum=1),
        probability=probability_of(given),
    )


def instance(arguments: Mapping[str, Any], context: Context) -> str:
    """Check all arguments and return the digest of classes or trace."""
    plan = _plan(Arguments(arguments, ARGUMENTS), context)
    return digest_of(plan.offer.digest, algorithm_digest(plan.policy.text))


KIND = RowKind(
    name="wait",
    summary="one policy on one engine in stages: WAIT, Nested WAIT or first come, first served",
    compute=compute,
    instance=instance,
)
