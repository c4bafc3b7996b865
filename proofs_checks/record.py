"""Run claims, record their evidence, and write ``docs/claims.md`` and the pages of the papers.

    python -m proofs_checks.record [CLAIM ...]

Run this command after adding or changing a claim, and review the resulting diff. A claim is not
recorded if its check misses one of its mutations. User-defined claims (``FILE.py:NAME``) are
recorded next to their file; the pages do not show them.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from formulations.errors import InputError
from proofs_checks.claim import Claim, Effort
from proofs_checks.evidence import ContradictoryEvidenceError, Counterexample, VacuousCheckError
from proofs_checks.page import pages
from proofs_checks.registry import claims, named
from proofs_checks.run import run_check
from proofs_checks.search import size
from proofs_checks.store import (
    paper_of,
    record,
    recorded,
    records_of,
    store_counterexample,
    stored_counterexample,
)

_DOCS = Path(__file__).resolve().parents[1] / "docs"


def record_claims(selected: tuple[Claim, ...]) -> None:
    """Run the checks of claims, and record their evidence and counterexamples.

    Raises
    ------
    InputError
        If a check gives the same verdicts under one of its mutations.
    """
    for claim in selected:
        paper, folder = paper_of(claim), records_of(claim).recorded
        evidence = run_check(claim, Effort.NORMAL, 0)
        evidence = replace(evidence, counterexample=_smaller(claim, evidence.counterexample))
        for mutation in claim.mutations:
            broken = run_check(claim, Effort.QUICK, 0, mutation)
            if broken.verdicts == evidence.verdicts:
                what = f"the mutation {mutation.name!r} gives the same verdicts"
                raise InputError(f"claim {claim.id}", what, "change check or mutation")
        entry = {
            "as_printed": evidence.as_printed.value,
            "as_corrected": evidence.as_corrected and evidence.as_corrected.value,
            "evidence": evidence.to_mapping(),
        }
        record(paper, recorded(paper, folder) | {claim.id: entry}, folder)
        store_counterexample(claim, evidence.counterexample)
        said = ", ".join(filter(None, (evidence.as_printed, evidence.as_corrected)))
        said = f"{claim.id}: {said}"
        print(f"{said}, recorded in {folder}" if claim.named_as else said, file=sys.stderr)


def _smaller(claim: Claim, found: Counterexample | None) -> Counterexample | None:
    """Return the new counterexample, or the stored one if it is smaller and still valid."""
    stored = stored_counterexample(claim)
    if found is None or stored is None or claim.verify is None:
        return found
    if size(stored["data"]) >= size(found.data) or claim.verify(stored["data"]) != stored["why"]:
        return found
    return Counterexample(**stored)


def forget_others(selected: tuple[Claim, ...]) -> None:
    """Drop records of claims that no longer exist, in the papers of the selected claims."""
    known = {claim.id for claim in claims()}
    for paper in {paper_of(claim) for claim in selected if not claim.named_as}:
        kept = {name: entry for name, entry in recorded(paper).items() if name in known}
        record(paper, kept)


def write_pages() -> None:
    """Write the claim pages in ``docs``, if this is a source checkout."""
    if not _DOCS.is_dir():
        return
    written = pages(tuple(claim for claim in claims() if not claim.named_as))
    for path in (_DOCS / "claims").glob("*.md"):
        if f"claims/{path.name}" not in written:
            path.unlink()
    for name, text in written.items():
        path = _DOCS / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main(names: Sequence[str]) -> int:
    """Record the named claims and write the pages; return the exit status."""
    try:
        selected = named(names)
        record_claims(selected)
        forget_others(selected)
        write_pages()
    except (InputError, VacuousCheckError, ContradictoryEvidenceError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
