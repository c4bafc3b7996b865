"""The claims of the papers, as checks that run and give verdicts.

``proofs_checks.claims()`` returns the claims; ``bfio check`` runs their checks. README.md
describes how to add a claim.
"""

from typing import TYPE_CHECKING

from formulations.lazy import lazy_attributes

if TYPE_CHECKING:
    from proofs_checks.claim import Claim, Context, Effort, Kind, Mutation
    from proofs_checks.evidence import Counterexample, Estimate, Evidence, Tally, Verdict
    from proofs_checks.registry import claims

_HOMES = {
    "Claim": "proofs_checks.claim",
    "Context": "proofs_checks.claim",
    "Counterexample": "proofs_checks.evidence",
    "Effort": "proofs_checks.claim",
    "Estimate": "proofs_checks.evidence",
    "Evidence": "proofs_checks.evidence",
    "Kind": "proofs_checks.claim",
    "Mutation": "proofs_checks.claim",
    "Tally": "proofs_checks.evidence",
    "Verdict": "proofs_checks.evidence",
    "claims": "proofs_checks.registry",
}

__all__ = [
    "Claim",
    "Context",
    "Counterexample",
    "Effort",
    "Estimate",
    "Evidence",
    "Kind",
    "Mutation",
    "Tally",
    "Verdict",
    "claims",
]


__getattr__, __dir__ = lazy_attributes(__name__, _HOMES)
