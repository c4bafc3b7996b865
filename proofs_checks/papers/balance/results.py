"""Numbered results of the BF-IO paper."""

from functools import partial

from proofs_checks.results import NumberedResult, ProofStatus, RootCause, Scoreboard, ids

_LAW = "B_0 depends on the law of prompts (through κ_0), which only the proof could say"

_ids = partial(ids, "balance")

SCOREBOARD = Scoreboard(
    results=(
        NumberedResult(
            "Theorem 1",
            ProofStatus.MENDED,
            _ids("theorem1"),
            _ids("lockstep round-law eq12 eq13 eq14 eq15 maximum eq16"),
            f"{_LAW}; the inequality for the maximum needs its negative part; rounds under BF-IO "
            "are no independent draws, and need not be",
        ),
        NumberedResult(
            "Lemma 1",
            ProofStatus.MENDED,
            _ids("lemma1"),
            change="name the tie-break: fewest workers at the maximum",
        ),
        NumberedResult(
            "Lemma 2",
            ProofStatus.MENDED,
            _ids("lemma2"),
            _ids("lemma2-objective lemma2-pool lemma2-strict"),
            "its policy minimises the gap, (IO) the imbalance; one proof for both, with s_max − "
            "s_min in place of s_max (own.separation-levels)",
        ),
        NumberedResult(
            "Lemma 3",
            ProofStatus.MENDED,
            _ids("lemma3"),
            _ids("lemma3-exponent"),
            "the minimum in the exponent is at least α_B, not 2α_B; no more is used",
        ),
        NumberedResult(
            "Lemma 4",
            ProofStatus.MENDED,
            _ids("lemma4"),
            _ids("lemma4-tail lemma4-average"),
            "s_max − s_min + ρ in place of s_max/p; for (IO) the imbalance is at most G − 1 "
            "times that, and the gap is not bounded (own.lemma4-smax)",
        ),
        NumberedResult(
            "Theorem 2",
            ProofStatus.MENDED,
            _ids("theorem2"),
            _ids("imbalance-gap eq26 eq28 eq14 maximum theorem2-remainder"),
            "B ≥ B_0(G, p, s_max), as the proof of Lemma 4 has it; from there on without the "
            "factor p, and for (IO) with any tie-break (own.lemma4-smax)",
        ),
        NumberedResult(
            "Lemma 5",
            ProofStatus.MENDED,
            _ids("lemma5"),
            _ids("lemma2-objective lemma2-pool lemma2-strict"),
            "as Lemma 2",
        ),
        NumberedResult("Lemma 6", ProofStatus.READ, _ids("lemma6")),
        NumberedResult(
            "Lemma 7",
            ProofStatus.MENDED,
            _ids("lemma7"),
            _ids("lemma7-step"),
            "x* needs a factor δ_max, and with it the least B",
        ),
        NumberedResult(
            "Lemma 8",
            ProofStatus.MENDED,
            _ids("lemma8 lemma8-moment"),
            _ids("lemma8-cubes lemma8-decomposition eq39"),
            "fresh prompts at step 0, or constants that know the first content",
        ),
        NumberedResult(
            "Theorem 3",
            ProofStatus.MENDED,
            _ids("theorem3"),
            _ids("eq49 imbalance-gap"),
            "eq. (49) needs loads of one mean; from other starts the means draw together",
        ),
    ),
    causes=(
        RootCause(
            "The positive part of a maximum is bounded and the negative one left out.",
            _ids("maximum eq49"),
        ),
        RootCause(
            "What depends on the law of the prompts or on p is called universal.",
            _ids("eq13 theorem2"),
        ),
        RootCause(
            "The content of a slot is taken for an independent draw at any time, from step 0 on.",
            _ids("lemma8 lemma8-moment"),
        ),
        RootCause(
            "The program (IO) minimises the imbalance; proofs speak of the gap or of the maximum.",
            _ids("lemma1 lemma2-objective"),
        ),
    ),
)
