"""Numbered results of the BF-IO paper."""

from proofs_checks.results import NumberedResult, ProofStatus, RootCause, Scoreboard

_LAW = "B_0 depends on the law of prompts (through κ_0), which only the proof could say"

SCOREBOARD = Scoreboard(
    results=(
        NumberedResult(
            "Theorem 1",
            ProofStatus.MENDED,
            ("balance.theorem1",),
            (
                "balance.lockstep",
                "balance.round-law",
                "balance.eq12",
                "balance.eq13",
                "balance.eq14",
                "balance.eq15",
                "balance.maximum",
                "balance.eq16",
            ),
            f"{_LAW}; the inequality for the maximum needs its negative part; rounds under BF-IO "
            "are no independent draws, and need not be",
        ),
        NumberedResult(
            "Lemma 1",
            ProofStatus.MENDED,
            ("balance.lemma1",),
            (),
            "name the tie-break: fewest workers at the maximum",
        ),
        NumberedResult(
            "Lemma 2",
            ProofStatus.MENDED,
            ("balance.lemma2",),
            (
                "balance.lemma2-chernoff",
                "balance.lemma2-objective",
                "balance.lemma2-pool",
                "balance.lemma2-strict",
            ),
            "its policy minimises the gap, (IO) the imbalance; one proof for both, with s_max − "
            "s_min in place of s_max (own.separation-levels)",
        ),
        NumberedResult(
            "Lemma 3",
            ProofStatus.MENDED,
            ("balance.lemma3",),
            ("balance.lemma3-exponent",),
            "the minimum in the exponent is at least α_B, not 2α_B; no more is used",
        ),
        NumberedResult(
            "Lemma 4",
            ProofStatus.MENDED,
            ("balance.lemma4",),
            ("balance.lemma4-tail", "balance.lemma4-average"),
            "s_max − s_min + ρ in place of s_max/p; for (IO) the imbalance is at most G − 1 "
            "times that, and the gap is not bounded (own.lemma4-smax)",
        ),
        NumberedResult(
            "Theorem 2",
            ProofStatus.MENDED,
            ("balance.theorem2",),
            (
                "balance.imbalance-gap",
                "balance.eq26",
                "balance.eq28",
                "balance.eq14",
                "balance.maximum",
                "balance.theorem2-remainder",
            ),
            "B ≥ B_0(G, p, s_max), as the proof of Lemma 4 has it; from there on without the "
            "factor p, and for (IO) with any tie-break (own.lemma4-smax)",
        ),
        NumberedResult(
            "Lemma 5",
            ProofStatus.MENDED,
            ("balance.lemma5",),
            ("balance.lemma2-objective", "balance.lemma2-pool", "balance.lemma2-strict"),
            "as Lemma 2",
        ),
        NumberedResult("Lemma 6", ProofStatus.READ, ("balance.lemma6",)),
        NumberedResult(
            "Lemma 7",
            ProofStatus.MENDED,
            ("balance.lemma7",),
            ("balance.lemma7-step",),
            "x* needs a factor δ_max, and with it the least B",
        ),
        NumberedResult(
            "Lemma 8",
            ProofStatus.MENDED,
            ("balance.lemma8", "balance.lemma8-moment"),
            ("balance.lemma8-cubes", "balance.lemma8-decomposition", "balance.eq39"),
            "fresh prompts at step 0, or constants that know the first content",
        ),
        NumberedResult(
            "Theorem 3",
            ProofStatus.MENDED,
            ("balance.theorem3",),
            ("balance.eq49", "balance.imbalance-gap"),
            "eq. (49) needs loads of one mean; from other starts the means draw together",
        ),
    ),
    causes=(
        RootCause(
            "The positive part of a maximum is bounded and the negative one left out.",
            ("balance.maximum", "balance.eq49"),
        ),
        RootCause(
            "What depends on the law of the prompts or on p is called universal.",
            ("balance.eq13", "balance.theorem2"),
        ),
        RootCause(
            "The content of a slot is taken for an independent draw at any time, from step 0 on.",
            ("balance.lemma8", "balance.lemma8-moment"),
        ),
        RootCause(
            "The program (IO) minimises the imbalance; proofs speak of the gap or of the maximum.",
            ("balance.lemma1", "balance.lemma2-objective"),
        ),
    ),
)
