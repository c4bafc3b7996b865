"""Claims that no finite computation here can decide, with the reason."""

from proofs_checks.claim import Claim, Kind, Scope
from proofs_checks.evidence import Evidence, Verdict


def outside_claim(
    claim_id: str,
    source: str,
    title: str,
    statement: str,
    formula: str,
    why: str,
    *,
    scope: Scope = Scope.EXPERIMENT,
) -> Claim:
    """Return a claim that is not checkable here; ``why`` says so on its page."""
    return Claim(
        id=claim_id,
        source=source,
        title=title,
        statement=statement,
        formula=formula,
        hypotheses=(),
        kind=Kind.OUTSIDE,
        scope=scope,
        check=lambda context: Evidence(Verdict.NOT_CHECKABLE),
        summary=why,
    )
