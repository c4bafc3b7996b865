"""Claims that no finite computation here can decide, with the reason."""

from functools import partial

from proofs_checks.claim import Claim, Context, Kind
from proofs_checks.evidence import Evidence, Verdict


def outside_claim(
    claim_id: str, source: str, title: str, statement: str, formula: str, why: str
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
        check=partial(_not_checkable, why=why),
    )


def _not_checkable(context: Context, *, why: str) -> Evidence:
    del context
    return Evidence(Verdict.NOT_CHECKABLE, summary=why)
