"""Algorithms 1 and 2 as printed, figure 6 and section 5.1."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Any

from bfio.wait.chains import nested_policy
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.papers.fluid.equilibrium import stage_sum
from proofs_checks.papers.fluid.runs import instance_of, reference
from proofs_checks.search import Domain, examine, named

CLAIMS = Claims()


# Figure 6.

_TIMES = (0, 0, 1, 5, 5, 7, 7, 11, 14, 14)
#: State after processing at t = 1, 7, 14: segment 1, segment 2, just completed (P1 is 1).
_PRINTED = (((), (3,), (1, 2)), ((7,), (3, 5, 6), (4,)), ((10,), (6, 7, 8), (3, 5, 9)))
_CORRECTED = (*_PRINTED[:2], ((10,), (7, 8), (3, 5, 6, 9)))
#: Clock units between the times of the figure; a batch takes one unit.
_SCALE = 100


def trace(types: Sequence[int]) -> tuple[Any, ...]:
    """Return the rows after processing, with output 0 for type 1 and 1 for type 2.

    The figure treats each segment as one stage and processing as instantaneous.
    """
    requests = [(_SCALE * t, 1, kind - 1) for t, kind in zip(_TIMES, types, strict=True)]
    instance = instance_of(requests, 1, 0)
    # Requests that arrive together must stay in numerical order, but the engine sorts by length.
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
    """Whether P7 and P8 advance and P9 completes, as in the figure's last row."""
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


@CLAIMS.remark(
    "fluid.figure6",
    Mutation("the printed row as correction", expected=_PRINTED),
    defect=Defect.MISPRINT,
    verify=verify_figure6,
)
def _figure6_check(context: Context, *, expected: tuple[Any, ...] = _CORRECTED) -> Outcome:
    """Worked trace of Nested WAIT.

    Source: fluid paper, figure 6 (section 5.1)
    Statement: With thresholds (3, 3) the ten arrivals of the figure lead to the rows it shows;
        after t = 14: segment 1 P10, segment 2 P6, P7, P8, completed P3, P5, P9.
    Formula: t = 14:  P10 | P6 P7 P8 | P3 P5 P9
    Assumes: each segment one stage; processing takes no time; order of arrival at a stage; P7, P8
        of type 2 and P9 of type 1, as the row shows
    Summary: P6 is among the three that segment 2 serves at t = 14, whatever the type of P10.
    Correction: Segment 2 then holds P7, P8, and P3, P5, P6, P9 have completed.
    """
    free = context.choose(4, 10, 10)
    known = [1, 1, 2, 1, 2, 2, 2, 2, 1, 1][: 10 - free]
    cases = [[*known, *rest] for rest in product((1, 2), repeat=free)]
    agreeing = [
        types for types in cases if is_as_shown(types) and trace(types)[:2] == _PRINTED[:2]
    ]
    domain = Domain(
        f"types of P{11 - free} to P10 in all ways that give the rows before, P7 and P8 of type "
        "2, P9 of type 1",
        agreeing,
    )
    printed = domain.refute(
        "the row after t = 14 as printed",
        verify_figure6,
        lambda types: {"types": types},
        holds=lambda t: trace(t)[2] == _PRINTED[2],
    )
    corrected = domain.examine("the corrected row", lambda t: trace(t) == expected)
    return printed, corrected


# Section 5.1.


@CLAIMS.remark("fluid.section51", Mutation("a longest output of 1,000", longest=1000))
def _reservation_check(context: Context, *, longest: int = 10_000) -> Outcome:
    """Reserving for the worst case.

    Source: fluid paper, example of section 5.1
    Statement: With inputs of 1 and outputs of 1 or 10,000 at equal rates, assuming 10,000 for all
        yields memory utilization as low as 1/5000.
    Formula: (1 + 1)/(1 + 10,000) ≤ 1/5000
    Assumes: memory is reserved for input and longest output
    Summary: As low as that for the short prompts; averaged over time with equal rates it is one
        half, since the long ones stay 5000 times longer.
    Reading: the utilization of what a short prompt reserves; not an average.
    """
    del context
    reserved = 1 + longest
    least = Fraction(1 + 1, reserved)
    # Share of the memory reserved by both types over their stages that is used.
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


def advanced(counts: Sequence[int], threshold: int, *, printed: bool) -> list[int]:
    """Return the prompts at each stage, and completed, after lines 9 and 10 of Algorithm 1."""
    left, moved = list(counts), [0] * (len(counts) + 1)
    batch = [min(threshold, n) for n in counts]
    for k, taken in enumerate(batch):
        left[k] -= taken
    for k, taken in enumerate(batch):
        # As printed: min{n_j, n_jk} is evaluated again after line 9 has changed n_jk.
        moved[k + 1] += min(threshold, left[k]) if printed else taken
    return [n + m for n, m in zip([*left, 0], moved, strict=True)]


def keeps_prompts(case: tuple[tuple[int, ...], int], *, printed: bool) -> bool:
    """Whether no prompt is lost and each batch member advances one stage."""
    counts, threshold = case
    after = advanced(counts, threshold, printed=printed)
    batch = [min(threshold, n) for n in counts]
    stays = [n - b for n, b in zip(counts, batch, strict=True)]
    return after == [s + b for s, b in zip([*stays, 0], [0, *batch], strict=True)]


def is_served(case: tuple[tuple[int, ...], int]) -> bool:
    """Whether the type is in the batch: ``n_j0 >= n_j``."""
    counts, threshold = case
    return counts[0] >= threshold


def verify_algorithm1(data: Data) -> str | None:
    """Confirm that lines 9 and 10 misplace prompts of a type that is in the batch."""
    counts, threshold = tuple(data["counts"]), data["threshold"]
    # There are at least two stages (prefill and one decode), and no count is negative.
    if len(counts) < 2 or min(counts) < 0 or threshold < 1 or not is_served((counts, threshold)):
        return None
    if keeps_prompts((counts, threshold), printed=True):
        return None
    after = advanced(counts, threshold, printed=True)
    right = advanced(counts, threshold, printed=False)
    return (
        f"n_j = {threshold}, prompts at the stages {list(counts)}: lines 9 and 10 make of it "
        f"{after[:-1]} and {after[-1]} done, not {right[:-1]} and {right[-1]}"
    )


@CLAIMS.formula(
    "fluid.algorithm1",
    Mutation("counts taken anew in the correction", snapshot=False),
    Mutation("the batch's own counts as printed", recount=False),
    defect=Defect.MISPRINT,
    verify=verify_algorithm1,
)
def _algorithm1_check(context: Context, *, snapshot: bool = True, recount: bool = True) -> Outcome:
    """Advancing a batch of WAIT.

    Source: fluid paper, Algorithm 1, lines 9 and 10
    Statement: For each stage, line 9 takes min{n_j, n_jk} prompts off and line 10 moves min{n_j,
        n_jk} from stage k to k + 1.
    Formula: n_jk ← n_jk − min{n_j, n_jk};  move min{n_j, n_jk} from k to k+1
    Assumes: type j is in the batch: n_j0 ≥ n_j; meant: each prompt of the batch advances one
        stage, no other moves
    Summary: Line 9 takes the batch out, line 10 counts anew and moves as many of those that
        stayed: none, where none stayed.
    Reading: one line after the other, as pseudo-code runs. That both lines mean the same number is
        plain from section 4.1; taken once, it may be taken at the batch's end.
    Correction: Both lines must use the counts of the moment when the batch was formed. (Lines 13
        to 17 also need a guard: no batch is formed while the GPU is busy.)
    """
    most = context.choose(3, 4, 6)
    cases = list(product(product(range(most + 1), repeat=3), range(1, most + 1)))
    domain = Domain(f"up to {most} prompts at each of 3 stages, thresholds 1..{most}", cases)
    printed = domain.refute(
        "lines 9 and 10",
        verify_algorithm1,
        named("counts threshold"),
        holds=lambda c: keeps_prompts(c, printed=recount),
        applies=is_served,
    )
    corrected = domain.examine(
        "with the batch's own counts", lambda c: keeps_prompts(c, printed=not snapshot), is_served
    )
    return printed, corrected


def printed_stages(outputs: Sequence[int]) -> list[range]:
    """Return the stages of each segment in line 1, between cumulative sums of output lengths."""
    sums = [sum(outputs[:i]) for i in range(len(outputs) + 1)]
    return [range(a, b) for a, b in pairwise(sums)]


def corrected_stages(outputs: Sequence[int]) -> list[range]:
    """``0..l'_1`` and ``l'_{i−1}+1..l'_i``."""
    begins = [0, *(output + 1 for output in outputs[:-1])]
    return [range(a, b + 1) for a, b in zip(begins, outputs, strict=True)]


def cuts_well(outputs: Sequence[int], segments: Sequence[range]) -> bool:
    """Whether the segments partition the stages 0..l'_m and segment i ends with stage l'_i."""
    tiled = [stage for segment in segments for stage in segment] == list(range(outputs[-1] + 1))
    return tiled and all(s[-1] == o for s, o in zip(segments, outputs, strict=True) if len(s))


def verify_algorithm2(data: Data) -> str | None:
    """Confirm that the printed stages are not the segments of section 5.1."""
    outputs = data["outputs"]
    if len(outputs) < 2 or outputs[0] < 1 or sorted(set(outputs)) != outputs:
        return None
    if cuts_well(outputs, printed_stages(outputs)):
        return None
    printed = [list(segment) for segment in printed_stages(outputs)]
    return f"line 1 gives {printed}, section 5.1 {[list(s) for s in corrected_stages(outputs)]}"


@CLAIMS.formula(
    "fluid.algorithm2",
    Mutation("segments begin at stage 1", first=1),
    defect=Defect.MISPRINT,
    verify=verify_algorithm2,
)
def _algorithm2_check(context: Context, *, first: int = 0) -> Outcome:
    """Stages of the segments.

    Source: fluid paper, Algorithm 2, lines 1 and 19
    Statement: Segment i has the stages from Σ_{j<i} l'_j to Σ_{j≤i} l'_j − 1.
    Formula: k ∈ {Σ_{j=1}^{i−1} l'_j, ..., Σ_{j=1}^i l'_j − 1}
    Assumes: m ≥ 2, l'_1 < ... < l'_m; segments as section 5.1 describes them
    Summary: Cumulative sums fit increments, not lengths; and each segment ends one stage early.
    Correction: Segment 1 has the stages 0..l'_1, segment i the stages l'_{i−1}+1..l'_i, as section
        5.1 says and line 13 uses. (Line 15 must free the caches of every segment's completed
        prompts, not only of the last segment's.)
    """
    longest = context.choose(6, 9, 12)
    cases = [
        list(outputs)
        for number in range(2, 5)
        for outputs in combinations(range(1, longest + 1), number)
    ]
    domain = Domain(f"every set of 2 to 4 output lengths in 1..{longest}", cases)

    def shifted(outputs: Sequence[int]) -> list[range]:
        return [range(s.start + first, s.stop + first) for s in corrected_stages(outputs)]

    printed = domain.refute(
        "stages of line 1",
        verify_algorithm2,
        lambda outputs: {"outputs": outputs},
        holds=lambda o: cuts_well(o, printed_stages(o)),
    )
    corrected = domain.examine("0..l'_1, l'_{i−1}+1..l'_i", lambda o: cuts_well(o, shifted(o)))
    return printed, corrected
