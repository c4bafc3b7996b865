"""Numbered results of the KV-cache paper."""

from proofs_checks.results import NumberedResult, ProofStatus, RootCause, Scoreboard

SCOREBOARD = Scoreboard(
    results=(
        NumberedResult(
            "Proposition 4.1",
            ProofStatus.MENDED,
            ("kv.proposition4.1",),
            (),
            "S(t) must lose its finished requests in the pseudo-code too",
        ),
        NumberedResult(
            "Theorem 4.2",
            ProofStatus.FAILS,
            ("kv.theorem4.2", "kv.theorem4.2-limit"),
            ("kv.theorem4.2-exchange", "kv.checkpoints", "kv.eq1", "kv.eq2"),
            "optimal for up to three requests as far as enumerated (M up to 19), not for four; "
            "the later version no longer claims it",
        ),
        NumberedResult(
            "Theorem 5.3",
            ProofStatus.FAILS,
            ("kv.theorem5.3",),
            (
                "kv.eq3",
                "kv.eq4",
                "kv.eq6",
                "kv.eq7",
                "kv.footnote6",
                "kv.compensated-linear",
                "kv.coupling-constant",
                "kv.coupling-inequality",
                "kv.off-subset",
                "kv.pending-difference",
                "kv.regret-decomposition",
            ),
            "the regret can grow linearly in T; the later version no longer claims it",
        ),
        NumberedResult(
            "Lemma 5.4",
            ProofStatus.FAILS,
            ("kv.lemma5.4-i", "kv.lemma5.4-ii", "kv.lemma5.4-iii"),
            (),
            "holds where OFF starts what Algorithm 2 starts, and then says nothing",
        ),
        NumberedResult(
            "Lemma 5.5",
            ProofStatus.FAILS,
            ("kv.lemma5.5",),
            ("kv.lemma5.5-hoeffding", "kv.lemma5.5-mean", "kv.lemma5.5-tail"),
            "no constant C_1 does; K·log T does if λ·ℓ < 1 or λ·(2ℓ − 1) < ⌊M/π⌋",
        ),
        NumberedResult(
            "Lemma 5.6",
            ProofStatus.FAILS,
            ("kv.lemma5.6",),
            ("kv.lemma5.6-minimum", "kv.lemma5.5-tail"),
            "no constant C_2 does, and for constant t_0 no C_2 = o(T)",
        ),
        NumberedResult(
            "Theorem 6.2",
            ProofStatus.MENDED,
            ("kv.theorem6.2",),
            ("kv.theorem6.2-costs", "kv.theorem6.2-ratio"),
            "totals are up to M off, and the ratio tends to 1/ε from below",
        ),
        NumberedResult(
            "Theorem 6.4",
            ProofStatus.MENDED,
            ("kv.theorem6.4",),
            (
                "kv.eq8",
                "kv.theorem6.4-bound",
                "kv.theorem6.4-conditional",
                "kv.theorem6.4-distribution",
                "kv.theorem6.4-room",
                "kv.theorem6.4-sum",
            ),
            "another distribution of instances; nothing is cleared, as in Theorem 6.2",
        ),
        NumberedResult("Ω(√n), later version", ProofStatus.READ, ("kv.square-root",)),
    ),
    causes=(
        RootCause(
            "Requests that start together end together: their memory stands idle before, and the "
            "shortest first need not be best.",
            (
                "kv.theorem4.2",
                "kv.theorem4.2-limit",
                "kv.theorem4.2-equal",
                "kv.theorem4.2-exchange",
                "kv.theorem5.3",
                "kv.stability",
            ),
        ),
        RootCause(
            "The hindsight optimum is taken to start a subset of what Algorithm 2 starts, and "
            "Off-Couple to catch up with it.",
            (
                "kv.off-subset",
                "kv.coupling-inequality",
                "kv.eq7",
                "kv.lemma5.4-i",
                "kv.lemma5.4-ii",
                "kv.lemma5.4-iii",
                "kv.figure4",
            ),
        ),
        RootCause(
            "A concentration bound with δ = 1/T is read as a bound on the opposite event.",
            ("kv.lemma5.5-tail", "kv.coupling-constant"),
        ),
        RootCause(
            "Three conventions of when a request holds its memory.",
            ("kv.memory-rules", "kv.appendix-b1-round0", "kv.theorem6.2-costs"),
        ),
        RootCause(
            "The instances of the randomized bound: c/ε + 1 values counted as c/ε, early starts "
            "left out.",
            ("kv.theorem6.4-distribution", "kv.theorem6.4-conditional", "kv.theorem6.4-bound"),
        ),
        RootCause(
            "What is shown for a common prompt is used with prompts that differ.",
            ("kv.eq2-mixed", "kv.break-mixed"),
        ),
    ),
)
