"""Numbered results of the fluid paper."""

from functools import partial

from proofs_checks.results import NumberedResult, ProofStatus, RootCause, Scoreboard, ids

_UNDER_WAY = "prompts under way are added to the queues, orders stay"
_FULL_BATCH = "M^π is the memory of a full batch (fluid.eq11, fluid.eq14)"

_ids = partial(ids, "fluid")

SCOREBOARD = Scoreboard(
    results=(
        NumberedResult(
            "Proposition 1",
            ProofStatus.MENDED,
            _ids("proposition1"),
            _ids("a1"),
            "d1 in place of d0, finite memory",
        ),
        NumberedResult(
            "Proposition 2",
            ProofStatus.MENDED,
            _ids("proposition2"),
            _ids("a2-active eq4"),
            "count l' + 1 tokens of a prompt on both sides",
        ),
        NumberedResult(
            "Proposition 3",
            ProofStatus.MENDED,
            _ids("proposition3"),
            change="the paper has no proof; a walk without drift is one, for TTFT of policies "
            "that evict nobody (fluid.proposition3)",
        ),
        NumberedResult(
            "Proposition 4",
            ProofStatus.OPEN,
            _ids("proposition4"),
            _ids("proposition4-overflow proposition4-queue"),
            "the chance is 0.323, and 0.3·t does not follow from it",
        ),
        NumberedResult(
            "Proposition 5",
            ProofStatus.MENDED,
            _ids("proposition5"),
            change="a proof for the sketch at d0 = 1/2, 1/4 and 1/10, if paused prompts count "
            "toward C; else the instance has no gap (fluid.proposition5-batch)",
        ),
        NumberedResult(
            "Theorem 1",
            ProofStatus.MENDED,
            _ids("theorem1"),
            _ids(
                "theorem1-strict theorem1-gap theorem1-latency theorem1-critical "
                "theorem1-critical-walk theorem1-gap-critical theorem1-latency-critical "
                "appendix-b-scaling eq9-memory"
            ),
            f"C ≥ M^π in place of M*; {_UNDER_WAY}",
        ),
        NumberedResult(
            "Theorem 2",
            ProofStatus.MENDED,
            _ids("theorem2 theorem2-memory theorem2-exponent"),
            _ids(
                "theorem2-domination theorem2-queues theorem2-tail theorem2-transfers "
                "theorem2-gap theorem2-latency theorem2-ttft nested-memory lemma7-maximum eq11"
            ),
            f"{_FULL_BATCH}; n_(j−1) in the bound on θ_j; {_UNDER_WAY}",
        ),
        NumberedResult(
            "Theorem 3",
            ProofStatus.MENDED,
            _ids("theorem3 theorem3-memory"),
            _ids("theorem3-queues theorem2-domination eq13 eq17"),
            _FULL_BATCH,
        ),
        NumberedResult(
            "Theorem 4",
            ProofStatus.MENDED,
            _ids("theorem4 theorem4-equality theorem4-memory"),
            _ids("eq14"),
            f"{_FULL_BATCH}; < in (14); l'_((j−1)ΔL) in (15)",
        ),
        NumberedResult("Lemma 1", ProofStatus.READ, _ids("lemma1")),
        NumberedResult("Lemma 2", ProofStatus.READ, _ids("lemma2")),
        NumberedResult("Lemma 3", ProofStatus.READ, _ids("lemma3"), _ids("lemma3-display")),
        NumberedResult("Lemma 4", ProofStatus.READ, _ids("lemma4")),
        NumberedResult(
            "Lemma 5",
            ProofStatus.MENDED,
            _ids("lemma5 lemma5-constant"),
            change="a factor ½ is lost and another gained: √(λT) bounds it, for every T",
        ),
        NumberedResult(
            "Lemma 6",
            ProofStatus.MENDED,
            _ids("lemma6"),
            change="reflected at 3n_j, or prompts leave their queue at a batch's start",
        ),
        NumberedResult("Lemma 7", ProofStatus.READ, _ids("lemma7")),
        NumberedResult("Lemma 8", ProofStatus.READ, _ids("lemma8")),
        NumberedResult("Lemma 9", ProofStatus.MENDED, _ids("lemma9"), change="X = Y − n_k"),
    ),
    causes=(
        RootCause(
            "d0 and d1 changed places, or one of them left out.",
            _ids("proposition1 proposition1-intuition eq8"),
        ),
        RootCause(
            "A prompt of l' output tokens passes l' + 1 stages, the prefill included; l' are "
            "counted here, l' + 1 there.",
            _ids("a1 a2-active eq4 eq5 section61"),
        ),
        RootCause(
            "The memory of a full batch of Nested WAIT takes cumulative sums of output lengths "
            "for stages.",
            _ids(
                "eq11 eq14 algorithm2 nested-memory theorem2-memory theorem3-memory "
                "theorem4-memory theorem4"
            ),
        ),
        RootCause(
            "Gap, latency and TTFT are bounded by the queues alone: prompts under way are "
            "forgotten.",
            _ids(
                "theorem1-gap theorem1-gap-critical theorem1-latency theorem1-latency-critical "
                "theorem2-gap theorem2-latency theorem2-ttft"
            ),
        ),
        RootCause(
            "Bounds per unit of time are used for steps of ΔT.",
            _ids("theorem1-critical theorem1-critical-walk"),
        ),
        RootCause(
            "A batch that takes longer is taken to leave a longer queue, whenever prompts leave "
            "it.",
            _ids("lemma6 theorem2-domination"),
        ),
        RootCause(
            "M* for M^π, or ≤ for <, in a hypothesis.",
            _ids("theorem1 theorem4-equality section62"),
        ),
        RootCause(
            "A wrong index or bound of a sum.",
            _ids(
                "lemma3-display lemma7-maximum lemma9 theorem2-exponent algorithm1 "
                "appendix-b-scaling"
            ),
        ),
    ),
)
