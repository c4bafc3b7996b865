"""Names to policies: WAIT, Nested WAIT, the baselines, and a user's own ``module:function``."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from bfio.common.option_text import MAX_DIGITS, NamedSpec, SpecTable, whole_option
from bfio.wait.chains import Chain, grouped_policy, nested_policy, wait_policy
from bfio.wait.fcfs import Favour, FirstComeFirstServed
from bfio.wait.policy import StagePolicy
from formulations.errors import CapabilityError, InputError
from formulations.fluid import FluidProblem
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

Options: TypeAlias = Mapping[str, str]
Factory: TypeAlias = Callable[[FluidProblem, Options], StagePolicy]


class NoThresholdsError(InputError):
    """Classes whose rates are too high, or too close to the limit, for any thresholds."""


def names() -> list[str]:
    """Names of the built-in policies, sorted."""
    return _TABLE.names()


def specs() -> list[NamedSpec[Factory]]:
    """Describe every built-in policy, sorted by name."""
    return _TABLE.specs()


def build(text: str, problem: FluidProblem) -> StagePolicy:
    """Make a policy for what arrives, see `SpecTable.build`.

    Parameters
    ----------
    text : str
        The policy.
    problem : FluidProblem
        Classes and worker, from which thresholds follow.

    Raises
    ------
    InputError
        As there, or if no thresholds exist.
    """
    policy: StagePolicy = _TABLE.build(text, lambda factory, options: factory(problem, options))
    return policy


def _integers(text: str, where: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InputError(where, f"{text!r} is no list of integers", "write e.g. 2,2")
    if long := [part for part in parts if len(part) > MAX_DIGITS]:
        raise InputError(where, f"{long[0]:.40} is too large", f"use at most {MAX_DIGITS} digits")
    return tuple(int(part) for part in parts)


def _is_list(text: str) -> bool:
    return text[:1].isdigit()


def _limit(options: Options) -> int:
    if not options["limit"]:
        rule = options["thresholds"]
        raise InputError("limit", f"thresholds={rule} share a limit", "write limit=B as well")
    return whole_option(options, "limit", minimum=1)


def _no_limit(options: Options) -> None:
    if options["limit"]:
        raise InputError("limit", f"thresholds={options['thresholds']} have none", "leave it out")


def _least(problem: ThresholdProblem) -> tuple[int, ...]:
    remedy = "lower the rates, or list thresholds"
    try:
        result = solve(problem)
    except CapabilityError as error:
        raise NoThresholdsError("classes", f"{error.where} {error.what}", remedy) from None
    if result.thresholds is None:
        raise NoThresholdsError("classes", "no thresholds keep up", remedy)
    return result.thresholds


def _unknown_rule(options: Options, known: str) -> InputError:
    return InputError("thresholds", f"{options['thresholds']!r} is unknown", f"use {known}")


def _wait(problem: FluidProblem, options: Options) -> StagePolicy:
    rule = options["thresholds"]
    if rule in ("printed", "balanced"):
        shares = batch_limit_thresholds(problem.classes, _limit(options), BatchRule(rule))
        return wait_policy(problem.classes, whole_thresholds(shares))
    _no_limit(options)
    if _is_list(rule):
        return wait_policy(problem.classes, _integers(rule, "thresholds"))
    if rule not in ("least", "strict"):
        raise _unknown_rule(options, "strict, least, printed, balanced, or a list")
    return wait_policy(problem.classes, _least(WaitProblem(problem, strict=rule == "strict")))


def _nested(problem: FluidProblem, options: Options) -> StagePolicy:
    if options["groups"] == "prompts":
        return _grouped(problem, options)
    if options["groups"] != "one":
        raise InputError("groups", f"{options['groups']!r} is unknown", "use one or prompts")
    rule = options["thresholds"]
    if _is_list(rule) and "," in options["segments"]:
        # Nothing is to be derived: any requests will do.
        _no_limit(options)
        return nested_policy(
            _integers(options["segments"], "segments"), _integers(rule, "thresholds")
        )
    prompts = {kind.prompt for kind in problem.classes}
    if len(prompts) > 1:
        what = f"{len(prompts)} prompt lengths, and nested-wait makes one chain for all"
        remedy = "write nested-wait:groups=prompts, or list thresholds and segments"
        raise InputError("classes", what, remedy)
    nested = _segmented(NestedProblem.single_from_fluid(problem), options["segments"])
    return nested_policy(nested.group.ends, _nested_thresholds(nested, options))


def _nested_thresholds(nested: NestedProblem, options: Options) -> tuple[int, ...]:
    rule = options["thresholds"]
    if rule == "printed":
        return whole_thresholds(nested_batch_limit_thresholds(nested, _limit(options)))
    if rule == "corrected":
        return corrected_batch_limit_thresholds(nested, _limit(options), options["slack"])
    _no_limit(options)
    if _is_list(rule):
        return _integers(rule, "thresholds")
    if rule != "least":
        raise _unknown_rule(options, "least, printed, corrected, or a list")
    return _least(nested)


def _segmented(nested: NestedProblem, text: str) -> NestedProblem:
    if text == "all":
        return nested
    if "," in text:
        return nested.with_boundaries(_integers(text, "segments"))
    number = whole_option({"segments": text}, "segments", minimum=1)
    return nested.with_boundaries(equal_boundaries(nested.group.outputs, number))


def _grouped(problem: FluidProblem, options: Options) -> StagePolicy:
    if options["thresholds"] != "least" or options["segments"] != "all":
        raise InputError(
            "groups", "groups=prompts has least thresholds and all segments", "leave both out"
        )
    _no_limit(options)
    grouped = NestedProblem.from_fluid(problem)
    thresholds = iter(_least(grouped))
    return grouped_policy(
        {
            group.prompt: Chain(group.ends, tuple(next(thresholds) for _ in group.ends))
            for group in grouped.groups
        }
    )


def _first_come(favour: Favour) -> Callable[[FluidProblem, Options], StagePolicy]:
    def factory(problem: FluidProblem, options: Options) -> StagePolicy:
        mixed = options.get("mixed", "yes")
        if mixed not in ("yes", "no"):
            raise InputError("mixed", f"{mixed!r} is unknown", "use yes or no")
        return FirstComeFirstServed(
            favour, whole_option(options, "limit"), whole_option(options, "tokens"), mixed == "yes"
        )

    return factory


_BATCH_OPTIONS = {"limit": "0", "tokens": "0"}
_TABLE: SpecTable[Factory] = SpecTable(
    "policy",
    (
        NamedSpec(
            "wait",
            "starts a class when a threshold of it wait; lengths known",
            "fluid paper, Algorithm 1",
            {"thresholds": "strict", "limit": ""},
            _wait,
        ),
        NamedSpec(
            "nested-wait",
            "a threshold per segment of stages; lengths unknown",
            "fluid paper, Algorithm 2, sections 5 and 7.2",
            {"thresholds": "least", "segments": "all", "limit": "", "slack": "0", "groups": "one"},
            _nested,
        ),
        NamedSpec(
            "new-first",
            "order of arrival, prefills first within the limits of a batch",
            "fluid paper, section 6, vLLM-like",
            {**_BATCH_OPTIONS, "mixed": "yes"},
            _first_come(Favour.NEW),
        ),
        NamedSpec(
            "ongoing-first",
            "order of arrival, ongoing requests first within the limits of a batch",
            "fluid paper, section 6, Sarathi-like",
            _BATCH_OPTIONS,
            _first_come(Favour.ONGOING),
        ),
        NamedSpec(
            "fcfs",
            "order of arrival whenever the memory permits, no other limit",
            "fluid paper, proposition 4",
            {},
            lambda problem, options: FirstComeFirstServed(),
        ),
    ),
)
