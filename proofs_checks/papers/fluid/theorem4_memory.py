"""Equation (15): the memory that Theorem 4 prints for merged segments."""

from functools import partial
from itertools import product

from formulations.thresholds.printed import printed_segment_memory
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.papers.fluid.overflow_chances import TwoSegments, buffer_suffices
from proofs_checks.search import corrected_evidence, examine

_INVERSE = 10


def merged_case(prompt: int, width: int, thresholds: tuple[int, int], batches: int) -> TwoSegments:
    """Return two segments of ``width`` types each at equal total rates, δ = 1/10."""
    return TwoSegments(prompt, width, width, thresholds, ((1, 1),), batches, _INVERSE)


def merged_chance(case: TwoSegments, often: int) -> float:
    """Return a lower bound on the chance that the memory of (15) is exceeded.

    Types Δ and 2Δ come ``often`` times as often as each other one. As long as only they come,
    nobody leaves within a segment, so that batches are full.
    """
    width, (first, _) = case.output, case.thresholds
    printed = printed_segment_memory(case.prompt, width, case.thresholds)
    # l'_{j−1} is l'_1 = 1 in (15), though segment 2 begins after l'_Δ = Δ.
    allowed = float(printed) + (case.prompt + 1) * case.allowance(2 * width)
    limit = (allowed - case.full) / (case.prompt + width)
    only_two = (often / (often + width - 1)) ** (first * case.batches)
    return case.exceeds(limit, when_full=True) - (1 - only_two)


def verify_merged(data: Data) -> str | None:
    """Confirm that the memory of (15) is exceeded with probability above 2δ."""
    prompt, width, often = data["prompt"], data["width"], data["often"]
    case = merged_case(prompt, width, tuple(data["thresholds"]), data["batches"])
    if len(case.thresholds) != 2 or min(prompt, often, *case.thresholds) < 1 or width < 2:
        return None
    if not case.applies or case.batches > 400:
        return None
    chance = merged_chance(case, often)
    if chance <= 2 / case.inverse:
        return None
    printed = printed_segment_memory(prompt, width, case.thresholds)
    # m = 2·ΔL types: ln(mS/δ).
    memory = float(printed) + (prompt + 1) * case.allowance(2 * width)
    return (
        f"l = {prompt}, l'_j = j ≤ {2 * width}, L = 2, types {width} and {2 * width} {often} "
        f"times as frequent as the others, n = {case.thresholds}, δ = 1/10: (15) gives "
        f"{memory:.2f}; a full batch alone has {case.full}, and within {case.batches} batches "
        f"more than the memory is needed with probability {chance:.3f} at least"
    )


def _merged_check(context: Context, *, buffer: float = 1, exact: bool = False) -> Evidence:
    often = 10**6
    cases = [
        merged_case(prompt, width, thresholds, batches)
        for prompt, width, thresholds, batches in product(
            (1, 5),
            (2, 4),
            ((4, 3), (10, 9), (6, 4)),
            context.choose((30,), (30, 60), (30, 60, 200)),
        )
    ]
    made = "l = 1, 5, ΔL = 2, 4, three pairs of thresholds, P_2 = 1/2; by convolution"

    def printed(case: TwoSegments) -> bool:
        if exact:
            return case.exceeds(case.allowance(2 * case.output), when_full=True) <= 0.1
        return merged_chance(case, often) <= 2 / case.inverse

    suffices = partial(buffer_suffices, buffer=buffer)
    return corrected_evidence(
        examine(
            "exceeded with probability at most δ, or even 2δ", made, cases, printed,
            lambda c: c.applies,
        ),
        examine("with the corrected memory", made, cases, suffices, lambda c: c.applies),
        verify_merged,
        lambda c: {
            "prompt": c.prompt, "width": c.output, "thresholds": list(c.thresholds),
            "batches": c.batches, "often": often,
        },
        "Before segment j prompts hold l + l'_{(j−1)ΔL} tokens; (15) has l'_{j−1}, the length of "
        "type j − 1. And its M^π lacks much of a full batch (fluid.eq14).",
    )  # fmt: skip


CLAIMS = (
    Claim(
        id="fluid.theorem4-memory",
        source="WAIT paper, Theorem 4 and (15) (section 7.2)",
        title="Memory that suffices with merged segments",
        statement="With thresholds that satisfy (14) and the memory of (15), memory is not "
        "exceeded on [0, T] with probability at least 1 − δ.",
        formula="M ≥ M^π + Σ_{j=2}^L (l + l'_{j−1})(n_j + θ_j^{−1}·ln(mS/δ))",
        hypotheses=(
            "l'_j = j, L divides m",
            "n_{j−1} > n_j > n_{j−1}p_{j−1}, so that (16) has a root",
            "M^π after (14)",
        ),
        kind=Kind.COUNTEREXAMPLE,
        check=_merged_check,
        mutations=(
            Mutation(
                "an eighth of the deviation in the correction",
                partial(_merged_check, buffer=0.125),
            ),
            Mutation("the corrected memory as printed", partial(_merged_check, exact=True)),
        ),
        correction="Σ_j (l + l'_{(j−1)ΔL})(n_j + θ_j^{−1}·ln((L−1)S/δ)) and the memory of a full "
        "batch: before segment j a prompt has passed stage l'_{(j−1)ΔL}.",
        defect=Defect.FORMULA,
        reading="S batches, few enough for [0, T]; arrivals slow enough for the first part of "
        "(14).",
        verify=verify_merged,
    ),
)
