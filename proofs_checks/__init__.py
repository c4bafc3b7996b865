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


__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "proofs_checks.claim": "Claim Context Effort Kind Mutation",
        "proofs_checks.evidence": "Counterexample Estimate Evidence Tally Verdict",
        "proofs_checks.registry": "claims",
    },
)
