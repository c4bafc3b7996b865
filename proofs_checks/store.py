"""Stored results of earlier runs: counterexamples, and evidence at normal effort.

Both are JSON files. Those of the papers' claims are next to this module; those of a user-defined
claim are in a folder next to its file (`records_of`). Checks never read them. Every run verifies
the stored counterexamples again and compares its verdicts with the recorded evidence, which
``docs/claims.md`` shows.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formulations.documents import parse_json
from formulations.errors import InputError
from formulations.named_objects import source_of
from proofs_checks.claim import Claim
from proofs_checks.evidence import Counterexample

_FOLDER = Path(__file__).parent
COUNTEREXAMPLES = _FOLDER / "counterexamples"
RECORDED = _FOLDER / "recorded"
#: Largest file that is read; our files have some kilobytes.
_MOST_BYTES = 2**24
_ENTRY = {"as_printed", "as_corrected", "evidence"}


@dataclass(frozen=True)
class Records:
    """Locations of stored results: a folder of counterexamples and one of recorded evidence."""

    counterexamples: Path
    recorded: Path


def records_of(claim: Claim) -> Records:
    """Return where a claim is recorded: in the package only if the package states the claim."""
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
        raise _damaged(path, "no object with data and why")
    return document


def refuse_counterexample(claim: Claim, what: str) -> InputError:
    """Return the error for a stored counterexample that cannot be verified."""
    return _damaged(_counterexample_file(claim), what)


def _counterexample_file(claim: Claim) -> Path:
    return records_of(claim).counterexamples / f"{claim.id}.json"


def store_counterexample(claim: Claim, example: Counterexample | None) -> None:
    """Write the counterexample of a claim, or remove the file if there is none."""
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
            raise _damaged(path, f"{claim_id} has not {', '.join(sorted(_ENTRY))}")
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
        raise _damaged(path, "no object")
    return document


def _damaged(path: Path, what: str) -> InputError:
    remedy = "restore it, or remove it and run python -m proofs_checks.record"
    return InputError(f"{path.parent.name}/{path.name}", f"damaged ({what})", remedy)


def _write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")
