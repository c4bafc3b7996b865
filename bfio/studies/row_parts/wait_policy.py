"""The policy of a row about one engine, and what theory says of its thresholds."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from bfio.common.options import (
    RATIONAL,
    TEXT,
    CheckedOptions,
    checked,
    from_mapping,
    option,
    whole,
)
from bfio.studies.row import Value
from bfio.studies.row_kind import descriptions
from bfio.studies.row_parts.arguments import Arguments
from bfio.studies.row_parts.wait_classes import multiplied, offered_load
from bfio.wait.chains import ThresholdPolicy
from bfio.wait.policy import StagePolicy
from bfio.wait.registry import BUILT_IN, NoThresholdsError, build
from formulations.errors import InputError
from formulations.fluid import FluidProblem
from formulations.rationals import exact_number
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
    policy_memory_share | 1 | full batch of the thresholds over the memory
    policy_batch_s | s | duration of the full batch of the thresholds
    conditions_hold | | whether (9) or (10) holds strictly at the offered rates
    memory_bound | tokens | memory that suffices with the asked probability
    peak_over_bound | 1 | peak memory over that bound
    exceeds_bound | | whether the peak exceeds that bound
    """
)


def _load(value: object, name: str) -> Fraction:
    if (load := exact_number(value, name)) == 0:
        raise InputError(name, "0 is out of range", "use a number > 0")
    return load


@dataclass(frozen=True)
class StagePolicyOptions(CheckedOptions):
    """The policy of a row, and what it is built for.

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
        "prompts in a batch: the option of that name, as an axis of its own",
    )
    design_load: Fraction | None = option(
        None,
        checked(RATIONAL, _load),
        "LOAD",
        "thresholds are derived for this load if more is offered: at `d1·A >= 1` none exist "
        "(without it such a row is refused)",
    )


@dataclass(frozen=True)
class PolicyPlan:
    """A policy that is fully decided.

    Parameters
    ----------
    text : str
        Its name with all options.
    policy : StagePolicy
        The policy.
    known : FluidProblem
        The classes it knows, at the rates that are offered.
    """

    text: str
    policy: StagePolicy
    known: FluidProblem


def policy_plan(given: Arguments, known: FluidProblem) -> PolicyPlan:
    """Build the policy for what it knows.

    With ``design_load`` it is built as if its classes offered that load where they offer more: at
    a load beyond what can be served no thresholds keep up.

    Parameters
    ----------
    given : Arguments
        Those of the row.
    known : FluidProblem
        The classes that the policy knows, at the rates that are offered.

    Raises
    ------
    InputError
        If it does not exist, or no thresholds do.
    """
    asked = from_mapping(StagePolicyOptions, given.given)
    if asked.policy is None:
        raise InputError("argument policy", "missing", 'give one, e.g. "wait"')
    text, most = given.with_options(asked.policy, "limit"), asked.design_load or Fraction(0)
    # Built-in policies have no state, so that rows may share them; a user's own is made anew.
    is_built_in = text.partition(":")[0] in BUILT_IN
    make = _shared if is_built_in else _built
    return PolicyPlan(text, make(text, known, most), known)


def _built(text: str, known: FluidProblem, most: Fraction) -> StagePolicy:
    load = offered_load(known)
    try:
        return build(text, multiplied(known, most / load) if 0 < most < load else known)
    except NoThresholdsError as error:
        now = f"design_load {most}" if 0 < most < load else f"load {float(load):.6g}"
        remedy = "set design_load to less, e.g. 0.9, or list thresholds"
        raise InputError("argument policy", f"{text}: {error.what} at {now}", remedy) from None


_shared = lru_cache(maxsize=512)(_built)


@dataclass(frozen=True)
class ThresholdFacts:
    """The thresholds of WAIT or Nested WAIT, and the conditions that they are to meet.

    Parameters
    ----------
    problem : ThresholdProblem
        Condition (9) or (10), strictly, at the rates that are offered.
    thresholds : tuple of int
        Per stage of each class or segment.
    """

    problem: ThresholdProblem
    thresholds: tuple[int, ...]

    @property
    def memory(self) -> int:
        """``M(n)``, the full batch [tokens]."""
        return policy_memory(self.problem.weights, self.thresholds)

    def values(self) -> dict[str, Value]:
        """Return what a row says of thresholds."""
        worker = self.problem.conditions.worker
        return {
            "thresholds": ",".join(map(str, self.thresholds)),
            "policy_memory": self.memory,
            "policy_memory_share": self.memory / worker.memory,
            "policy_batch_s": float(batch_time(worker, self.problem.weights, self.thresholds)),
            "conditions_hold": not threshold_violations(self.problem, self.thresholds),
        }

    def memory_bound(self, duration: Fraction, probability: Fraction) -> int | None:
        """Return the memory that suffices with probability 1 − δ; None if none is known.

        WAIT never holds more than the full batch; Nested WAIT needs the buffer of (12) as well.
        """
        if not isinstance(self.problem, NestedProblem):
            return self.memory
        buffer = safety_buffer(
            self.problem, self.thresholds, duration=duration, probability=probability
        )
        return buffer.total


def threshold_facts(plan: PolicyPlan) -> ThresholdFacts | None:
    """Return the thresholds of a plan; None for a policy without, or not for these classes."""
    policy = plan.policy
    if not isinstance(policy, ThresholdPolicy):
        return None
    thresholds = [n for chain in policy.chains for n in chain.thresholds]
    ends = [chain.ends for chain in policy.chains]
    problem: ThresholdProblem
    try:
        if policy.kinds is not None:
            problem = WaitProblem(plan.known, strict=True)
        elif policy.prompts is not None:
            problem = NestedProblem.from_fluid(plan.known).with_segments(ends)
        else:
            problem = NestedProblem.single_from_fluid(plan.known, ends[0])
    except InputError:
        # Segments written out fit no problem if prompts differ or outputs end elsewhere.
        return None
    return ThresholdFacts(problem, tuple(thresholds))
