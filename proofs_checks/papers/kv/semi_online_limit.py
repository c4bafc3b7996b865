"""Theorem 4.2 where the prompt is negligible: s/M → 0, as the model assumes."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

from formulations.hindsight_latency import Convention
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.papers.kv.equal_streams import EqualRequests, started
from proofs_checks.papers.kv.model import CONVENTIONS
from proofs_checks.papers.kv.semi_online import SEMI_ONLINE
from proofs_checks.search import examine, refute

CLAIMS = Claims()


#: M and n are multiplied by each, s and o stay.
SCALES = (1, 10, 100, 1000)


def totals(data: Data, scale: int, convention: Convention) -> tuple[int, int]:
    """Return the total latency of Algorithm 1 and of starting ⌊M/area⌋ requests every round."""
    kind = EqualRequests.of(data["memory"] * scale, data["prompt"], data["output"], convention)
    num = data["requests"] * scale
    if kind.steady < 1:
        raise ValueError("not one request can start every round")
    runs = started(kind, [num]), started(kind, [num], most=kind.steady)
    mine, steady = (sum(now * count for now, count in enumerate(run)) for run in runs)
    return mine + num * data["output"], steady + num * data["output"]


def verify_limit(data: Data) -> str | None:
    """Check that a schedule keeps its lead of a quarter as M and n grow, under A, B and C."""
    if min(data["prompt"], data["output"], data["requests"]) < 1:
        return None
    if data["prompt"] + data["output"] > data["memory"] or data["memory"] > 10**4:
        return None
    shown = []
    for convention in CONVENTIONS:
        both = [totals(data, scale, convention) for scale in SCALES]
        if any(4 * mine < 5 * steady for mine, steady in both):
            return None
        shown.append(
            f"{convention}: Algorithm 1 has total latencies {[mine for mine, _ in both]}, "
            f"starting ⌊M/area⌋ every round {[steady for _, steady in both]}"
        )
    return (
        f"M = {data['memory']}·k and {data['requests']}·k requests with s = {data['prompt']}, o = "
        f"{data['output']}, k = {', '.join(map(str, SCALES))}; {'; '.join(shown)}"
    )


def area_bound(kind: EqualRequests, num: int) -> Fraction:
    """Return a lower bound on the sum of the slots at which requests end, counted from 1.

    Those that have ended after t slots fill ``area`` each of the ``M·t`` there are.
    """
    ends = (Fraction(k * kind.area, kind.memory) for k in range(1, num + 1))
    return sum((max(Fraction(kind.length), end) for end in ends), Fraction(0))


@CLAIMS.result(
    "kv.theorem4.2-limit",
    Mutation("as many requests as fit at once", batches=(1,)),
    Mutation("4/3 in the correction", factor=Fraction(4, 3)),
    hypotheses=(*SEMI_ONLINE, "s/M → 0"),
    kind=Kind.ASYMPTOTIC,
    defect=Defect.RESULT,
    verify=verify_limit,
)
def _check(
    context: Context, *, batches: Sequence[int] = (3, 20), factor: Fraction = Fraction(2)
) -> Outcome:
    """Algorithm 1 is optimal as s/M → 0.

    Source: KV-cache paper, Theorem 4.2 (section 4), with s/M → 0 (section 3)
    Statement: Where the prompt is negligible, s/M = ε → 0, Algorithm 1 is optimal in terms of
        average end-to-end latency.
    Formula: AEL(I; Algorithm 1)/min_A AEL(I; A) → 1 as s/M → 0
    Summary: As many as fit at once grow together, and the memory that all of them need at the end
        stands idle before; a steady start of fewer fills it at all times.
    Reading: the theorem in the regime that section 3 assumes. Refuted where a feasible schedule
        takes 4/5 of its latency at most, however large M is, under each of A, B and C.
    Correction: With equal outputs its total latency is at most 2·OPT + n on all instances tried:
        Algorithm 1 starts requests at more than half of the rate that any schedule can
        (kv.stability).
    """
    longest, small_longest = context.choose((4, 2), (6, 4), (9, 9))
    cases = [
        {"memory": 60, "prompt": 1, "output": o, "requests": 60 * n // 3}
        for o, n in product(range(1, longest + 1), batches)
    ]
    small = [
        (EqualRequests.of(memory, prompt, output, convention), num)
        for prompt, output, num in product((1, 2), range(1, small_longest + 1), (2, 5, 20, 100))
        for convention in CONVENTIONS
        for memory in range(prompt + output, context.choose(20, 40, 100))
    ]

    example = {"memory": 600, "prompt": 1, "output": 2, "requests": 2000}
    mine, steady = totals(example, 1, Convention.CLOSED)

    def at_most(case: tuple[EqualRequests, int]) -> bool:
        kind, num = case
        ends = sum((now + kind.length) * c for now, c in enumerate(started(kind, [num])))
        return ends <= factor * area_bound(kind, num)

    printed = refute(
        "Algorithm 1 within a quarter of a steady start for some M, under A, B or C",
        f"s = 1, o up to {longest}, M = 60·k, {list(batches)} times M/3 requests, k ≤ 1000",
        cases,
        verify_limit,
    )
    corrected = examine(
        "the slots at which requests end sum up to at most twice the least that areas allow",
        f"equal requests, s = 1, 2, o up to {small_longest}, small M, conventions A, B, C",
        small,
        at_most,
    )
    return Findings(
        printed,
        corrected,
        numbers={"total_at_M_600_s_1_o_2_n_2000": mine, "steady_start_there": steady},
    )
