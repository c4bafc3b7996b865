"""Look through instances of a statement, and make what breaks it small."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from proofs_checks.claim import Claim
from proofs_checks.evidence import (
    Counterexample,
    Data,
    Estimate,
    Evidence,
    Examination,
    Findings,
    Outcome,
    Tally,
    VacuousCheckError,
    Verdict,
    Verifier,
    accepted,
    agreed,
)
from proofs_checks.shrink import shrink, size

T = TypeVar("T")


def examine(
    what: str,
    made: str,
    instances: Iterable[T],
    holds: Callable[[T], bool],
    applies: Callable[[T], bool] | None = None,
    *,
    keep: int = 100,
) -> Examination[T]:
    """Try a statement on instances.

    Parameters
    ----------
    what, made : str
        The statement and the origin of the instances, for the tally.
    instances : iterable
        Instances, of any type.
    holds : callable
        Whether an instance meets the conclusion.
    applies : callable, optional
        Whether it meets the hypotheses; all do by default.
    keep : int
        Most failures kept.
    """
    tried = applied = failed = 0
    failures: list[T] = []
    for instance in instances:
        tried += 1
        if applies is not None and not applies(instance):
            continue
        applied += 1
        if not holds(instance):
            failed += 1
            if len(failures) < keep:
                failures.append(instance)
    return Examination(Tally(what, made, tried, applied, failed), tuple(failures))


def refute(
    what: str,
    made: str,
    instances: Iterable[T],
    verify: Verifier,
    as_data: Callable[[T], Data] = lambda instance: instance,  # type: ignore[assignment,return-value]
    *,
    holds: Callable[[T], bool] | None = None,
    applies: Callable[[T], bool] | None = None,
    found: str = "search",
) -> Examination[T]:
    """Try a printed statement on instances, and keep those that break it as counterexamples.

    Parameters
    ----------
    what, made, instances, applies
        As in `examine`.
    verify : callable
        Verifier of counterexamples, independent of the search.
    as_data : callable, optional
        Turns an instance into plain data for the verifier; instances are such by default.
    holds : callable, optional
        Whether an instance meets the conclusion; by default, whether the verifier finds nothing.
    found : str
        How the instances are searched.
    """

    def stands(instance: T) -> bool:
        return verify(as_data(instance)) is None

    seen = examine(what, made, instances, holds or stands, applies)
    data = tuple(map(as_data, seen.failures))
    return Examination(seen.tally, seen.failures, data, verify, f"{found}: {made}")


@dataclass(frozen=True)
class Domain(Generic[T]):
    """Instances on which several statements are tried.

    Parameters
    ----------
    made : str
        How they were made, for the tallies.
    instances : collection
        The instances.
    """

    made: str
    instances: Collection[T]

    def examine(
        self,
        what: str,
        holds: Callable[[T], bool],
        applies: Callable[[T], bool] | None = None,
    ) -> Examination[T]:
        """Try a statement on them; see `examine`."""
        return examine(what, self.made, self.instances, holds, applies)

    def refute(
        self,
        what: str,
        verify: Verifier,
        as_data: Callable[[T], Data] = lambda instance: instance,  # type: ignore[assignment,return-value]
        *,
        holds: Callable[[T], bool] | None = None,
        applies: Callable[[T], bool] | None = None,
    ) -> Examination[T]:
        """Try a printed statement on them; see `refute`."""
        return refute(
            what, self.made, self.instances, verify, as_data, holds=holds, applies=applies
        )


def evidence_of(claim: Claim, outcome: Outcome) -> Evidence:
    """Return what the outcome of a claim's check says: verdicts, and what is behind them.

    Parameters
    ----------
    claim : Claim
        The claim. With a correction, what was looked through after the printed statement speaks
        of the correction, and so do the estimates.
    outcome : Outcome
        What its check returned.

    Raises
    ------
    InputError
        If search and verifier disagree about a counterexample.
    TypeError
        If it is no outcome.
    VacuousCheckError
        If nothing was looked through for the printed statement, or for its correction.
    """
    if isinstance(outcome, Evidence):
        return outcome if outcome.summary else replace(outcome, summary=claim.summary)
    if isinstance(outcome, Examination):
        outcome = (outcome,)
    if not isinstance(outcome, tuple | Findings):
        raise TypeError(f"the check returned {type(outcome).__name__}, no evidence")
    findings = outcome if isinstance(outcome, Findings) else Findings(*outcome)
    tallies = tuple(examination.tally for examination in findings.seen)
    first = findings.printed if claim.correction else len(tallies)
    right = _verdict(tallies[first:], findings.estimates) if claim.correction else None
    examples = map(smallest_counterexample, findings.seen)
    return Evidence(
        _verdict(tallies[:first], () if claim.correction else findings.estimates),
        right,
        findings.summary or claim.summary,
        tallies,
        findings.estimates,
        findings.numbers,
        next((example for example in examples if example is not None), None),
    )


def smallest_counterexample(seen: Examination[Any]) -> Counterexample | None:
    """Shrink the smallest of the counterexamples; None if there is none.

    Raises
    ------
    InputError
        If the verifier does not confirm it: then search and verifier disagree.
    """
    verify = seen.verify
    if verify is None or not seen.counterexamples:
        return None
    smallest = min(seen.counterexamples, key=size)
    data = shrink(smallest, lambda smaller: verify(smaller) is not None)
    return Counterexample(data, str(verify(data)), seen.found)


def _verdict(tallies: Sequence[Tally], estimates: Sequence[Estimate]) -> Verdict:
    if not tallies and not estimates:
        raise VacuousCheckError("nothing was looked through for one of the two statements")
    exact = agreed(*tallies)
    return accepted(*estimates) if estimates and exact is Verdict.HOLDS else exact
