"""Worked examples: figure 6 and section 5.1; and what cannot be checked here."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from bfio.wait.chains import nested_policy
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.outside import outside_claim
from proofs_checks.papers.fluid.cases import stage_sum
from proofs_checks.papers.fluid.runs import instance_of, reference
from proofs_checks.search import examine, refute

# Figure 6.

_TIMES = (0, 0, 1, 5, 5, 7, 7, 11, 14, 14)
#: After processing at t = 1, 7, 14: segment 1, segment 2, completed at this time (P1 is 1).
_PRINTED = (((), (3,), (1, 2)), ((7,), (3, 5, 6), (4,)), ((10,), (6, 7, 8), (3, 5, 9)))
_CORRECTED = (*_PRINTED[:2], ((10,), (7, 8), (3, 5, 6, 9)))
#: Clock units between times of the figure; a batch takes one.
_SCALE = 100


def trace(types: Sequence[int]) -> tuple[Any, ...]:
    """Return the rows after processing, with output 0 for type 1 and 1 for type 2.

    The figure treats each segment as one stage and processing as instantaneous.
    """
    requests = [(_SCALE * t, 1, kind - 1) for t, kind in zip(_TIMES, types, strict=True)]
    instance = instance_of(requests, 1, 0)
    # Requests that arrive together stay in order of their numbers: the sort is by length as well.
    number = sorted(range(10), key=lambda i: requests[i])
    run = reference(instance, nested_policy((0, 1), (3, 3)), 20 * _SCALE)
    rows = []
    for time in (1, 7, 14):
        end = _SCALE * time + 1
        passed = {
            number[i]: int(stage)
            for batch, i, stage in zip(
                run.log.events().batch,
                run.log.events().request,
                run.log.events().stage,
                strict=True,
            )
            if run.batches.end[batch] <= end
        }
        here = [i for i in range(10) if time >= _TIMES[i]]
        now = [i for i in range(10) if run.completion[number.index(i)] == end]
        first = tuple(i + 1 for i in here if i not in passed)
        second = tuple(i + 1 for i in here if passed.get(i) == 0 and types[i] == 2)
        rows.append((first, second, tuple(i + 1 for i in now)))
    return tuple(rows)


def is_as_shown(types: Sequence[int]) -> bool:
    """Whether P7 and P8 go on and P9 completes, as the figure's last row has it."""
    return list(types[6:9]) == [2, 2, 1]


def verify_figure6(data: Data) -> str | None:
    """Confirm that these types give the figure's rows at t = 1 and 7, but not at t = 14."""
    types = data["types"]
    if len(types) != 10 or not set(types) <= {1, 2} or not is_as_shown(types):
        return None
    rows = trace(types)
    if rows[:2] != _PRINTED[:2] or rows[2] == _PRINTED[2]:
        return None
    first, second, done = (", ".join(f"P{i}" for i in part) for part in rows[2])
    return (
        f"at t = 14: segment 1 {first}; segment 2 {second or 'empty'}; completed {done or 'none'}"
    )


def _figure6_check(context: Context, *, expected: tuple[Any, ...] = _CORRECTED) -> Outcome:
    free = context.choose(4, 10, 10)
    known = [1, 1, 2, 1, 2, 2, 2, 2, 1, 1][: 10 - free]
    cases = [[*known, *rest] for rest in product((1, 2), repeat=free)]
    agreeing = [
        types for types in cases if is_as_shown(types) and trace(types)[:2] == _PRINTED[:2]
    ]
    made = (
        f"types of P{11 - free} to P10 in all ways that give the rows before, P7 and P8 of type "
        "2, P9 of type 1"
    )
    return refute(
        "the row after t = 14 as printed",
        made,
        agreeing,
        verify_figure6,
        lambda types: {"types": types},
        holds=lambda t: trace(t)[2] == _PRINTED[2],
    ), examine("the corrected row", made, agreeing, lambda t: trace(t) == expected)


# Section 5.1.


def _reservation_check(context: Context, *, longest: int = 10_000) -> Outcome:
    del context
    reserved = 1 + longest
    least = Fraction(1 + 1, reserved)
    # Of what both types reserve over their stages, so much is used.
    used = stage_sum(1, 1) + stage_sum(1, longest)
    average = Fraction(used, reserved * (2 + longest + 1))
    seen = examine(
        "a prompt with one output token uses at most 1/5000 of the worst case",
        "its two stages against a reservation for the longest",
        (Fraction(1 + k, reserved) for k in (0, 1)),
        lambda share: share <= Fraction(1, 5000),
    )
    return Findings(
        seen,
        numbers={
            "largest use of a short prompt": float(least),
            "average over time": float(average),
        },
    )


CLAIMS = (
    Claim(
        id="fluid.figure6",
        source="fluid paper, figure 6 (section 5.1)",
        title="Worked trace of Nested WAIT",
        statement="With thresholds (3, 3) the ten arrivals of the figure lead to the rows it "
        "shows; after t = 14: segment 1 P10, segment 2 P6, P7, P8, completed P3, P5, P9.",
        formula="t = 14:  P10 | P6 P7 P8 | P3 P5 P9",
        hypotheses=(
            "each segment one stage",
            "processing takes no time",
            "order of arrival at a stage",
            "P7, P8 of type 2 and P9 of type 1, as the row shows",
        ),
        kind=Kind.COUNTEREXAMPLE,
        check=_figure6_check,
        summary="P6 is among the three that segment 2 serves at t = 14, whatever the type of P10.",
        mutations=(Mutation("the printed row as correction", expected=_PRINTED),),
        correction="Segment 2 then holds P7, P8, and P3, P5, P6, P9 have completed.",
        defect=Defect.MISPRINT,
        verify=verify_figure6,
    ),
    Claim(
        id="fluid.section51",
        source="fluid paper, example of section 5.1",
        title="Reserving for the worst case",
        statement="With inputs of 1 and outputs of 1 or 10,000 at equal rates, assuming 10,000 "
        "for all yields memory utilization as low as 1/5000.",
        formula="(1 + 1)/(1 + 10,000) ≤ 1/5000",
        hypotheses=("memory is reserved for input and longest output",),
        kind=Kind.FINITE,
        check=_reservation_check,
        summary="As low as that for the short prompts; averaged over time with equal rates it is "
        "one half, since the long ones stay 5000 times longer.",
        mutations=(Mutation("a longest output of 1,000", longest=1000),),
        reading="the utilization of what a short prompt reserves; not an average.",
    ),
    outside_claim(
        "fluid.figure3",
        "fluid paper, figure 3 (section 2.2)",
        "Batch times are linear in tokens",
        "Iteration times of Llama-7B and 13B on an L20 GPU are highly in accordance with (1).",
        "measured τ ≈ d0 + d1·X",
        "It is a measurement on a GPU; neither data nor coefficients are printed.",
    ),
    outside_claim(
        "fluid.figures7-14",
        "fluid paper, figures 7, 8 and 11 to 14 (section 6)",
        "WAIT and Nested WAIT against vLLM and Sarathi",
        "In all tested settings throughput is higher, and latency acceptable or lower.",
        "Thr(WAIT) > Thr(vLLM), Thr(Sarathi)",
        "The batch-size limit B, the fitted batch times, the memory and the scale of the "
        "thresholds are not printed, and the curves are only drawn. Studies with assumed values "
        "are no check of these figures.",
    ),
)
