"""Results of checks: the verdicts on a claim as printed and as corrected, and their evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from inspect import Parameter, signature
from math import isfinite
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")

#: JSON data, the form in which counterexamples are stored.
Data: TypeAlias = dict[str, Any]

#: Returns why plain data are a counterexample, or None if they are not one. A verifier is
#: independent of the search: it knows only the statement and the data.
Verifier: TypeAlias = Callable[[Data], str | None]


class DismissedError(ValueError):
    """Raised by `dismiss_if` inside a verifier."""


def dismiss_if(excluded: bool) -> None:
    """Leave a verifier: the data break a hypothesis, or do not contradict the statement."""
    if excluded:
        raise DismissedError("no counterexample")


def arguments_of(function: Callable[..., object]) -> list[Parameter]:
    """Return the arguments that a function needs by position."""
    needed = [a for a in signature(function).parameters.values() if a.default is Parameter.empty]
    return [argument for argument in needed if argument.kind is not Parameter.KEYWORD_ONLY]


def verifier(why: Callable[..., str | None]) -> Verifier:
    """Decorate a function that says why data are a counterexample, or dismisses them.

    Its arguments are the entries of the data; a single one called ``data`` is all of them.
    """
    names = [argument.name for argument in arguments_of(why)]

    @wraps(why)
    def verify(data: Data) -> str | None:
        try:
            return why(data) if names == ["data"] else why(*(data[name] for name in names))
        except DismissedError:
            return None

    return verify


class Verdict(StrEnum):
    """Verdict of a check on a statement."""

    HOLDS = "holds"
    REFUTED = "refuted"
    SUPPORTED = "supported"
    NOT_CHECKABLE = "not-checkable"


class Basis(StrEnum):
    """The basis on which a statement holds: proof, complete enumeration, samples or estimates."""

    #: A proof in ``proofs/``, confirmed on instances.
    PROVED = "proved"
    #: All instances up to the size that the evidence states.
    EXHAUSTIVE = "exhaustive"
    #: Random or selected instances, or an estimate.
    SAMPLED = "sampled"


class VacuousCheckError(AssertionError):
    """Raised if no instance meets the hypotheses, so that a verdict would be vacuous."""


class ContradictoryEvidenceError(AssertionError):
    """Raised if evidence contradicts itself or its verdict."""


@dataclass(frozen=True)
class Tally:
    """The numbers of instances on which a check tried a statement.

    Parameters
    ----------
    what : str
        The statement, in a few words.
    made : str
        How the instances were generated.
    tried : int
        Instances generated.
    applied : int
        Instances that meet the hypotheses.
    failed : int
        Instances that meet the hypotheses and violate the statement.
    """

    what: str
    made: str
    tried: int
    applied: int
    failed: int

    def __post_init__(self) -> None:
        """Raise if the counts are inconsistent."""
        if not 0 <= self.failed <= self.applied <= self.tried:
            raise ContradictoryEvidenceError(
                f"{self.what}: {self.failed} of {self.applied} instances fail: inconsistent counts"
            )

    def verdict(self) -> Verdict:
        """Return the verdict of the tally: holds or refuted.

        Raises
        ------
        VacuousCheckError
            If no instance meets the hypotheses.
        """
        if self.applied == 0:
            raise VacuousCheckError(f"{self.what}: no instance meets the hypotheses")
        return Verdict.REFUTED if self.failed else Verdict.HOLDS


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % confidence interval and an acceptance rule fixed beforehand.

    Parameters
    ----------
    name : str
        The estimated quantity, with its unit.
    value, low, high : float
        Estimate and interval.
    samples : int
        Independent samples or points behind it.
    rule : str
        The acceptance rule in words.
    accepted : bool
        Whether the estimate meets the rule.
    """

    name: str
    value: float
    low: float
    high: float
    samples: int
    rule: str
    accepted: bool

    def __post_init__(self) -> None:
        """Raise if value, interval and sample size are inconsistent."""
        if self.samples < 1 or not all(map(isfinite, (self.value, self.low, self.high))):
            raise ContradictoryEvidenceError(
                f"{self.name}: value or interval not finite, or no sample"
            )


@dataclass(frozen=True)
class Counterexample:
    """An instance that meets the hypotheses and violates the statement.

    Parameters
    ----------
    data : dict
        The instance, as plain data; no single move of `proofs_checks.search` can shrink it.
    why : str
        The verifier's description of the violation.
    found : str
        How the search found it, and how many instances it tried.
    """

    data: Data
    why: str
    found: str


@dataclass(frozen=True)
class Examination(Generic[T]):
    """The outcome of trying a statement on instances: counts and failures.

    Parameters
    ----------
    tally : Tally
        Numbers of instances.
    failures : tuple
        The first instances that violate the statement, in the order found.
    counterexamples : tuple of dict
        The failures as plain data, if the check is meant to refute the statement.
    verify : callable, optional
        Verifier of these data.
    found : str
        How the counterexamples were found.
    """

    tally: Tally
    failures: tuple[T, ...]
    counterexamples: tuple[Data, ...] = ()
    verify: Verifier | None = None
    found: str = ""


@dataclass(frozen=True)
class Evidence:
    """The evidence of one check, with its verdicts.

    Parameters
    ----------
    as_printed : Verdict
        Verdict on the statement as its source prints it.
    as_corrected : Verdict, optional
        Verdict on the corrected statement; None if there is no correction.
    summary : str
        One to three sentences for the claim's page: what was found, with numbers.
    tallies : tuple of Tally
        Instances behind exact verdicts.
    estimates : tuple of Estimate
        Numbers behind statistical verdicts.
    numbers : mapping
        Further figures by name.
    counterexample : Counterexample, optional
        Counterexample, if the printed statement is refuted.

    Raises
    ------
    VacuousCheckError
        If there is no evidence: no instance that meets the hypotheses, no estimate and no figure.
    ContradictoryEvidenceError
        If a statement is refuted but no instance fails, or an instance fails but no statement is
        refuted.
    """

    as_printed: Verdict
    as_corrected: Verdict | None = None
    summary: str = ""
    tallies: tuple[Tally, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    counterexample: Counterexample | None = None

    def __post_init__(self) -> None:
        """Raise if a verdict has no evidence, or contradicts the evidence."""
        for tally in self.tallies:
            tally.verdict()
        verdicts = {self.as_printed, self.as_corrected}
        if Verdict.HOLDS in verdicts and not self.tallies:
            raise VacuousCheckError("the verdict is holds, but no instance meets the hypotheses")
        if Verdict.SUPPORTED in verdicts and not self.estimates:
            raise VacuousCheckError("the verdict is supported, but there is no estimate")
        if Verdict.REFUTED in verdicts and not self.tallies + self.estimates:
            raise VacuousCheckError("the verdict is refuted, but there is no evidence")
        fails = any(tally.failed for tally in self.tallies)
        fails = fails or not all(estimate.accepted for estimate in self.estimates)
        if fails != (Verdict.REFUTED in verdicts):
            what = (
                "an instance or estimate fails, but no verdict is refuted"
                if fails
                else "a verdict is refuted, but no instance or estimate fails"
            )
            raise ContradictoryEvidenceError(what)

    @property
    def verdicts(self) -> tuple[Verdict, Verdict | None]:
        """The verdicts on the printed and on the corrected statement."""
        return self.as_printed, self.as_corrected

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document of the evidence, without the verdicts."""
        example = self.counterexample
        return {
            "summary": self.summary,
            "tallies": [vars(tally) for tally in self.tallies],
            "estimates": [vars(estimate) for estimate in self.estimates],
            "numbers": dict(self.numbers),
            "counterexample": None if example is None else vars(example),
        }


class Findings:
    """The outcome of a check with several examinations, estimates or further figures.

    Parameters
    ----------
    *seen : Examination
        The first examines the printed statement. If the claim has a correction, the others
        examine the correction; otherwise all examine the printed statement.
    estimates : sequence of Estimate
        Estimates for the correction if there is one. They support it if they meet their rules.
    numbers : mapping, optional
        Further figures by name.
    summary : str
        Replaces the claim's summary.
    printed : int
        How many examinations concern the printed statement.
    """

    def __init__(
        self,
        *seen: Examination[Any],
        estimates: Sequence[Estimate] = (),
        numbers: Mapping[str, float | str] | None = None,
        summary: str = "",
        printed: int = 1,
    ) -> None:
        self.seen, self.estimates, self.numbers = seen, tuple(estimates), numbers or {}
        self.summary, self.printed = summary, printed


#: Result of a check: examinations, that of the printed statement first, or `Findings`.
Outcome: TypeAlias = Examination[Any] | tuple[Examination[Any], ...] | Findings | Evidence


def basis_of(evidence: Mapping[str, Any], proof: str | None) -> Basis | None:
    """Return the basis of the statement that holds, or None if no statement holds.

    Parameters
    ----------
    evidence : mapping
        As `Evidence.to_mapping` returns it. Enumeration counts as complete if every tally
        without a failure describes its instances with "all" or "every".
    proof : str, optional
        Name of a printed proof.
    """
    standing = [tally["made"] for tally in evidence["tallies"] if not tally["failed"]]
    if not standing and not evidence["estimates"]:
        return None
    if proof is not None:
        return Basis.PROVED
    whole = standing and all(made.startswith(("all ", "every ")) for made in standing)
    return Basis.EXHAUSTIVE if whole and not evidence["estimates"] else Basis.SAMPLED


def agreed(*tallies: Tally) -> Verdict:
    """Return holds if the verdict of every tally is holds, else refuted."""
    verdicts = [tally.verdict() for tally in tallies]
    return Verdict.REFUTED if Verdict.REFUTED in verdicts else Verdict.HOLDS


def accepted(*estimates: Estimate) -> Verdict:
    """Return supported if every estimate meets its rule, else refuted."""
    met = all(estimate.accepted for estimate in estimates)
    return Verdict.SUPPORTED if met else Verdict.REFUTED
