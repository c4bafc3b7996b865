"""What makes a row of a step case a failed one."""

from collections.abc import Iterator, Sequence

from benchmarks.case import Row


def problems(row: Row, others: Sequence[Row]) -> list[str]:
    """Return what is wrong with a row: its own answer, or its agreement with earlier rows.

    A lower bound above another method's objective is a contradiction of two proofs or of a proof
    and a checked answer; two different proven optima are one case of it.
    """
    found = list(_own_problems(row["measured"]))
    for other in others:
        if other["measured"] is not None and _same_problem(row, other):
            found += _contradictions(row, other)
            found += _contradictions(other, row)
    return found


def is_refuted(row: Row, others: Sequence[Row]) -> bool:
    """Whether a claimed optimum is beaten by the checked answer of another row."""
    claim = row["measured"]
    if not claim["claims_optimum"] or claim["objective"] is None:
        return False
    return any(
        other["measured"]["objective"] is not None
        and other["measured"]["objective"] < claim["objective"]
        for other in others
        if _same_problem(row, other)
    )


def _own_problems(measured: Row) -> Iterator[str]:
    for name, amount in measured["violations"].items():
        yield f"violates {name} by {amount}"
    certificate = measured["certificate"]
    if certificate is not None and certificate["refusal"] is not None:
        yield f"certificate refused: {certificate['refusal']}"


def _contradictions(prover: Row, answerer: Row) -> list[str]:
    bound, objective = prover["measured"]["bound"], answerer["measured"]["objective"]
    if bound is None or objective is None or bound <= objective:
        return []
    return [
        f"{prover['method']} proves at least {bound}, {answerer['method']} attains {objective}"
    ]


def _same_problem(row: Row, other: Row) -> bool:
    same: bool = row["measured"]["problem"] == other["measured"]["problem"]
    return same
