"""Numbered results of the throughput paper."""

from proofs_checks.results import NumberedResult, ProofStatus, RootCause, Scoreboard

_FULL_FASTEST = "full batches must be the fastest: b'/t_b' ≤ b/t_b"

SCOREBOARD = Scoreboard(
    results=(
        NumberedResult(
            "Theorem 1 (a)",
            ProofStatus.MENDED,
            ("batching.theorem1a",),
            (
                "batching.theorem1a-sketch",
                "batching.appendixb",
                "batching.appendixb-square",
                "batching.empties",
                "batching.oldest",
            ),
            "8Lλ in place of 4Lλ; batches of min(b, eligible tokens); K_d ≥ b",
        ),
        NumberedResult(
            "Theorem 1 (b)", ProofStatus.MENDED, ("batching.theorem1b",), (), _FULL_FASTEST
        ),
        NumberedResult(
            "Proposition 1",
            ProofStatus.MENDED,
            ("batching.proposition1",),
            ("batching.proposition1-fewest",),
            "for the three balancers named; for fewest requests the sum of all workloads serves",
        ),
        NumberedResult("Conjecture 1", ProofStatus.OPEN, ("batching.conjecture1",)),
        NumberedResult(
            "Proposition 2 (a)",
            ProofStatus.MENDED,
            ("batching.proposition2a",),
            ("batching.c19", "batching.section4.2"),
            "(m_p + m_d)·Z_p + m_d·Z_d",
        ),
        NumberedResult(
            "Proposition 2 (b)",
            ProofStatus.MENDED,
            ("batching.proposition2b",),
            ("batching.c8",),
            "the rate b/t_b must bound increments in (C.12), as the proof uses it",
        ),
        NumberedResult(
            "Lemma 1",
            ProofStatus.MENDED,
            ("batching.lemma1",),
            ("batching.c8",),
            "(C.8) with b more, which vanishes in the limit",
        ),
        NumberedResult(
            "Lemma 2",
            ProofStatus.MENDED,
            ("batching.lemma2",),
            (),
            "states of fresh requests but for finitely many",
        ),
        NumberedResult(
            "Lemma 3",
            ProofStatus.OPEN,
            ("batching.lemma3",),
            ("batching.c9",),
            "rests on Lemma 2 as printed and on (C.9), which needs K_p + K_d − 1",
        ),
        NumberedResult("Proposition 3", ProofStatus.OPEN, ("batching.proposition3",)),
    ),
    causes=(
        RootCause(
            f"Taken for granted: {_FULL_FASTEST}, and batches begin at multiples of t_b.",
            ("batching.theorem1b", "batching.c8"),
        ),
        RootCause(
            "Weights of the two phases changed places in the total workload.",
            ("batching.c19", "batching.section4.2"),
        ),
        RootCause(
            "E[(d + 1)²] ≤ 2E[d²] fails for short outputs.",
            ("batching.appendixb-square", "batching.appendixb"),
        ),
        RootCause(
            "Work conservation as printed says nothing of states with fewer than b tokens, and "
            "small K_p, K_d make it impossible.",
            ("batching.empties", "batching.oldest", "batching.c9"),
        ),
        RootCause(
            "Any balancer, where the proof is for those that look at the queues.",
            ("batching.proposition1", "batching.proposition1-fewest"),
        ),
    ),
)
