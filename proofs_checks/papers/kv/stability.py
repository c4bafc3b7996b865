"""The rates that Algorithm 2 and other schedules sustain."""

from fractions import Fraction
from itertools import product

from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv import equal_streams
from proofs_checks.papers.kv.equal_streams import kinds_of, saturated_rate
from proofs_checks.papers.kv.overload import STREAM
from proofs_checks.search import examine, refute


def verify_stability(data: Data) -> str | None:
    """Compare the rates that Algorithm 2 and a steady start sustain, under every convention."""
    kinds = kinds_of(data)
    if any(saturated_rate(kind) >= kind.steady for kind in kinds.values()):
        return None
    shown = "; ".join(
        f"{convention}: starting {kind.steady} a round keeps the memory, Algorithm 2 with a long "
        f"queue starts {saturated_rate(kind)} a round"
        for convention, kind in kinds.items()
    )
    return (
        f"M = {data['memory']}, s = {data['prompt']}, o = {data['output']}; {shown}; arrivals in "
        "bursts at a rate between leave one stable and overload the other"
    )


def _stability_check(context: Context, *, share: Fraction = Fraction(1, 2)) -> Outcome:
    largest, longest = context.choose((24, 4), (60, 8), (150, 12))
    cases = [
        {"memory": memory, "prompt": prompt, "output": output}
        for prompt, output in product((1, 2), range(1, longest + 1))
        for memory in range(prompt + output, largest + 1)
    ]
    made = f"equal requests, s = 1, 2, o up to {longest}, M up to {largest}"
    printed = refute(
        "Algorithm 2 sustains the rate of a steady start, under one convention at least",
        made,
        cases,
        verify_stability,
    )

    def over_half(kind: equal_streams.Kind) -> bool:
        return saturated_rate(kind) > share * Fraction(kind.memory, kind.area)

    corrected = examine(
        "it sustains more than half of M/area, which no schedule exceeds",
        f"{made}, conventions A, B, C",
        [kind for case in cases for kind in kinds_of(case).values()],
        over_half,
    )
    return printed, corrected


CLAIMS = (
    Claim(
        id="kv.stability",
        source="KV-cache paper, text before Theorem 5.3",
        title="Stable where the optimum is stable",
        statement="Algorithm 2 keeps the system stable whenever the hindsight optimum does.",
        formula="λ < μ*  ⇒  the queue of Algorithm 2 stays bounded in the mean",
        hypotheses=STREAM,
        kind=Kind.COUNTEREXAMPLE,
        check=_stability_check,
        summary="Rates are exact: with a long queue the starts depend on the last o rounds only, "
        "so the run is periodic. A queue with bounded arrivals that drifts up is unstable.",
        mutations=(Mutation("three quarters in the correction", share=Fraction(3, 4)),),
        correction="With equal requests Algorithm 2 sustains more than half of M/area requests "
        "a round, the most that any schedule can (area: tokens times rounds of a request); the "
        "half is nearly reached for long outputs.",
        reading="a counterexample is one under every convention, A, B and C.",
        defect=Defect.RESULT,
        verify=verify_stability,
    ),
)
