"""Numbered results of the throughput paper."""

from functools import partial

from proofs_checks.results import NumberedResult, ProofStatus, RootCause, Scoreboard, ids

_FULL_FASTEST = "full batches must be the fastest: b'/t_b' ≤ b/t_b"

_ids = partial(ids, "batching")

SCOREBOARD = Scoreboard(
    results=(
        NumberedResult(
            "Theorem 1 (a)",
            ProofStatus.MENDED,
            _ids("theorem1a"),
            _ids("theorem1a-sketch appendixb appendixb-square empties oldest"),
            "8Lλ in place of 4Lλ; batches of min(b, eligible tokens); K_d ≥ b",
        ),
        NumberedResult(
            "Theorem 1 (b)", ProofStatus.MENDED, _ids("theorem1b"), change=_FULL_FASTEST
        ),
        NumberedResult(
            "Proposition 1",
            ProofStatus.MENDED,
            _ids("proposition1"),
            _ids("proposition1-fewest"),
            "for the three balancers named; for fewest requests the sum of all workloads serves",
        ),
        NumberedResult("Conjecture 1", ProofStatus.OPEN, _ids("conjecture1")),
        NumberedResult(
            "Proposition 2 (a)",
            ProofStatus.MENDED,
            _ids("proposition2a"),
            _ids("c19 section4.2"),
            "(m_p + m_d)·Z_p + m_d·Z_d",
        ),
        NumberedResult(
            "Proposition 2 (b)",
            ProofStatus.MENDED,
            _ids("proposition2b"),
            _ids("c8"),
            "the rate b/t_b must bound increments in (C.12), as the proof uses it",
        ),
        NumberedResult(
            "Lemma 1",
            ProofStatus.MENDED,
            _ids("lemma1"),
            _ids("c8"),
            "(C.8) with b more, which vanishes in the limit",
        ),
        NumberedResult(
            "Lemma 2",
            ProofStatus.MENDED,
            _ids("lemma2"),
            change="states of fresh requests but for finitely many",
        ),
        NumberedResult(
            "Lemma 3",
            ProofStatus.OPEN,
            _ids("lemma3"),
            _ids("c9"),
            "rests on Lemma 2 as printed and on (C.9), which needs K_p + K_d − 1",
        ),
        NumberedResult("Proposition 3", ProofStatus.OPEN, _ids("proposition3")),
    ),
    causes=(
        RootCause(
            f"Taken for granted: {_FULL_FASTEST}, and batches begin at multiples of t_b.",
            _ids("theorem1b c8"),
        ),
        RootCause(
            "Weights of the two phases changed places in the total workload.",
            _ids("c19 section4.2"),
        ),
        RootCause(
            "E[(d + 1)²] ≤ 2E[d²] fails for short outputs.", _ids("appendixb-square appendixb")
        ),
        RootCause(
            "Work conservation as printed says nothing of states with fewer than b tokens, and "
            "small K_p, K_d make it impossible.",
            _ids("empties oldest c9"),
        ),
        RootCause(
            "Any balancer, where the proof is for those that look at the queues.",
            _ids("proposition1 proposition1-fewest"),
        ),
    ),
)
