"""Run checks, compare verdicts with recorded ones, and verify stored counterexamples."""

import time
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bfio.common.memory import limited_memory
from bfio.common.processes import in_processes
from formulations.deadline import Deadline, OutOfTime
from formulations.errors import InputError
from formulations.named_objects import place_of
from proofs_checks.claim import Claim, Context, Effort, Mutation
from proofs_checks.evidence import Evidence, VacuousCheckError, basis_of
from proofs_checks.registry import claims, users_claims
from proofs_checks.search import evidence_of
from proofs_checks.store import recorded_verdicts, refuse_counterexample, stored_counterexample

#: Below this many claims a second process costs more than it saves.
_LEAST_TO_SHARE = 4
#: Time limit for verifying a stored counterexample. Valid ones take some hundredths of a second,
#: but a damaged file may contain arbitrarily large numbers.
_VERIFYING_S, _VERIFYING_BYTES = 5.0, 2**30


@dataclass(frozen=True)
class ClaimReport:
    """The result of running one check.

    Parameters
    ----------
    claim_id : str
        The claim.
    evidence : Evidence or None
        None if the check failed with an error.
    error : str or None
        The error.
    recorded : tuple of str or None, or None
        Recorded verdicts (as printed, as corrected); None for a claim without a record.
    stored : str
        State of the stored counterexample: ``verified``, ``broken`` or ``none``.
    seconds : float
        Wall-clock time of the check.
    """

    claim_id: str
    evidence: Evidence | None
    error: str | None
    recorded: tuple[str | None, str | None] | None
    stored: str
    seconds: float

    @property
    def reproduced(self) -> bool:
        """Whether the verdicts match the record and the stored counterexample is valid."""
        if self.error is not None or self.evidence is None or self.stored == "broken":
            return False
        return self.recorded is None or self.recorded == self.evidence.verdicts


def run_check(
    claim: Claim, effort: Effort, seed: int, mutation: Mutation | None = None
) -> Evidence:
    """Run a claim's check, optionally with a mutation.

    The random generator depends only on the claim and the seed.
    """
    own = zlib.crc32(claim.id.encode())
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(own,)))
    changes = {} if mutation is None else mutation.changes
    return evidence_of(claim, claim.check(Context(effort, rng, claim.verify), **changes))


def run_claim(claim: Claim, effort: Effort, seed: int) -> ClaimReport:
    """Run the check of a claim, and verify its stored counterexample."""
    began = time.perf_counter()
    evidence, error = _evidence(claim, effort, seed)
    on_record, stored = None, "none"
    try:
        on_record, stored = recorded_verdicts(claim), _stored(claim)
    except InputError as damaged:
        error = error or str(damaged)
    return ClaimReport(
        claim_id=claim.id,
        evidence=evidence,
        error=error,
        recorded=on_record,
        stored=stored,
        seconds=time.perf_counter() - began,
    )


def run_claims(
    selection: Sequence[Claim], effort: Effort, seed: int, jobs: int = 1
) -> Generator[ClaimReport, None, None]:
    """Check claims, in order, on up to ``jobs`` processes.

    Raises
    ------
    InputError
        If a worker process is killed.
    """
    if jobs == 1 or len(selection) < _LEAST_TO_SHARE:
        for claim in selection:
            yield run_claim(claim, effort, seed)
        return
    by_id = partial(_run_by_id, effort=effort, seed=seed)
    names = [(claim.named_as, claim.id) for claim in selection]
    yield from in_processes(by_id, names, jobs, "claims")


def report_document(claim: Claim, report: ClaimReport) -> dict[str, Any]:
    """Return the JSON document of one claim, as ``bfio check --json`` prints it."""
    evidence = report.evidence
    found = None if evidence is None else evidence.to_mapping()
    return {
        "id": claim.id,
        "source": claim.source,
        "title": claim.title,
        "statement": claim.statement,
        "formula": claim.formula,
        "hypotheses": list(claim.hypotheses),
        "kind": claim.decided_by.value,
        "scope": claim.scope.value,
        "reading": claim.reading,
        "correction": claim.correction,
        "defect": claim.defect,
        "as_printed": None if evidence is None else evidence.as_printed,
        "as_corrected": None if evidence is None else evidence.as_corrected,
        "basis": None if found is None else basis_of(found, claim.proof),
        "proof": claim.proof,
        "evidence": found,
        "error": report.error,
        "recorded": None if report.recorded is None else list(report.recorded),
        "stored_counterexample": report.stored,
        "reproduced": report.reproduced,
        "mutations": [mutation.name for mutation in claim.mutations],
        "seconds": report.seconds,
    }


def _run_by_id(name: tuple[str, str], effort: Effort, seed: int) -> ClaimReport:
    named_as, claim_id = name
    try:
        known = users_claims(named_as) if named_as else claims()
        (claim,) = (claim for claim in known if claim.id == claim_id)
    # Some exceptions cannot be pickled for the parent process; their text can.
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
        return ClaimReport(claim_id, None, error, None, "none", 0.0)
    return run_claim(claim, effort, seed)


def _evidence(claim: Claim, effort: Effort, seed: int) -> tuple[Evidence | None, str | None]:
    """Return the evidence of a check, or the text of an exception that the check raised."""
    try:
        return run_check(claim, effort, seed), None
    except VacuousCheckError as vacuous:
        return None, f"vacuous: {vacuous}"
    except (Exception, SystemExit) as failure:
        what = " ".join(f"{type(failure).__name__}: {failure}".split())
        # The first two entries of the traceback are this function and `run_check`.
        return None, f"{what}{place_of(failure, skipped=2)}"


def _stored(claim: Claim) -> str:
    stored = stored_counterexample(claim)
    if stored is None:
        return "none"
    try:
        with Deadline(_VERIFYING_S).interrupting(), limited_memory(_VERIFYING_BYTES):
            said = None if claim.verify is None else claim.verify(stored["data"])
    except (OutOfTime, MemoryError):
        what = f"not verified within {_VERIFYING_S:g} s and {_VERIFYING_BYTES >> 20} MiB"
        raise refuse_counterexample(claim, what) from None
    # Data from a file may be arbitrary, but verifiers expect a valid instance.
    except Exception:
        said = None
    return "verified" if said is not None and said == stored["why"] else "broken"
