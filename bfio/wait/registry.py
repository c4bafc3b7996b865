"""Build policies by name, with options and thresholds derived from the request classes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from bfio.common.options import (
    EXACT,
    TEXT,
    CheckedOptions,
    Named,
    by_name,
    option,
    read_named,
    whole,
)
from bfio.common.plugins import load_callable
from bfio.wait.chains import Chain, grouped_policy, nested_policy, wait_policy
from bfio.wait.fcfs import Favour, FirstComeFirstServed
from bfio.wait.policy import StagePolicy
from formulations.arrays import integer
from formulations.errors import CapabilityError, InputError, check_kind
from formulations.fluid import FluidProblem
from formulations.scalars import MAX_TOKENS
from formulations.thresholds import (
    BatchRule,
    NestedProblem,
    ThresholdProblem,
    WaitProblem,
    batch_limit_thresholds,
    corrected_batch_limit_thresholds,
    equal_boundaries,
    nested_batch_limit_thresholds,
    solve,
    whole_thresholds,
)

_THRESHOLDS = (
    "rule `strict`, `least`, `printed`, `balanced` or `corrected`, or a list such as `2,2`"
)
_LIMIT = "maximum prompts in a batch; `printed`, `balanced` and `corrected` thresholds divide it"
#: Maximum digits of an integer in a list, so that it fits into 64 bits.
_MAX_DIGITS = 18


class NoThresholdsError(InputError):
    """Error for rates that are too high, or too close to the limit, for any thresholds."""


class Recipe(ABC):
    """Options of a policy, from which the policy is built."""

    @abstractmethod
    def policy(self, problem: FluidProblem) -> StagePolicy:
        """Return the policy for the classes and the worker of a problem.

        Raises
        ------
        InputError
            If options contradict each other or the classes, or no feasible thresholds exist.
        """


@dataclass(frozen=True)
class Thresholds(Recipe, CheckedOptions):
    """Options of the thresholds of WAIT and Nested WAIT.

    Parameters
    ----------
    thresholds : str
        A rule, or a list of thresholds.
    limit : int, optional
        Prompts of a batch, which some rules divide among the thresholds.

    Raises
    ------
    InputError
        If an option is invalid.
    """

    thresholds: str
    limit: int | None = option(None, whole(1, MAX_TOKENS), "B", _LIMIT)

    #: All rules, and those that divide a limit.
    rules: ClassVar[tuple[str, ...]] = ()
    dividing: ClassVar[tuple[str, ...]] = ()

    def needed_limit(self) -> int:
        """Return the limit of a rule that requires one."""
        if self.limit is None:
            what = f"thresholds={self.thresholds} needs a limit of prompts per batch"
            raise InputError("limit", what, "add limit=B")
        return self.limit

    def refuse_unused(self) -> None:
        """Raise an error for an unknown rule, or for a limit that the rule does not use."""
        rule = self.thresholds
        if not self.is_list() and rule not in self.rules:
            remedy = f"use {', '.join(self.rules)}, or a list"
            raise InputError("thresholds", f"{rule!r} is unknown", remedy)
        if self.limit is not None and rule not in self.dividing:
            raise InputError("limit", f"thresholds={rule} has no limit", "omit limit")

    def is_list(self) -> bool:
        """Whether thresholds are given as a list."""
        return self.thresholds[:1].isdigit()


@dataclass(frozen=True)
class Wait(Thresholds):
    """Options of WAIT, for known output lengths.

    Parameters
    ----------
    thresholds, limit
        See `Thresholds`.
    """

    thresholds: str = option("strict", TEXT, "RULE", _THRESHOLDS)

    rules = ("strict", "least", "printed", "balanced")
    dividing = ("printed", "balanced")

    def policy(self, problem: FluidProblem) -> StagePolicy:
        """Return the policy for the classes and the worker of a problem."""
        self.refuse_unused()
        rule = self.thresholds
        if rule in self.dividing:
            limit = self.needed_limit()
            shares = batch_limit_thresholds(problem.classes, limit, BatchRule(rule))
            return wait_policy(problem.classes, whole_thresholds(shares))
        if self.is_list():
            return wait_policy(problem.classes, _integers(rule, "thresholds"))
        return wait_policy(problem.classes, _least(WaitProblem(problem, strict=rule == "strict")))


@dataclass(frozen=True)
class NestedWait(Thresholds):
    """Options of Nested WAIT, for unknown output lengths.

    Parameters
    ----------
    thresholds, limit
        See `Thresholds`.
    segments : str
        ``all``, a number of segments, or their last stages.
    slack : Fraction
        Amount by which corrected thresholds exceed the requirement of the drift.
    groups : str
        ``one`` chain for all requests, or a chain for each of the ``prompts``.
    """

    thresholds: str = option("least", TEXT, "RULE", _THRESHOLDS)
    segments: str = option(
        "all",
        TEXT,
        "L",
        "`all` (one per output length), a number, or their last stages such as `50,100`",
    )
    slack: Fraction = option(
        Fraction(0),
        EXACT,
        "S",
        "excess of `corrected` thresholds over the drift requirement",
    )
    groups: str = option(
        "one",
        TEXT,
        "G",
        "`one` chain of segments for all requests, or one chain per prompt length (`prompts`)",
    )

    rules = ("least", "printed", "corrected")
    dividing = ("printed", "corrected")

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        super().__post_init__()
        if self.groups not in ("one", "prompts"):
            raise InputError("groups", f"{self.groups!r} is unknown", "use one or prompts")

    def policy(self, problem: FluidProblem) -> StagePolicy:
        """Return the policy for the classes and the worker of a problem."""
        self.refuse_unused()
        if self.groups == "prompts":
            return self._grouped(problem)
        if self.is_list() and "," in self.segments:
            # Thresholds and segments are both given, so the classes need not be known.
            ends = _integers(self.segments, "segments")
            return nested_policy(ends, _integers(self.thresholds, "thresholds"))
        prompts = {kind.prompt for kind in problem.classes}
        if len(prompts) > 1:
            what = f"{len(prompts)} prompt lengths, but nested-wait has one chain"
            remedy = "use nested-wait:groups=prompts, or list thresholds and segments"
            raise InputError("classes", what, remedy)
        nested = self._segmented(NestedProblem.single_from_fluid(problem))
        return nested_policy(nested.group.ends, self._thresholds_of(nested))

    def refuse_unused(self) -> None:
        """Raise an error for an unknown rule, or for a limit or slack that it does not use."""
        super().refuse_unused()
        if self.slack and self.thresholds != "corrected":
            what = f"thresholds={self.thresholds} has no slack"
            raise InputError("slack", what, "omit slack, or use thresholds=corrected")

    def _thresholds_of(self, nested: NestedProblem) -> tuple[int, ...]:
        rule = self.thresholds
        if rule == "printed":
            return whole_thresholds(nested_batch_limit_thresholds(nested, self.needed_limit()))
        if rule == "corrected":
            return corrected_batch_limit_thresholds(nested, self.needed_limit(), self.slack)
        return _integers(rule, "thresholds") if self.is_list() else _least(nested)

    def _segmented(self, nested: NestedProblem) -> NestedProblem:
        if self.segments == "all":
            return nested
        ends = _integers(self.segments, "segments")
        if len(ends) == 1:
            number = integer(ends[0], "segments", minimum=1)
            ends = equal_boundaries(nested.group.outputs, number)
        return nested.with_boundaries(ends)

    def _grouped(self, problem: FluidProblem) -> StagePolicy:
        if self.thresholds != "least" or self.segments != "all":
            raise InputError(
                "groups", "groups=prompts excludes thresholds and segments", "omit both"
            )
        grouped = NestedProblem.from_fluid(problem)
        thresholds = iter(_least(grouped))
        return grouped_policy(
            {
                group.prompt: Chain(group.ends, tuple(next(thresholds) for _ in group.ends))
                for group in grouped.groups
            }
        )


@dataclass(frozen=True)
class FirstCome(Recipe):
    """Options of FCFS without limits on a batch."""

    def policy(self, problem: FluidProblem) -> StagePolicy:
        """Return the policy for the classes and the worker of a problem."""
        return FirstComeFirstServed()


@dataclass(frozen=True)
class OngoingFirst(Recipe, CheckedOptions):
    """Options of FCFS with limits in which started requests have priority.

    Parameters
    ----------
    limit, tokens : int
        See `FirstComeFirstServed`.
    """

    limit: int = option(0, whole(0, MAX_TOKENS), "B", _LIMIT)
    tokens: int = option(0, whole(0, MAX_TOKENS), "X", "maximum tokens in a batch; 0: no limit")

    def policy(self, problem: FluidProblem) -> StagePolicy:
        """Return the policy for the classes and the worker of a problem."""
        return FirstComeFirstServed(Favour.ONGOING, self.limit, self.tokens)


@dataclass(frozen=True)
class NewFirst(OngoingFirst):
    """Options of FCFS with limits in which new requests have priority.

    Parameters
    ----------
    limit, tokens, mixed
        See `FirstComeFirstServed`.
    """

    mixed: str = option(
        "yes", TEXT, "yes|no", "`no`: a batch with prefills contains no other stages"
    )

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        super().__post_init__()
        if self.mixed not in ("yes", "no"):
            raise InputError("mixed", f"{self.mixed!r} is unknown", "use yes or no")

    def policy(self, problem: FluidProblem) -> StagePolicy:
        """Return the policy for the classes and the worker of a problem."""
        return FirstComeFirstServed(Favour.NEW, self.limit, self.tokens, self.mixed == "yes")


def _integers(text: str, where: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InputError(where, f"{text!r} is not a list of integers >= 0", "write e.g. 2,2")
    if long := [part for part in parts if len(part) > _MAX_DIGITS]:
        raise InputError(where, f"{long[0]:.40} is too large", f"use at most {_MAX_DIGITS} digits")
    return tuple(int(part) for part in parts)


def _least(problem: ThresholdProblem) -> tuple[int, ...]:
    remedy = "lower the rates, or list thresholds"
    try:
        result = solve(problem)
    except CapabilityError as error:
        raise NoThresholdsError("classes", f"{error.where} {error.what}", remedy) from None
    if result.thresholds is None:
        raise NoThresholdsError("classes", "no thresholds can process all arrivals", remedy)
    return result.thresholds


#: Built-in policies, each derived from its options and the classes.
BUILT_IN: dict[str, Named[Recipe]] = by_name(
    Named[Recipe](
        "wait",
        "starts a class once its threshold of requests waits; output lengths known",
        "fluid paper, Algorithm 1",
        Wait(),
    ),
    Named[Recipe](
        "nested-wait",
        "one threshold per segment of stages; output lengths unknown",
        "fluid paper, Algorithm 2, sections 5 and 7.2",
        NestedWait(),
    ),
    Named[Recipe](
        "new-first",
        "order of arrival, prefills first within the limits of a batch",
        "fluid paper, section 6, vLLM-like",
        NewFirst(),
    ),
    Named[Recipe](
        "ongoing-first",
        "order of arrival, ongoing requests first within the limits of a batch",
        "fluid paper, section 6, Sarathi-like",
        OngoingFirst(),
    ),
    Named[Recipe](
        "fcfs",
        "order of arrival as far as the memory permits, without other limits",
        "fluid paper, proposition 4",
        FirstCome(),
    ),
)


def check(text: str) -> None:
    """Raise an error if a text names no policy, or an option is unknown.

    Raises
    ------
    InputError
        See `build`, except for errors that depend on the requests.
    """
    if read_named(text, BUILT_IN, "policy") is None:
        load_callable(text, "policy")


def build(text: str, problem: FluidProblem) -> StagePolicy:
    """Return the policy given as ``name:option=value:...`` or ``module:function``.

    Parameters
    ----------
    text : str
        Name and options of the policy.
    problem : FluidProblem
        Classes and worker from which thresholds are derived.

    Raises
    ------
    InputError
        If the name or an option is unknown, a value is invalid, a module cannot be loaded, or no
        feasible thresholds exist.
    """
    check_kind(problem, FluidProblem, "problem", "build(text, FluidProblem(...))")
    recipe = read_named(text, BUILT_IN, "policy")
    if recipe is not None:
        return recipe.policy(problem)
    policy: StagePolicy = load_callable(text, "policy")
    return policy
