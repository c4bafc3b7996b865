"""The framework of the claims: search, shrinking, evidence."""

from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.errors import InputError
from proofs_checks.claim import Claim, Claims, Context, Effort, Kind, Mutation, Scope
from proofs_checks.evidence import (
    ContradictoryEvidenceError,
    Estimate,
    Evidence,
    Examination,
    Findings,
    Outcome,
    Tally,
    VacuousCheckError,
    Verdict,
    dismiss_if,
    verifier,
)
from proofs_checks.run import run_check
from proofs_checks.search import (
    as_arguments,
    evidence_of,
    examine,
    refute,
    shrink,
    size,
    smallest_counterexample,
)

numbers = st.integers(-(10**6), 10**6)


@given(st.lists(numbers, min_size=1), numbers)
def test_shrinking_a_list_with_a_large_entry(values: list[int], least: int) -> None:
    """The condition that some entry exceeds |least| shrinks to one entry, |least| + 1."""
    bound = abs(least)
    if max(map(abs, values)) <= bound:
        values.append(bound + 5)
    small = shrink({"values": values}, lambda d: any(abs(v) > bound for v in d["values"]))
    assert [abs(v) for v in small["values"]] == [bound + 1]


@given(st.lists(st.lists(st.integers(0, 20), min_size=2, max_size=2), min_size=2, max_size=5))
def test_shrinking_keeps_a_counterexample_and_never_grows(rows: list[list[int]]) -> None:
    """Whatever the condition, the outcome meets it and is no larger."""

    def condition(data: dict[str, list[list[int]]]) -> bool:
        return sum(map(sum, data["rows"])) % 3 == 0 and len(data["rows"]) >= 2

    data = {"rows": rows}
    if not condition(data):
        data["rows"][0][0] += 3 - sum(map(sum, rows)) % 3
    small = shrink(data, condition)
    assert condition(small)
    assert size(small) <= size(data)


def test_a_column_of_all_rows_can_go_at_once() -> None:
    """Rows that must stay equally long lose the same position together."""
    data = {"groups": [[5, 1, 9], [5, 1, 9]]}

    def alike(d: dict[str, list[list[int]]]) -> bool:
        return len({tuple(g) for g in d["groups"]}) == 1 and len(d["groups"]) == 2 and d[
            "groups"
        ][0] != []  # fmt: skip

    assert shrink(data, alike)["groups"] == [[9], [9]] or size(shrink(data, alike))[0] == 2


def test_shrinking_what_is_no_counterexample_is_an_error() -> None:
    """Search and verifier disagree: that must not pass."""
    with pytest.raises(InputError, match="verifier does not confirm"):
        shrink({"a": 1}, lambda data: False)
    with pytest.raises(InputError, match="verifier does not confirm"):
        smallest_counterexample(
            Examination(Tally("w", "m", 1, 1, 1), (), ({"a": 1},), lambda data: None)
        )


def test_an_unreadable_candidate_is_no_counterexample() -> None:
    """Verifiers may raise on what the shrinker offers."""
    small = shrink({"a": [4, 2]}, lambda d: d["a"][1] > 1)
    assert small == {"a": [0, 2]}


def test_a_verifier_takes_the_entries_of_the_data_by_name() -> None:
    """What it dismisses is none; a tuple is turned into its arguments in order."""

    @verifier
    def above(value: int, least: list[int]) -> str:
        dismiss_if(value <= least[0])
        return f"{value} > {least}"

    assert above({"least": [1], "value": 2}) == "2 > [1]"
    assert above({"least": [2], "value": 2}) is None
    assert as_arguments(above)((3, (1, 2))) == {"value": 3, "least": [1, 2]}


def test_a_function_of_several_arguments_takes_the_parts_of_an_instance() -> None:
    """Of one argument it takes the instance, as a built-in function without a signature does."""
    pairs = [(1, 2), (2, 1), (3, 3)]
    assert examine("a <= b", "pairs", pairs, lambda a, b: a <= b).failures == ((2, 1),)
    assert examine("ascending", "pairs", pairs, lambda *ab: max(ab) == ab[1]).tally.failed == 1
    assert examine("a != b", "pairs", pairs, lambda ab: len(set(ab)) == 2).tally.failed == 1
    assert examine("not empty", "pairs", pairs, bool, lambda a, b: a > b).tally.applied == 1
    assert examine("negative", "0..2", range(3), lambda *n: n < (0,)).failures == (0, 1, 2)


def test_examining_counts_what_applies() -> None:
    """Of 0..9 the even ones apply; of these 6 and 8 fail."""
    seen = examine("below 5", "0..9", range(10), lambda i: i < 5, lambda i: i % 2 == 0)
    assert (seen.tally.tried, seen.tally.applied, seen.tally.failed) == (10, 5, 2)
    assert seen.failures == (6, 8)
    assert seen.tally.verdict() is Verdict.REFUTED


def test_nothing_passes_without_an_instance() -> None:
    """A tally on which nothing applies gives no verdict; nor does evidence without any."""
    empty = examine("never", "none", range(3), lambda i: True, lambda i: False).tally
    with pytest.raises(VacuousCheckError, match="no instance"):
        empty.verdict()
    with pytest.raises(VacuousCheckError):
        Evidence(Verdict.HOLDS, tallies=(empty,))
    for verdict in (Verdict.HOLDS, Verdict.REFUTED, Verdict.SUPPORTED):
        with pytest.raises(VacuousCheckError):
            Evidence(verdict)
    assert Evidence(Verdict.NOT_CHECKABLE, summary="why").as_printed is Verdict.NOT_CHECKABLE


def test_evidence_that_contradicts_itself_is_refused() -> None:
    """Counts and verdicts that cannot be: 4 failures and holds, none and refuted, -4, NaN."""
    holding, failing = Tally("w", "m", 5, 5, 0), Tally("w", "m", 5, 5, 4)
    rejected = Estimate("mean", 1.0, 0.5, 1.5, 9, "below 1", accepted=False)
    for make in (
        lambda: Evidence(Verdict.HOLDS, tallies=(failing,)),
        lambda: Evidence(Verdict.REFUTED, Verdict.HOLDS, tallies=(holding,)),
        lambda: Evidence(Verdict.SUPPORTED, estimates=(rejected,)),
        lambda: Tally("w", "m", 5, 50, 0),
        lambda: Tally("w", "m", 5, 5, -4),
        lambda: Estimate("mean", nan, 0.5, 1.5, 9, "below 2", accepted=True),
        lambda: Estimate("mean", 1.0, 0.5, 1.5, 0, "below 2", accepted=True),
    ):
        with pytest.raises(ContradictoryEvidenceError):
            make()
    assert Evidence(Verdict.REFUTED, Verdict.HOLDS, tallies=(failing, holding)).verdicts


def _check(context: Context) -> Evidence:
    tally = Tally("w", "m", 1, 1, int(context.rng.integers(2)))
    return Evidence(tally.verdict(), tallies=(tally,))


_GOOD: dict[str, object] = {
    "id": "own.a",
    "source": "s",
    "title": "t",
    "statement": "s",
    "formula": "f",
    "hypotheses": (),
    "kind": Kind.IDENTITY,
    "check": _check,
    "mutations": (Mutation("m"),),
}


def test_each_claim_has_a_generator_of_its_own() -> None:
    """Equal id and seed: equal draws; another id or seed: others."""

    def draws(name: str, seed: int) -> list[bool]:
        checks = [
            run_check(Claim(**_GOOD | {"id": f"{name}{i}"}), Effort.QUICK, seed)  # type: ignore[arg-type]
            for i in range(40)
        ]
        return [evidence.as_printed is Verdict.HOLDS for evidence in checks]

    assert draws("own.a", 0) == draws("own.a", 0)
    assert draws("own.a", 0) != draws("own.a", 1)
    assert draws("own.a", 0) != draws("own.b", 0)


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("id", "Lemma 1", "not a valid id"),
        ("title", " ", "no title"),
        ("mutations", (), "mutation"),
        ("mutations", (Mutation("m", power=2),), "changes power"),
    ],
)
def test_a_claim_is_validated(field: str, value: object, match: str) -> None:
    """Ids, texts and mutations are not optional."""
    Claim(**_GOOD)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=match):
        Claim(**_GOOD | {field: value})  # type: ignore[arg-type]


def test_an_estimate_is_plain_data() -> None:
    """Evidence turns into a JSON document with all its parts."""
    estimate = Estimate("mean", 1.0, 0.5, 1.5, 9, "below 2", True)
    document = Evidence(Verdict.SUPPORTED, estimates=(estimate,)).to_mapping()
    assert document["estimates"][0]["accepted"] is True
    assert document["counterexample"] is None


_MET = Estimate("mean", 1.0, 0.5, 1.5, 9, "below 2", accepted=True)


def _fails(n: int) -> Examination[int]:
    """Return an examination of 0..3 in which those from n on fail."""
    return refute("below n", "0..3", range(4), lambda d: "why" if d["i"] >= n else None, _as_data)


def _as_data(i: int) -> dict[str, int]:
    return {"i": i}


@pytest.mark.parametrize(
    ("outcome", "correction", "verdicts"),
    [
        (_fails(4), None, ("holds", None)),
        (_fails(2), None, ("refuted", None)),
        ((_fails(4), _fails(2)), None, ("refuted", None)),
        ((_fails(2), _fails(4)), "c", ("refuted", "holds")),
        ((_fails(4), _fails(2)), "c", ("holds", "refuted")),
        (Findings(_fails(2), _fails(2), _fails(4), printed=2), "c", ("refuted", "holds")),
        (Findings(_fails(4), estimates=(_MET,)), None, ("supported", None)),
        (Findings(_fails(2), _fails(4), estimates=(_MET,)), "c", ("refuted", "supported")),
        (Findings(_fails(4), _fails(2), estimates=(_MET,)), "c", ("holds", "refuted")),
    ],
)
def test_the_verdicts_follow_from_the_outcome(
    outcome: Outcome, correction: str | None, verdicts: tuple[str, str | None]
) -> None:
    """With a correction the first examination is of the printed statement, the rest of that."""
    parts = {"correction": correction, "summary": "s", "verify": lambda data: None}
    claim = Claim(**_GOOD | parts)  # type: ignore[arg-type]
    evidence = evidence_of(claim, outcome)
    assert evidence.verdicts == verdicts
    assert evidence.summary == "s"
    example = evidence.counterexample
    assert (example is not None) == ("refuted" in verdicts)
    assert example is None or (example.data, example.found) == ({"i": 2}, "search: 0..3")


def test_a_correction_that_nothing_was_looked_through_for_is_vacuous() -> None:
    """One examination is of the printed statement, so it says nothing of the correction."""
    claim = Claim(**_GOOD | {"correction": "c"})  # type: ignore[arg-type]
    with pytest.raises(VacuousCheckError, match="one of the two statements"):
        evidence_of(claim, _fails(2))
    with pytest.raises(TypeError, match="returned list instead of an outcome"):
        evidence_of(claim, [])  # type: ignore[arg-type]


def test_a_docstring_tells_the_texts_of_a_claim() -> None:
    """Title and labelled texts fill in what no keyword gives; long ones go over several lines."""
    claims = Claims()

    @claims.step("own.told", Mutation("four", most=4), title="Another title")
    def check(context: Context, *, most: int = 3) -> Outcome:
        """Numbers are small.

        Source: page 1
        Statement: Each of them is at most
            the largest.
        Formula: x ≤ max  for all x
        Assumes: integers; at least
            one of them
        """
        del context
        return examine("small", "all numbers below 4", range(4), lambda x: x <= most)

    (claim,) = claims
    assert claim.scope is Scope.STEP
    assert claim.decided_by is Kind.FINITE
    assert (claim.title, claim.source) == ("Another title", "page 1")
    assert claim.statement == "Each of them is at most the largest."
    assert claim.formula == "x ≤ max  for all x"
    assert claim.hypotheses == ("integers", "at least one of them")
    assert claim.correction is None
    assert check(Context(Effort.QUICK, np.random.default_rng(0))) is not None


def test_a_misspelt_label_is_refused() -> None:
    """What would end up in the text before it is named."""

    def check(context: Context) -> Outcome:
        """Numbers are small.

        Source: page 1
        Statment: Each of them is at most 3.
        """
        raise NotImplementedError

    with pytest.raises(InputError, match=r"'Statment: Each of them is at most 3\.' has no label"):
        Claim("own.told", check)
