"""What earlier runs found: counterexamples, and the evidence at quick effort.

Both are JSON files beside this module. Checks never read them. A counterexample from the file is
verified again on every run; the recorded evidence is what ``docs/claims.md`` shows and what the
verdicts of a run are compared with.
"""

import json
from pathlib import Path
from typing import Any

from formulations.documents import parse_json
from formulations.errors import InputError
from proofs_checks.evidence import Counterexample

_FOLDER = Path(__file__).parent
COUNTEREXAMPLES = _FOLDER / "counterexamples"
RECORDED = _FOLDER / "recorded"
_ENTRY = {"as_printed", "as_corrected", "evidence"}


def stored_counterexample(claim_id: str) -> dict[str, Any] | None:
    """Return the stored counterexample of a claim (``data``, ``why``, ``found``), or None.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    path = COUNTEREXAMPLES / f"{claim_id}.json"
    if not path.exists():
        return None
    document = _read(path)
    if not (isinstance(document.get("data"), dict) and isinstance(document.get("why"), str)):
        raise _damaged(path, "no object with data and why")
    return document


def store_counterexample(claim_id: str, example: Counterexample | None) -> None:
    """Write the counterexample of a claim; without one, remove the file."""
    path = COUNTEREXAMPLES / f"{claim_id}.json"
    if example is None:
        path.unlink(missing_ok=True)
    else:
        _write(path, vars(example))


def recorded(paper: str) -> dict[str, Any]:
    """Return the recorded verdicts and evidence of a paper's claims, by claim id.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    path = RECORDED / f"{paper}.json"
    if not path.exists():
        return {}
    document = _read(path)
    for claim_id, entry in document.items():
        if not isinstance(entry, dict) or not set(entry) >= _ENTRY:
            raise _damaged(path, f"{claim_id} has not {', '.join(sorted(_ENTRY))}")
    return document


def recorded_verdicts(claim_id: str) -> tuple[str | None, str | None] | None:
    """Return both verdicts on record, or None for a claim without a record."""
    entry = recorded(claim_id.split(".")[0]).get(claim_id)
    return None if entry is None else (entry["as_printed"], entry["as_corrected"])


def record(paper: str, entries: dict[str, Any]) -> None:
    """Write the recorded evidence of a paper's claims, by claim id."""
    _write(RECORDED / f"{paper}.json", dict(sorted(entries.items())))


def _read(path: Path) -> dict[str, Any]:
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
