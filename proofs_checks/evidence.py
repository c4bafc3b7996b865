"""What a check returns: two verdicts and what they rest on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")

#: Plain data, as JSON holds them: what counterexamples are made of.
Data: TypeAlias = dict[str, Any]

#: Tells why plain data are a counterexample, or None if they are none. It knows the statement and
#: the data only: nothing of the search that found them.
Verifier: TypeAlias = Callable[[Data], str | None]


class Verdict(StrEnum):
    """What a check says of a statement."""

    HOLDS = "holds"
    REFUTED = "refuted"
    SUPPORTED = "supported"
    NOT_CHECKABLE = "not-checkable"


class Basis(StrEnum):
    """What stands behind a statement that holds."""

    #: A proof is printed in ``proofs/``; instances confirm it.
    PROVED = "proved"
    #: Every instance up to the size that the evidence states.
    EXHAUSTIVE = "exhaustive"
    #: Instances drawn or chosen, or an estimate.
    SAMPLED = "sampled"


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
        The instance, as plain data; no single move of `proofs_checks.search` makes it smaller.
    why : str
        What breaks, as the verifier words it.
    found : str
        How the search came upon it, and how much it looked through.
    """

    data: Data
    why: str
    found: str


@dataclass(frozen=True)
class Examination(Generic[T]):
    """Outcome of looking through instances.

    Parameters
    ----------
    tally : Tally
        How many there were.
    failures : tuple
        The first instances that break the statement, in the order found.
    counterexamples : tuple of dict
        The same as plain data, if the statement is one to be refuted.
    verify : callable, optional
        Verifier of these data.
    found : str
        How they were found.
    """

    tally: Tally
    failures: tuple[T, ...]
    counterexamples: tuple[Data, ...] = ()
    verify: Verifier | None = None
    found: str = ""


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


class Findings:
    """What a check has looked through, if there is more to it than examinations.

    Parameters
    ----------
    *seen : Examination
        The first is of the printed statement. For a claim with a correction the others are of
        that; for one without, all are of the printed statement.
    estimates : sequence of Estimate
        Estimates, of the correction if there is one. If they meet their rules, they support it.
    numbers : mapping, optional
        Further figures by name.
    summary : str
        In place of the claim's summary.
    printed : int
        How many examinations are of the printed statement.
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


#: What a check returns: examinations, of the printed statement first, or more than that.
Outcome: TypeAlias = Examination[Any] | tuple[Examination[Any], ...] | Findings | Evidence


def basis_of(evidence: Mapping[str, Any], proof: str | None) -> Basis | None:
    """Return what the statement that stands rests on, or None if nothing does.

    Parameters
    ----------
    evidence : mapping
        As `Evidence.to_mapping` gives it. Instances are all there are if every tally without a
        failure says of them "all" or "every".
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
    """Return holds if every tally does, else refuted."""
    verdicts = [tally.verdict() for tally in tallies]
    return Verdict.REFUTED if Verdict.REFUTED in verdicts else Verdict.HOLDS


def accepted(*estimates: Estimate) -> Verdict:
    """Return supported if every estimate meets its rule, else refuted."""
    met = all(estimate.accepted for estimate in estimates)
    return Verdict.SUPPORTED if met else Verdict.REFUTED
