"""Every claim: its verdicts at quick effort, its mutations, its stored counterexample."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from proofs_checks import claims
from proofs_checks.claim import Claim, Effort, Kind, Mutation
from proofs_checks.evidence import Basis, Data, Verdict, basis_of
from proofs_checks.run import run_check, run_claim
from proofs_checks.search import shrink, size
from proofs_checks.store import COUNTEREXAMPLES, recorded, stored_counterexample
from tests.places import ROOT

ALL = claims()
STORED = {path.stem for path in COUNTEREXAMPLES.glob("*.json")}
_recorded = cache(recorded)
#: Every third claim with its first mutation; in the long profile all claims with all of them.
MUTATIONS = [
    pytest.param(
        claim,
        mutation,
        marks=() if k % 3 == 0 and mutation is claim.mutations[0] else pytest.mark.deep,
        id=f"{claim.id}: {mutation.name}",
    )
    for k, claim in enumerate(ALL)
    for mutation in claim.mutations
]


def _entry(claim: Claim) -> dict[str, Any]:
    entry: dict[str, Any] | None = _recorded(claim.id.split(".")[0]).get(claim.id)
    assert entry is not None, f"run python -m proofs_checks.record {claim.id}"
    return entry


@pytest.mark.parametrize("claim", ALL, ids=lambda claim: claim.id)
def test_a_claim_gives_the_verdicts_on_record(claim: Claim) -> None:
    """And its stored counterexample, if there is one, is one."""
    report = run_claim(claim, Effort.QUICK, seed=0)
    assert report.error is None
    assert report.recorded is not None, f"run python -m proofs_checks.record {claim.id}"
    assert report.reproduced, (report.evidence, report.recorded, report.stored)


@pytest.mark.parametrize(("claim", "mutation"), MUTATIONS)
def test_a_mutation_is_caught(claim: Claim, mutation: Mutation) -> None:
    """With one part broken a check gives other verdicts, and not for want of instances."""
    broken = run_check(claim, Effort.QUICK, 0, mutation)
    entry = _entry(claim)
    assert broken.verdicts != (entry["as_printed"], entry["as_corrected"])


def test_what_is_exhaustive_states_its_size() -> None:
    """A domain that is looked through whole is told in figures, not as a small one."""
    for claim in ALL:
        evidence = _entry(claim)["evidence"]
        if basis_of(evidence, claim.proof) is Basis.EXHAUSTIVE:
            for tally in evidence["tallies"]:
                assert not re.search(r"\b(small|few)\b", tally["made"]), (claim.id, tally)


@pytest.mark.deep
@pytest.mark.parametrize("claim", ALL, ids=lambda claim: claim.id)
@pytest.mark.parametrize("seed", range(1, 6))
def test_verdicts_do_not_depend_on_the_seed(claim: Claim, seed: int) -> None:
    """Five other seeds, at normal effort: the same verdicts."""
    report = run_claim(claim, Effort.NORMAL, seed)
    assert report.reproduced, (report.error, report.evidence)


@pytest.mark.parametrize(
    "claim", [claim for claim in ALL if claim.id in STORED], ids=lambda claim: claim.id
)
def test_a_stored_counterexample_is_minimal(claim: Claim) -> None:
    """No single move makes the data of an exact refutation smaller."""
    assert _entry(claim)["as_printed"] == Verdict.REFUTED
    stored, verify = stored_counterexample(claim), claim.verify
    assert stored is not None
    assert verify is not None
    assert size(shrink(stored["data"], lambda data: verify(data) is not None)) == size(
        stored["data"]
    )
    assert verify(stored["data"]) == stored["why"]


def test_refuted_claims_have_a_stored_counterexample() -> None:
    """Unless refuted by an estimate, where there is no instance to show; and no others have."""
    refuted = {claim.id for claim in ALL if _entry(claim)["as_printed"] == Verdict.REFUTED}
    assert refuted >= STORED
    for claim in ALL:
        if claim.id in refuted - STORED:
            assert _entry(claim)["evidence"]["estimates"], claim.id


def test_a_verifier_accepts_no_empty_data() -> None:
    """Nothing at all, and the stored data emptied, are none; it may raise for them."""
    for claim in ALL:
        stored = stored_counterexample(claim)
        keys = {} if stored is None else stored["data"]
        emptied: tuple[Data, ...] = ({}, dict.fromkeys(keys, 0), {key: [] for key in keys})
        for data in emptied if claim.verify is not None else ():
            try:
                assert claim.verify is not None
                said = claim.verify(data)
            except (ValueError, IndexError, KeyError, ArithmeticError, TypeError):
                continue
            assert said is None, (claim.id, data)


def test_a_claim_says_what_its_verdicts_need() -> None:
    """Defect and correction where the printed statement fails; a reason where none can be had."""
    for claim in ALL:
        entry = _entry(claim)
        assert (claim.correction is not None) == (entry["as_corrected"] is not None), claim.id
        assert (claim.defect is not None) == (entry["as_printed"] == Verdict.REFUTED), claim.id
        assert claim.defect is None or claim.correction is not None, claim.id
        if claim.kind is Kind.OUTSIDE:
            assert entry["as_printed"] == Verdict.NOT_CHECKABLE, claim.id
            assert entry["evidence"]["summary"], claim.id


def test_checks_do_not_read_what_is_stored() -> None:
    """No module that holds claims, and none that searches, imports the store: they find anew."""
    searching = [*(ROOT / "proofs_checks" / "papers").rglob("*.py")]
    searching += [ROOT / "proofs_checks" / f"{name}.py" for name in ("search", "claim")]
    for path in searching:
        imported = {
            alias.name if isinstance(node, ast.Import) else node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not {"proofs_checks.store", "proofs_checks.run", "json"} & imported, path


def test_the_same_verdicts_without_stored_counterexamples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the folder gone Lemma 1 is refuted all the same."""
    monkeypatch.setattr("proofs_checks.store.COUNTEREXAMPLES", tmp_path)
    (claim,) = (claim for claim in ALL if claim.id == "balance.lemma1")
    report = run_claim(claim, Effort.QUICK, seed=0)
    assert report.stored == "none"
    assert report.reproduced


def test_the_known_refutations_are_among_the_claims() -> None:
    """What careful readers have found wrong in the paper is found here."""
    verdicts = {name: entry["as_printed"] for name, entry in recorded("balance").items()}
    for name in ("lemma1", "lemma7-step", "round-robin", "definition2", "decode-steps"):
        assert verdicts[f"balance.{name}"] == Verdict.REFUTED
