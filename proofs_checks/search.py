"""Try a statement on instances, and shrink its counterexamples.

Counterexamples are shrunk by greedy moves on plain data until no move helps. Data are nested
dicts and lists of integers (other values stay unchanged). A move removes an entry of a list,
removes the same position of every list in a list of lists, or reduces the absolute value of one
integer or of all integers of one list. A move is accepted if the verifier still confirms a
counterexample. The result is locally minimal: after any single move it is not a counterexample.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from formulations.errors import InputError
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
    arguments_of,
)

if TYPE_CHECKING:
    from proofs_checks.claim import Claim

#: Most candidates tried, far more than any of our claims needs.
_MOST_CANDIDATES = 20_000


def shrink(data: Data, is_counterexample: Callable[[Data], bool]) -> Data:
    """Return a counterexample, made from ``data``, that no single move makes smaller.

    Parameters
    ----------
    data : dict
        A counterexample.
    is_counterexample : callable
        Whether a candidate is a counterexample. A candidate on which the function raises
        `ValueError`, `IndexError`, `KeyError` or `ArithmeticError` is not a counterexample.

    Raises
    ------
    InputError
        If ``data`` is not a counterexample.
    """
    if not _accepts(is_counterexample, data):
        raise InputError(
            "counterexample", "the verifier does not confirm it", "correct search or verifier"
        )
    left = _MOST_CANDIDATES
    improved = True
    while improved:
        improved = False
        for candidate in _smaller(data):
            left -= 1
            if left < 0:
                return data
            if _accepts(is_counterexample, candidate):
                data, improved = candidate, True
                break
    return data


def size(data: Any) -> tuple[int, int]:
    """Return the number of integers in the data, and the sum of their absolute values."""
    if isinstance(data, bool) or not isinstance(data, int | list | dict):
        return 0, 0
    if isinstance(data, int):
        return 1, abs(data)
    parts = [size(part) for part in (data.values() if isinstance(data, dict) else data)]
    return sum(count for count, _ in parts), sum(total for _, total in parts)


def _accepts(is_counterexample: Callable[[Data], bool], data: Data) -> bool:
    try:
        return is_counterexample(data)
    except (ValueError, IndexError, KeyError, ArithmeticError):
        return False


def _smaller(data: Any) -> Iterator[Any]:
    """Yield the results of all single moves on data, the largest reductions first."""
    if isinstance(data, dict):
        for key, part in data.items():
            for smaller in _smaller(part):
                yield data | {key: smaller}
    elif isinstance(data, list):
        yield from _shorter(data)
        yield from _lower_together(data)
        for i, part in enumerate(data):
            for smaller in _smaller(part):
                yield [*data[:i], smaller, *data[i + 1 :]]
    elif isinstance(data, int) and not isinstance(data, bool):
        yield from _closer_to_zero(data)


def _shorter(data: list[Any]) -> Iterator[list[Any]]:
    for i in range(len(data)):
        yield [*data[:i], *data[i + 1 :]]
    if data and all(isinstance(row, list) for row in data):
        for j in range(min(len(row) for row in data)):
            yield [[*row[:j], *row[j + 1 :]] for row in data]


def _lower_together(data: list[Any]) -> Iterator[list[int]]:
    if len(data) > 1 and all(type(entry) is int for entry in data):
        least = min(data)
        if least > 0:
            yield [entry - least for entry in data]
            yield [entry - 1 for entry in data]


def _closer_to_zero(value: int) -> Iterator[int]:
    sign = 1 if value > 0 else -1
    # Reduce by a half, a quarter, an eighth, ...: large values need few moves.
    steps = (abs(value) - (abs(value) >> k) for k in range(1, abs(value).bit_length() + 1))
    for smaller in dict.fromkeys((0, 1, *steps, abs(value) - 1)):
        if 0 <= smaller < abs(value):
            yield sign * smaller


T = TypeVar("T")
R = TypeVar("R")


def plain(instance: Any) -> Any:
    """Return an instance as plain data: fields by name, tuples as lists, fractions as pairs.

    The fields of a dataclass within a dataclass are among those of the whole; their names must
    differ.
    """
    if is_dataclass(instance):
        data: Data = {}
        for field in fields(instance):
            part = getattr(instance, field.name)
            own = plain(part) if is_dataclass(part) else {field.name: plain(part)}
            if both := data.keys() & own.keys():
                raise TypeError(f"two fields are called {min(both)}")
            data |= own
        return data
    if isinstance(instance, tuple | list):
        return [plain(part) for part in instance]
    return list(instance.as_integer_ratio()) if isinstance(instance, Fraction) else instance


def as_arguments(verify: Verifier) -> Callable[[Any], Data]:
    """Return what turns an instance into plain data for a verifier.

    For a function under `proofs_checks.evidence.verifier`, a dataclass has its fields, a tuple the
    names of the function's arguments, and another instance is its only argument. For any other
    function, it is `plain`.
    """
    if not hasattr(verify, "__wrapped__"):
        return plain
    names = [argument.name for argument in arguments_of(verify)]

    def turned(instance: Any) -> Data:
        data = plain(instance)
        if isinstance(data, dict):
            return data
        return dict(zip(names, data if len(names) > 1 else [data], strict=True))

    return turned


def _of_parts(function: Callable[..., R]) -> Callable[[Any], R]:
    """Return a function of one instance, a tuple of its arguments if it needs several."""
    # Some built-in functions have no signature; they take the instance.
    with suppress(ValueError):
        arguments = arguments_of(function)
        if len(arguments) > 1 or any(a.kind is Parameter.VAR_POSITIONAL for a in arguments):
            return lambda given: function(*(given if isinstance(given, tuple) else (given,)))
    return function


def examine(
    what: str,
    made: str,
    instances: Iterable[T],
    holds: Callable[..., bool],
    applies: Callable[..., bool] | None = None,
    *,
    keep: int = 100,
) -> Examination[T]:
    """Try a statement on instances.

    Functions of an instance may have one argument, or one for each part of a tuple.

    Parameters
    ----------
    what, made : str
        The statement and the origin of the instances, for the tally.
    instances : iterable
        Instances, of any type.
    holds : callable
        Whether an instance meets the conclusion.
    applies : callable, optional
        Whether an instance meets the hypotheses; by default all do.
    keep : int
        Largest number of failures to keep.
    """
    met = _of_parts(holds)
    meant = None if applies is None else _of_parts(applies)
    tried = applied = failed = 0
    failures: list[T] = []
    for instance in instances:
        tried += 1
        if meant is not None and not meant(instance):
            continue
        applied += 1
        if not met(instance):
            failed += 1
            if len(failures) < keep:
                failures.append(instance)
    return Examination(Tally(what, made, tried, applied, failed), tuple(failures))


def refute(
    what: str,
    made: str,
    instances: Iterable[T],
    verify: Verifier,
    as_data: Callable[..., Data] | None = None,
    *,
    holds: Callable[..., bool] | None = None,
    applies: Callable[..., bool] | None = None,
    found: str = "search",
) -> Examination[T]:
    """Try a printed statement on instances, and keep violating ones as counterexamples.

    Parameters
    ----------
    what, made, instances, applies
        As in `examine`.
    verify : callable
        Verifier of counterexamples, independent of the search.
    as_data : callable, optional
        Turns an instance into plain data for the verifier, by default `as_arguments`.
    holds : callable, optional
        Whether an instance meets the conclusion; by default, whether the verifier finds nothing.
    found : str
        How the instances are searched.
    """
    turned = as_arguments(verify) if as_data is None else _of_parts(as_data)

    def stands(instance: T) -> bool:
        return verify(turned(instance)) is None

    seen = examine(what, made, instances, holds or stands, applies)
    data = tuple(map(turned, seen.failures))
    return Examination(seen.tally, seen.failures, data, verify, f"{found}: {made}")


@dataclass(frozen=True)
class Domain(Generic[T]):
    """A domain of instances on which several statements are tried.

    Parameters
    ----------
    made : str
        How the instances were generated, for the tallies.
    instances : iterable
        The instances; a collection, not an iterator, if there is more than one statement.
    verify : callable, optional
        Verifier of counterexamples, that of the claim; needed to refute a statement.
    """

    made: str
    instances: Iterable[T]
    verify: Verifier | None = None

    def examine(
        self, what: str, holds: Callable[..., bool], applies: Callable[..., bool] | None = None
    ) -> Examination[T]:
        """Try a statement on the instances; see `examine`."""
        return examine(what, self.made, self.instances, holds, applies)

    def refute(
        self, what: str, as_data: Callable[..., Data] | None = None, **options: Any
    ) -> Examination[T]:
        """Try a printed statement on the instances; see `refute`."""
        assert self.verify is not None, "the claim has no verifier"
        return refute(what, self.made, self.instances, self.verify, as_data, **options)


def evidence_of(claim: "Claim", outcome: Outcome) -> Evidence:
    """Return the verdicts and evidence that follow from the outcome of a claim's check.

    Parameters
    ----------
    claim : Claim
        The claim. If it has a correction, the estimates and the examinations after those of the
        printed statement concern the correction.
    outcome : Outcome
        Return value of its check.

    Raises
    ------
    InputError
        If search and verifier disagree about a counterexample, or the claim has no verifier.
    TypeError
        If the return value is not an outcome.
    VacuousCheckError
        If no instance was tried for the printed statement, or for its correction.
    """
    if isinstance(outcome, Evidence):
        return outcome if outcome.summary else replace(outcome, summary=claim.summary)
    if isinstance(outcome, Examination):
        outcome = (outcome,)
    if not isinstance(outcome, tuple | Findings):
        raise TypeError(f"the check returned {type(outcome).__name__} instead of an outcome")
    findings = outcome if isinstance(outcome, Findings) else Findings(*outcome)
    tallies = tuple(examination.tally for examination in findings.seen)
    first = findings.printed if claim.correction else len(tallies)
    right = _verdict(tallies[first:], findings.estimates) if claim.correction else None
    examples = map(smallest_counterexample, findings.seen)
    example = next((one for one in examples if one is not None), None)
    if example is not None and claim.verify is None:
        what = "its check keeps a counterexample, but the claim has no verifier"
        raise InputError(f"claim {claim.id}", what, "give Claim(verify=...), as in refute")
    return Evidence(
        _verdict(tallies[:first], () if claim.correction else findings.estimates),
        right,
        findings.summary or claim.summary,
        tallies,
        findings.estimates,
        findings.numbers,
        example,
    )


def smallest_counterexample(seen: Examination[Any]) -> Counterexample | None:
    """Return the smallest counterexample of an examination, shrunk; None if there is none.

    Raises
    ------
    InputError
        If the verifier does not confirm the counterexample of the search.
    """
    verify = seen.verify
    if verify is None or not seen.counterexamples:
        return None
    smallest = min(seen.counterexamples, key=size)
    data = shrink(smallest, lambda smaller: verify(smaller) is not None)
    return Counterexample(data, str(verify(data)), seen.found)


def _verdict(tallies: Sequence[Tally], estimates: Sequence[Estimate]) -> Verdict:
    if not tallies and not estimates:
        raise VacuousCheckError(
            "no instance was tried for one of the two statements (printed, corrected)"
        )
    exact = agreed(*tallies)
    return accepted(*estimates) if estimates and exact is Verdict.HOLDS else exact
