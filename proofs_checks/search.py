"""Look through instances of a statement, and make what breaks it small."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from proofs_checks.claim import Verifier
from proofs_checks.evidence import Counterexample, Data, Evidence, Tally
from proofs_checks.shrink import shrink, size

T = TypeVar("T")


@dataclass(frozen=True)
class Examination(Generic[T]):
    """Outcome of looking through instances.

    Parameters
    ----------
    tally : Tally
        How many there were.
    failures : tuple
        The first instances that break the statement, in the order found.
    """

    tally: Tally
    failures: tuple[T, ...]


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


def smallest_counterexample(
    failures: Iterable[Data], verify: Verifier, found: str
) -> Counterexample | None:
    """Shrink the smallest of the failures; None if there is none.

    Parameters
    ----------
    failures : iterable of dict
        Instances that break the statement, as plain data.
    verify : callable
        The claim's verifier, independent of the search.
    found : str
        How they were found.

    Raises
    ------
    InputError
        If the verifier does not confirm the failure: then search and verifier disagree.
    """
    candidates = sorted(failures, key=size)
    if not candidates:
        return None
    data = shrink(candidates[0], lambda smaller: verify(smaller) is not None)
    return Counterexample(data, str(verify(data)), found)


def evidence_of(seen: Examination[T], summary: str, **numbers: float | str) -> Evidence:
    """Return the evidence for a statement that needs no correction."""
    return Evidence(seen.tally.verdict(), None, summary, (seen.tally,), numbers=numbers)


def corrected_evidence(
    printed: Examination[T],
    corrected: Examination[Any],
    verify: Verifier,
    as_data: Callable[[T], Data],
    summary: str,
    **numbers: float | str,
) -> Evidence:
    """Return the evidence for a printed statement and its correction.

    Parameters
    ----------
    printed, corrected : Examination
        Both statements, looked through.
    verify : callable
        Verifier of the printed statement's counterexamples.
    as_data : callable
        Turns a failing instance into plain data.
    summary : str
        See `Evidence`.
    **numbers
        Figures.
    """
    return Evidence(
        printed.tally.verdict(),
        corrected.tally.verdict(),
        summary,
        (printed.tally, corrected.tally),
        numbers=numbers,
        counterexample=smallest_counterexample(
            map(as_data, printed.failures), verify, f"search: {printed.tally.made}"
        ),
    )
