"""Numbered results of the KV-cache paper."""

from functools import partial

from proofs_checks.results import NumberedResult, ProofStatus, RootCause, Scoreboard, ids

_ids = partial(ids, "kv")

SCOREBOARD = Scoreboard(
    results=(
        NumberedResult(
            "Proposition 4.1",
            ProofStatus.MENDED,
            _ids("proposition4.1"),
            change="S(t) must lose its finished requests in the pseudo-code too",
        ),
        NumberedResult(
            "Theorem 4.2",
            ProofStatus.FAILS,
            _ids("theorem4.2 theorem4.2-limit"),
            _ids("theorem4.2-exchange checkpoints eq1 eq2"),
            "optimal for up to three requests as far as enumerated (M up to 19), not for four; "
            "the later version no longer claims it",
        ),
        NumberedResult(
            "Theorem 5.3",
            ProofStatus.FAILS,
            _ids("theorem5.3"),
            _ids(
                "eq3 eq4 eq6 eq7 footnote6 compensated-linear coupling-constant "
                "coupling-inequality off-subset pending-difference regret-decomposition"
            ),
            "the regret can grow linearly in T; the later version no longer claims it",
        ),
        NumberedResult(
            "Lemma 5.4",
            ProofStatus.FAILS,
            _ids("lemma5.4-i lemma5.4-ii lemma5.4-iii"),
            change="holds where OFF starts what Algorithm 2 starts, and then says nothing",
        ),
        NumberedResult(
            "Lemma 5.5",
            ProofStatus.FAILS,
            _ids("lemma5.5"),
            _ids("lemma5.5-hoeffding lemma5.5-mean lemma5.5-tail"),
            "no constant C_1 does; K·log T does if λ·ℓ < 1 or λ·(2ℓ − 1) < ⌊M/π⌋",
        ),
        NumberedResult(
            "Lemma 5.6",
            ProofStatus.FAILS,
            _ids("lemma5.6"),
            _ids("lemma5.6-minimum lemma5.5-tail"),
            "no constant C_2 does, and for constant t_0 no C_2 = o(T)",
        ),
        NumberedResult(
            "Theorem 6.2",
            ProofStatus.MENDED,
            _ids("theorem6.2"),
            _ids("theorem6.2-costs theorem6.2-ratio"),
            "totals are up to M off, and the ratio tends to 1/ε from below",
        ),
        NumberedResult(
            "Theorem 6.4",
            ProofStatus.MENDED,
            _ids("theorem6.4"),
            _ids(
                "eq8 theorem6.4-bound theorem6.4-conditional theorem6.4-distribution "
                "theorem6.4-room theorem6.4-sum"
            ),
            "another distribution of instances; nothing is cleared, as in Theorem 6.2",
        ),
        NumberedResult("Ω(√n), later version", ProofStatus.READ, _ids("square-root")),
    ),
    causes=(
        RootCause(
            "Requests that start together end together: their memory stands idle before, and the "
            "shortest first need not be best.",
            _ids(
                "theorem4.2 theorem4.2-limit theorem4.2-equal theorem4.2-exchange theorem5.3 "
                "stability"
            ),
        ),
        RootCause(
            "The hindsight optimum is taken to start a subset of what Algorithm 2 starts, and "
            "Off-Couple to catch up with it.",
            _ids("off-subset coupling-inequality eq7 lemma5.4-i lemma5.4-ii lemma5.4-iii figure4"),
        ),
        RootCause(
            "A concentration bound with δ = 1/T is read as a bound on the opposite event.",
            _ids("lemma5.5-tail coupling-constant"),
        ),
        RootCause(
            "Three conventions of when a request holds its memory.",
            _ids("memory-rules appendix-b1-round0 theorem6.2-costs"),
        ),
        RootCause(
            "The instances of the randomized bound: c/ε + 1 values counted as c/ε, early starts "
            "left out.",
            _ids("theorem6.4-distribution theorem6.4-conditional theorem6.4-bound"),
        ),
        RootCause(
            "What is shown for a common prompt is used with prompts that differ.",
            _ids("eq2-mixed break-mixed"),
        ),
    ),
)
