"""Numbered results of the fluid paper."""

from proofs_checks.results import NumberedResult, ProofStatus, RootCause, Scoreboard

_UNDER_WAY = "prompts under way are added to the queues, orders stay"
_FULL_BATCH = "M^π is the memory of a full batch (fluid.eq11, fluid.eq14)"

SCOREBOARD = Scoreboard(
    results=(
        NumberedResult(
            "Proposition 1",
            ProofStatus.MENDED,
            ("fluid.proposition1",),
            ("fluid.a1",),
            "d1 in place of d0, finite memory",
        ),
        NumberedResult(
            "Proposition 2",
            ProofStatus.MENDED,
            ("fluid.proposition2",),
            ("fluid.a2-active", "fluid.a2-throughput"),
            "count l' + 1 tokens of a prompt on both sides",
        ),
        NumberedResult(
            "Proposition 3",
            ProofStatus.MENDED,
            ("fluid.proposition3",),
            (),
            "the paper has no proof; a walk without drift is one, for TTFT of policies that "
            "evict nobody (fluid.proposition3)",
        ),
        NumberedResult(
            "Proposition 4",
            ProofStatus.OPEN,
            ("fluid.proposition4",),
            ("fluid.proposition4-overflow", "fluid.proposition4-queue"),
            "the chance is 0.323, and 0.3·t does not follow from it",
        ),
        NumberedResult(
            "Proposition 5",
            ProofStatus.MENDED,
            ("fluid.proposition5",),
            (),
            "a proof for the sketch at d0 = 1/2, 1/4 and 1/10, if paused prompts count toward C; "
            "else the instance has no gap (fluid.proposition5-batch)",
        ),
        NumberedResult(
            "Theorem 1",
            ProofStatus.MENDED,
            ("fluid.theorem1",),
            (
                "fluid.theorem1-strict",
                "fluid.theorem1-gap",
                "fluid.theorem1-latency",
                "fluid.theorem1-critical",
                "fluid.theorem1-critical-walk",
                "fluid.theorem1-gap-critical",
                "fluid.theorem1-latency-critical",
                "fluid.appendix-b-scaling",
                "fluid.eq9-memory",
            ),
            f"C ≥ M^π in place of M*; {_UNDER_WAY}",
        ),
        NumberedResult(
            "Theorem 2",
            ProofStatus.MENDED,
            ("fluid.theorem2", "fluid.theorem2-memory", "fluid.theorem2-exponent"),
            (
                "fluid.theorem2-domination",
                "fluid.theorem2-queues",
                "fluid.theorem2-tail",
                "fluid.theorem2-transfers",
                "fluid.theorem2-gap",
                "fluid.theorem2-latency",
                "fluid.theorem2-ttft",
                "fluid.nested-memory",
                "fluid.lemma7-maximum",
                "fluid.eq11",
            ),
            f"{_FULL_BATCH}; n_(j−1) in the bound on θ_j; {_UNDER_WAY}",
        ),
        NumberedResult(
            "Theorem 3",
            ProofStatus.MENDED,
            ("fluid.theorem3", "fluid.theorem3-memory"),
            ("fluid.theorem3-queues", "fluid.theorem2-domination", "fluid.eq13", "fluid.eq17"),
            _FULL_BATCH,
        ),
        NumberedResult(
            "Theorem 4",
            ProofStatus.MENDED,
            ("fluid.theorem4", "fluid.theorem4-equality", "fluid.theorem4-memory"),
            ("fluid.eq14",),
            f"{_FULL_BATCH}; < in (14); l'_((j−1)ΔL) in (15)",
        ),
        NumberedResult("Lemma 1", ProofStatus.READ, ("fluid.lemma1",)),
        NumberedResult("Lemma 2", ProofStatus.READ, ("fluid.lemma2",)),
        NumberedResult("Lemma 3", ProofStatus.READ, ("fluid.lemma3",), ("fluid.lemma3-display",)),
        NumberedResult("Lemma 4", ProofStatus.READ, ("fluid.lemma4",)),
        NumberedResult(
            "Lemma 5",
            ProofStatus.MENDED,
            ("fluid.lemma5", "fluid.lemma5-constant"),
            (),
            "a factor ½ is lost and another gained: √(λT) bounds it, for every T",
        ),
        NumberedResult(
            "Lemma 6",
            ProofStatus.MENDED,
            ("fluid.lemma6",),
            (),
            "reflected at 3n_j, or prompts leave their queue at a batch's start",
        ),
        NumberedResult("Lemma 7", ProofStatus.READ, ("fluid.lemma7",)),
        NumberedResult("Lemma 8", ProofStatus.READ, ("fluid.lemma8",)),
        NumberedResult("Lemma 9", ProofStatus.MENDED, ("fluid.lemma9",), (), "X = Y − n_k"),
    ),
    causes=(
        RootCause(
            "d0 and d1 changed places, or one of them left out.",
            ("fluid.proposition1", "fluid.proposition1-intuition", "fluid.eq8"),
        ),
        RootCause(
            "A prompt of l' output tokens passes l' + 1 stages, the prefill included; l' are "
            "counted here, l' + 1 there.",
            (
                "fluid.a1",
                "fluid.a2-active",
                "fluid.a2-throughput",
                "fluid.eq4",
                "fluid.eq5",
                "fluid.section61",
            ),
        ),
        RootCause(
            "The memory of a full batch of Nested WAIT takes cumulative sums of output lengths "
            "for stages.",
            (
                "fluid.eq11",
                "fluid.eq14",
                "fluid.algorithm2",
                "fluid.nested-memory",
                "fluid.theorem2-memory",
                "fluid.theorem3-memory",
                "fluid.theorem4-memory",
                "fluid.theorem4",
            ),
        ),
        RootCause(
            "Gap, latency and TTFT are bounded by the queues alone: prompts under way are "
            "forgotten.",
            (
                "fluid.theorem1-gap",
                "fluid.theorem1-gap-critical",
                "fluid.theorem1-latency",
                "fluid.theorem1-latency-critical",
                "fluid.theorem2-gap",
                "fluid.theorem2-latency",
                "fluid.theorem2-ttft",
            ),
        ),
        RootCause(
            "Bounds per unit of time are used for steps of ΔT.",
            ("fluid.theorem1-critical", "fluid.theorem1-critical-walk"),
        ),
        RootCause(
            "A batch that takes longer is taken to leave a longer queue, whenever prompts leave "
            "it.",
            ("fluid.lemma6", "fluid.theorem2-domination"),
        ),
        RootCause(
            "M* for M^π, or ≤ for <, in a hypothesis.",
            ("fluid.theorem1", "fluid.theorem4-equality", "fluid.section62"),
        ),
        RootCause(
            "A wrong index or bound of a sum.",
            (
                "fluid.lemma3-display",
                "fluid.lemma7-maximum",
                "fluid.lemma9",
                "fluid.theorem2-exponent",
                "fluid.algorithm1",
                "fluid.appendix-b-scaling",
            ),
        ),
    ),
)
