"""Numbered results of the papers and the errors that several claims share: the scoreboard's rows.

Claims say what is true of single statements; here stands which of them make up a theorem, which
are steps of its proof, what became of that proof, and what an author would change.
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
    """What became of the printed proof when it was read step by step."""

    #: It is correct; slips in it are told by claims of their own.
    READ = "read and correct"
    #: A step fails, and what replaces it is a claim's correction or a proof of ours.
    MENDED = "mended here"
    #: It has a gap that is not closed here, or the paper has none.
    OPEN = "open"
    #: The result is false, and so is its proof.
    FAILS = "fails"


class Survival(StrEnum):
    """What is left of a numbered result."""

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
        As the paper has it, such as ``Theorem 2``.
    proof : ProofStatus
        What became of the printed proof.
    claims : tuple of str
        Ids of the claims that state it or a numbered part of it.
    steps : tuple of str
        Ids of claims on steps of its proof and on what it rests on.
    change : str
        What an author would change, in one line; empty if nothing.
    """

    name: str
    proof: ProofStatus
    claims: tuple[str, ...]
    steps: tuple[str, ...] = ()
    change: str = ""


@dataclass(frozen=True)
class RootCause:
    """One error behind several refuted claims.

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
    """What a paper's numbered results come to.

    Parameters
    ----------
    results : tuple of NumberedResult
        In the order of the paper; empty if it numbers none.
    causes : tuple of RootCause
        Errors that several claims share.
    """

    results: tuple[NumberedResult, ...] = ()
    causes: tuple[RootCause, ...] = ()


def scoreboard(paper: str) -> Scoreboard:
    """Return the scoreboard of a paper, as ``papers/<paper>/results.toml`` has it.

    In the file ids have no paper, and those of a field are separated by spaces.

    Parameters
    ----------
    paper : str
        The first part of its claims' ids. What has no such file has an empty scoreboard.
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
    """Return the verdict on the printed result: the worst of its claims, with what is wrong.

    Parameters
    ----------
    result : NumberedResult
        The result.
    claims : dict
        Claims by id, those of the result among them.
    """
    parts = [claims[name] for name in result.claims]
    wrong = [defect for defect in Defect if any(part.defect is defect for part in parts)]
    if wrong:
        return f"{Verdict.REFUTED} ({', '.join(wrong)})"
    verdicts = {(recorded_verdicts(part) or ("",))[0] for part in parts}
    order = (Verdict.NOT_CHECKABLE, Verdict.SUPPORTED, Verdict.HOLDS)
    return next((verdict.value for verdict in order if verdict in verdicts), "")


def survival(result: NumberedResult, claims: dict[str, Claim]) -> Survival:
    """Return what is left of a result; see `printed` for the parameters."""
    parts = [claims[name] for name in result.claims]
    if any(part.defect is Defect.RESULT for part in parts):
        return Survival.NO
    on_record = [recorded_verdicts(part) or (None, None) for part in parts]
    if any(one == Verdict.REFUTED for one, _ in on_record):
        return Survival.CHANGED
    # What cannot be checked as printed may be known as corrected.
    if any(one == Verdict.NOT_CHECKABLE and two is None for one, two in on_record):
        return Survival.UNDECIDED
    return Survival.YES


def basis(result: NumberedResult, claims: dict[str, Claim]) -> Basis | None:
    """Return what a result that stands rests on, its weakest part; see `printed`."""
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


#: Headings of what `score` returns, that of the result before them.
SCORE_COLUMNS = ("result", "as printed", "survives", "evidence", "proof", "what to change")
