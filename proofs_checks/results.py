"""Numbered results of the papers, and errors common to several claims: rows of the scoreboard.

A claim concerns a single statement. A numbered result lists the claims that make up a theorem,
those on steps of its proof, the status of that proof, and the change an author would make.
"""

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from proofs_checks.claim import Claim, Defect
from proofs_checks.evidence import Basis, Verdict, basis_of
from proofs_checks.store import recorded_entry, recorded_verdicts

_PAPERS = Path(__file__).parent / "papers"


class ProofStatus(StrEnum):
    """Status of the printed proof after a check of each step."""

    #: The proof is correct; misprints in it have their own claims.
    READ = "read and correct"
    #: A step fails; a claim's correction or our own proof replaces it.
    MENDED = "mended here"
    #: The proof has a gap that is not closed here, or the paper gives no proof.
    OPEN = "open"
    #: The result is false, and so is its proof.
    FAILS = "fails"


class Survival(StrEnum):
    """How much of a numbered result survives."""

    YES = "yes"
    CHANGED = "with a change"
    NO = "no"
    UNDECIDED = "not decided here"


@dataclass(frozen=True)
class NumberedResult:
    """One numbered result, with the claims on it.

    Parameters
    ----------
    name : str
        Name in the paper, such as ``Theorem 2``.
    proof : ProofStatus
        Status of the printed proof.
    claims : tuple of str
        Ids of the claims that state the result or a numbered part of it.
    steps : tuple of str
        Ids of claims on steps of its proof and on its prerequisites.
    change : str
        Change an author would make, in one line; empty if none.
    """

    name: str
    proof: ProofStatus
    claims: tuple[str, ...]
    steps: tuple[str, ...] = ()
    change: str = ""


@dataclass(frozen=True)
class RootCause:
    """One error that refutes several claims.

    Parameters
    ----------
    text : str
        The error, in a line or two.
    claims : tuple of str
        Ids of the claims that it refutes.
    """

    text: str
    claims: tuple[str, ...]


@dataclass(frozen=True)
class Scoreboard:
    """The numbered results of a paper and the errors common to several claims.

    Parameters
    ----------
    results : tuple of NumberedResult
        In the order of the paper; empty if it has no numbered results.
    causes : tuple of RootCause
        Errors that several claims share.
    """

    results: tuple[NumberedResult, ...] = ()
    causes: tuple[RootCause, ...] = ()


def scoreboard(paper: str) -> Scoreboard:
    """Read the scoreboard of a paper from ``papers/<paper>/results.toml``.

    In the file, ids lack the paper's name, and the ids of a field are separated by spaces.

    Parameters
    ----------
    paper : str
        The first part of its claims' ids. The scoreboard is empty if the file does not exist.
    """
    path = _PAPERS / paper / "results.toml"
    if not path.exists():
        return Scoreboard()
    board = tomllib.loads(path.read_text(encoding="utf-8"))

    def ids(row: dict[str, str], field: str) -> tuple[str, ...]:
        return tuple(f"{paper}.{name}" for name in row.get(field, "").split())

    results = (
        NumberedResult(
            row["name"],
            ProofStatus(row["proof"]),
            ids(row, "claims"),
            ids(row, "steps"),
            row.get("change", ""),
        )
        for row in board["results"]
    )
    causes = (RootCause(row["text"], ids(row, "claims")) for row in board["causes"])
    return Scoreboard(tuple(results), tuple(causes))


def printed(result: NumberedResult, claims: dict[str, Claim]) -> str:
    """Return the verdict on the printed result: that of its worst claim, with the defect.

    Parameters
    ----------
    result : NumberedResult
        The result.
    claims : dict
        Claims by id, including those of the result.
    """
    parts = [claims[name] for name in result.claims]
    wrong = [defect for defect in Defect if any(part.defect is defect for part in parts)]
    if wrong:
        return f"{Verdict.REFUTED} ({', '.join(wrong)})"
    verdicts = {(recorded_verdicts(part) or ("",))[0] for part in parts}
    order = (Verdict.NOT_CHECKABLE, Verdict.SUPPORTED, Verdict.HOLDS)
    return next((verdict.value for verdict in order if verdict in verdicts), "")


def survival(result: NumberedResult, claims: dict[str, Claim]) -> Survival:
    """Return how much of a result survives; see `printed` for the parameters."""
    parts = [claims[name] for name in result.claims]
    if any(part.defect is Defect.RESULT for part in parts):
        return Survival.NO
    on_record = [recorded_verdicts(part) or (None, None) for part in parts]
    if any(one == Verdict.REFUTED for one, _ in on_record):
        return Survival.CHANGED
    # A printed statement may be uncheckable although its correction is checked.
    if any(one == Verdict.NOT_CHECKABLE and two is None for one, two in on_record):
        return Survival.UNDECIDED
    return Survival.YES


def basis(result: NumberedResult, claims: dict[str, Claim]) -> Basis | None:
    """Return the weakest basis among the parts of a surviving result; see `printed`."""
    entries = [(claims[name], recorded_entry(claims[name])) for name in result.claims]
    bases = [basis_of(entry["evidence"], part.proof) for part, entry in entries if entry]
    if None in bases or survival(result, claims) in (Survival.NO, Survival.UNDECIDED):
        return None
    return next((one for one in reversed(Basis) if one in bases), None)


def score(result: NumberedResult, claims: dict[str, Claim]) -> tuple[str, ...]:
    """Return a row of the scoreboard: printed, survives, evidence, proof, what to change."""
    return (
        printed(result, claims),
        survival(result, claims).value,
        basis(result, claims) or "–",
        result.proof.value,
        result.change or "–",
    )


#: Column headings: the result, then the columns of `score`.
SCORE_COLUMNS = ("result", "as printed", "survives", "evidence", "proof", "what to change")
