"""What a check returns: two verdicts and what they rest on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any, TypeAlias

#: Plain data, as JSON holds them: what counterexamples are made of.
Data: TypeAlias = dict[str, Any]


class Verdict(StrEnum):
    """What a check says of a statement."""

    HOLDS = "holds"
    REFUTED = "refuted"
    SUPPORTED = "supported"
    NOT_CHECKABLE = "not-checkable"


class VacuousCheckError(AssertionError):
    """A check found no instance that meets the hypotheses, so it says nothing."""


class ContradictoryEvidenceError(AssertionError):
    """Evidence contradicts itself, or the verdict that it comes with."""


@dataclass(frozen=True)
class Tally:
    """How many instances one statement was tried on.

    Parameters
    ----------
    what : str
        The statement, in a few words.
    made : str
        How the instances were made.
    tried : int
        Instances made.
    applied : int
        Those that meet the hypotheses.
    failed : int
        Those of them that break the statement.
    """

    what: str
    made: str
    tried: int
    applied: int
    failed: int

    def __post_init__(self) -> None:
        """Refuse counts that cannot be."""
        if not 0 <= self.failed <= self.applied <= self.tried:
            raise ContradictoryEvidenceError(f"{self.what}: {self.failed} of {self.applied} fail")

    def verdict(self) -> Verdict:
        """Return holds or refuted.

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
    """A number with its 95 % interval and the rule, set beforehand, that accepts it.

    Parameters
    ----------
    name : str
        What is estimated, unit included.
    value, low, high : float
        Estimate and interval.
    samples : int
        Independent samples or points behind it.
    rule : str
        The acceptance rule in words.
    accepted : bool
        Whether it is met.
    """

    name: str
    value: float
    low: float
    high: float
    samples: int
    rule: str
    accepted: bool

    def __post_init__(self) -> None:
        """Refuse what is no estimate."""
        if self.samples < 1 or not all(map(isfinite, (self.value, self.low, self.high))):
            raise ContradictoryEvidenceError(f"{self.name}: no finite estimate from samples")


@dataclass(frozen=True)
class Counterexample:
    """An instance that meets the hypotheses and breaks the statement.

    Parameters
    ----------
    data : dict
        The instance, as plain data; no single move of `proofs_checks.shrink` makes it smaller.
    why : str
        What breaks, as the verifier words it.
    found : str
        How the search came upon it, and how much it looked through.
    """

    data: Data
    why: str
    found: str


@dataclass(frozen=True)
class Evidence:
    """The outcome of one check.

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
        For what is refuted as printed.

    Raises
    ------
    VacuousCheckError
        If it rests on nothing: neither on an instance that applies nor on an estimate nor a
        figure.
    ContradictoryEvidenceError
        If something is refuted and nothing fails, or nothing is and something does.
    """

    as_printed: Verdict
    as_corrected: Verdict | None = None
    summary: str = ""
    tallies: tuple[Tally, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    counterexample: Counterexample | None = None

    def __post_init__(self) -> None:
        """Refuse a verdict that nothing stands behind."""
        for tally in self.tallies:
            tally.verdict()
        verdicts = {self.as_printed, self.as_corrected}
        if Verdict.HOLDS in verdicts and not self.tallies:
            raise VacuousCheckError("it holds, but on no instance")
        if Verdict.SUPPORTED in verdicts and not self.estimates:
            raise VacuousCheckError("supported, but by no estimate")
        if Verdict.REFUTED in verdicts and not self.tallies + self.estimates:
            raise VacuousCheckError("refuted, but by nothing")
        fails = any(tally.failed for tally in self.tallies)
        fails = fails or not all(estimate.accepted for estimate in self.estimates)
        if fails != (Verdict.REFUTED in verdicts):
            what = "something fails, and nothing is refuted" if fails else "refuted, and all holds"
            raise ContradictoryEvidenceError(what)

    @property
    def verdicts(self) -> tuple[Verdict, Verdict | None]:
        """Both verdicts, as printed and as corrected."""
        return self.as_printed, self.as_corrected

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document of the evidence, the verdicts left out."""
        example = self.counterexample
        return {
            "summary": self.summary,
            "tallies": [vars(tally) for tally in self.tallies],
            "estimates": [vars(estimate) for estimate in self.estimates],
            "numbers": dict(self.numbers),
            "counterexample": None if example is None else vars(example),
        }


def agreed(*tallies: Tally) -> Verdict:
    """Return holds if every tally does, else refuted."""
    verdicts = [tally.verdict() for tally in tallies]
    return Verdict.REFUTED if Verdict.REFUTED in verdicts else Verdict.HOLDS


def accepted(*estimates: Estimate) -> Verdict:
    """Return supported if every estimate meets its rule, else refuted."""
    met = all(estimate.accepted for estimate in estimates)
    return Verdict.SUPPORTED if met else Verdict.REFUTED
