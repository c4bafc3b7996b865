"""Stored results of checks, and the scoreboard of the papers' numbered results.

Counterexamples, and evidence at normal effort, are JSON files. Those of the papers' claims are
next to this module; those of a user-defined claim are in a folder next to its file
(`records_of`). Checks never read them. Every run verifies the stored counterexamples again and
compares its verdicts with the recorded evidence, which ``docs/claims.md`` shows.

A claim concerns a single statement. A numbered result lists the claims that make up a theorem,
those on steps of its proof, the status of that proof, and the change an author would make.
"""

import json
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from formulations.errors import InputError
from formulations.named_objects import source_of
from formulations.problem_data import parse_json
from proofs_checks.claim import Claim, Defect
from proofs_checks.evidence import Basis, Counterexample, Verdict, basis_of

_FOLDER = Path(__file__).parent
COUNTEREXAMPLES = _FOLDER / "counterexamples"
RECORDED = _FOLDER / "recorded"
#: Largest file that is read; our files have some kilobytes.
_MOST_BYTES = 2**24
_ENTRY = {"as_printed", "as_corrected", "evidence"}


@dataclass(frozen=True)
class Records:
    """Locations of stored results: the folders of counterexamples and of recorded evidence."""

    counterexamples: Path
    recorded: Path


def records_of(claim: Claim) -> Records:
    """Return the folders of a claim's stored results: in the package, or next to a user's file."""
    if not claim.named_as:
        return Records(COUNTEREXAMPLES, RECORDED)
    name, file = source_of(claim.named_as)
    stem = name.rpartition(".")[2] if file is None else file.stem
    folder = (Path.cwd() if file is None else file.parent) / f"{stem}_record"
    return Records(folder / "counterexamples", folder)


def stored_counterexample(claim: Claim) -> dict[str, Any] | None:
    """Return the stored counterexample of a claim (``data``, ``why``, ``found``), or None.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    path = _counterexample_file(claim)
    if not path.exists():
        return None
    document = _read(path)
    if not (isinstance(document.get("data"), dict) and isinstance(document.get("why"), str)):
        raise _damaged(path, "not an object with data and why")
    return document


def refuse_counterexample(claim: Claim, what: str) -> InputError:
    """Return the error for a stored counterexample that cannot be verified."""
    return _damaged(_counterexample_file(claim), what)


def _counterexample_file(claim: Claim) -> Path:
    return records_of(claim).counterexamples / f"{claim.id}.json"


def store_counterexample(claim: Claim, example: Counterexample | None) -> None:
    """Write the counterexample of a claim; without one, remove its file."""
    path = _counterexample_file(claim)
    if example is None:
        path.unlink(missing_ok=True)
    else:
        _write(path, vars(example))


def recorded_entry(claim: Claim) -> dict[str, Any] | None:
    """Return the recorded verdicts and evidence, or None for a claim without a record."""
    entry: dict[str, Any] | None
    entry = recorded(paper_of(claim), records_of(claim).recorded).get(claim.id)
    return entry


def paper_of(claim: Claim) -> str:
    """Return the short name of a claim's paper."""
    return claim.id.split(".")[0]


def recorded(paper: str, folder: Path | None = None) -> dict[str, Any]:
    """Return the recorded verdicts and evidence of a paper's claims, by claim id.

    Parameters
    ----------
    paper : str
        The first part of their ids.
    folder : Path, optional
        Where they are stored; by default in the package.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    path = (folder or RECORDED) / f"{paper}.json"
    if not path.exists():
        return {}
    document = _read(path)
    for claim_id, entry in document.items():
        if not isinstance(entry, dict) or not set(entry) >= _ENTRY:
            raise _damaged(path, f"{claim_id} lacks one of {', '.join(sorted(_ENTRY))}")
    return document


def recorded_verdicts(claim: Claim) -> tuple[str | None, str | None] | None:
    """Return both recorded verdicts, or None for a claim without a record."""
    entry = recorded_entry(claim)
    return None if entry is None else (entry["as_printed"], entry["as_corrected"])


def record(paper: str, entries: dict[str, Any], folder: Path | None = None) -> None:
    """Write the recorded evidence of a paper's claims, by claim id; see `recorded`."""
    _write((folder or RECORDED) / f"{paper}.json", dict(sorted(entries.items())))


def _check_size(path: Path) -> None:
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise _damaged(path, f"{size:,} bytes, more than {_MOST_BYTES:,}")


def _read(path: Path) -> dict[str, Any]:
    _check_size(path)
    try:
        document = parse_json(path.read_text(encoding="utf-8"))
    except InputError as error:
        raise _damaged(path, f"{error.where}: {error.what}") from None
    except (OSError, UnicodeError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from None
    if not isinstance(document, dict):
        raise _damaged(path, "not a JSON object")
    return document


def _damaged(path: Path, what: str) -> InputError:
    remedy = "restore it, or remove it and run python -m proofs_checks.record"
    return InputError(f"{path.parent.name}/{path.name}", f"damaged ({what})", remedy)


def _write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")


_PAPERS = Path(__file__).parent / "papers"


class ProofStatus(StrEnum):
    """Status of a printed proof, after each of its steps was checked."""

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
    """One numbered result of a paper, with its claims.

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
    """One error of a paper that refutes several claims.

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
    """Return how much of a numbered result survives correction; parameters as in `printed`."""
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
