"""What earlier runs found: counterexamples, and the evidence at quick effort.

Both are JSON files beside this module. Checks never read them. A counterexample from the file is
verified again on every run; the recorded evidence is what ``docs/claims.md`` shows and what the
verdicts of a run are compared with.
"""

import json
from pathlib import Path
from typing import Any

from formulations.documents import parse_json
from proofs_checks.evidence import Counterexample

_FOLDER = Path(__file__).parent
COUNTEREXAMPLES = _FOLDER / "counterexamples"
RECORDED = _FOLDER / "recorded"


def stored_counterexample(claim_id: str) -> dict[str, Any] | None:
    """Return the stored counterexample of a claim (``data``, ``why``, ``found``), or None."""
    path = COUNTEREXAMPLES / f"{claim_id}.json"
    return _read(path) if path.exists() else None


def store_counterexample(claim_id: str, example: Counterexample | None) -> None:
    """Write the counterexample of a claim; without one, remove the file."""
    path = COUNTEREXAMPLES / f"{claim_id}.json"
    if example is None:
        path.unlink(missing_ok=True)
    else:
        _write(path, vars(example))


def recorded(paper: str) -> dict[str, Any]:
    """Return the recorded verdicts and evidence of a paper's claims, by claim id."""
    path = RECORDED / f"{paper}.json"
    return _read(path) if path.exists() else {}


def record(paper: str, entries: dict[str, Any]) -> None:
    """Write the recorded evidence of a paper's claims, by claim id."""
    _write(RECORDED / f"{paper}.json", dict(sorted(entries.items())))


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
    return document


def _write(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")
