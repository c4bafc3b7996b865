"""Algorithms 1 and 2 as printed: what their lines do to the prompts and stages."""

from collections.abc import Sequence
from itertools import combinations, pairwise, product

from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.search import examine, refute


def advanced(counts: Sequence[int], threshold: int, *, printed: bool) -> list[int]:
    """Return the prompts at each stage, and completed, after lines 9 and 10 of algorithm 1."""
    left, moved = list(counts), [0] * (len(counts) + 1)
    batch = [min(threshold, n) for n in counts]
    for k, taken in enumerate(batch):
        left[k] -= taken
    for k, taken in enumerate(batch):
        # Printed: min{n_j, n_jk} again, of what line 9 has left.
        moved[k + 1] += min(threshold, left[k]) if printed else taken
    return [n + m for n, m in zip([*left, 0], moved, strict=True)]


def keeps_prompts(case: tuple[tuple[int, ...], int], *, printed: bool) -> bool:
    """Whether all prompts are somewhere afterwards, each batch member one stage further."""
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
    # Stage 0 and one decode at least; nobody has a negative number of prompts.
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


def _algorithm1_check(context: Context, *, snapshot: bool = True, recount: bool = True) -> Outcome:
    most = context.choose(3, 4, 6)
    cases = list(product(product(range(most + 1), repeat=3), range(1, most + 1)))
    made = f"up to {most} prompts at each of 3 stages, thresholds 1..{most}"
    return refute(
        "lines 9 and 10",
        made,
        cases,
        verify_algorithm1,
        lambda c: {"counts": list(c[0]), "threshold": c[1]},
        holds=lambda c: keeps_prompts(c, printed=recount),
        applies=is_served,
    ), examine(
        "with the batch's own counts",
        made,
        cases,
        lambda c: keeps_prompts(c, printed=not snapshot),
        is_served,
    )


def printed_stages(outputs: Sequence[int]) -> list[range]:
    """Return the stages of each segment in line 1: between cumulative sums of output lengths."""
    sums = [sum(outputs[:i]) for i in range(len(outputs) + 1)]
    return [range(a, b) for a, b in pairwise(sums)]


def corrected_stages(outputs: Sequence[int]) -> list[range]:
    """``0..l'_1`` and ``l'_{i−1}+1..l'_i``."""
    begins = [0, *(output + 1 for output in outputs[:-1])]
    return [range(a, b + 1) for a, b in zip(begins, outputs, strict=True)]


def cuts_well(outputs: Sequence[int], segments: Sequence[range]) -> bool:
    """Whether segments tile the stages 0..l'_m and the i-th ends with stage l'_i."""
    tiled = [stage for segment in segments for stage in segment] == list(range(outputs[-1] + 1))
    return tiled and all(s[-1] == o for s, o in zip(segments, outputs, strict=True) if len(s))


def verify_algorithm2(data: Data) -> str | None:
    """Confirm that the printed stages are no segments of section 5.1."""
    outputs = data["outputs"]
    if len(outputs) < 2 or outputs[0] < 1 or sorted(set(outputs)) != outputs:
        return None
    if cuts_well(outputs, printed_stages(outputs)):
        return None
    printed = [list(segment) for segment in printed_stages(outputs)]
    return f"line 1 gives {printed}, section 5.1 {[list(s) for s in corrected_stages(outputs)]}"


def _algorithm2_check(context: Context, *, first: int = 0) -> Outcome:
    longest = context.choose(6, 9, 12)
    cases = [
        list(outputs)
        for number in range(2, 5)
        for outputs in combinations(range(1, longest + 1), number)
    ]
    made = f"every set of 2 to 4 output lengths in 1..{longest}"

    def shifted(outputs: Sequence[int]) -> list[range]:
        return [range(s.start + first, s.stop + first) for s in corrected_stages(outputs)]

    return refute(
        "stages of line 1",
        made,
        cases,
        verify_algorithm2,
        lambda outputs: {"outputs": outputs},
        holds=lambda o: cuts_well(o, printed_stages(o)),
    ), examine("0..l'_1, l'_{i−1}+1..l'_i", made, cases, lambda o: cuts_well(o, shifted(o)))


CLAIMS = (
    Claim(
        id="fluid.algorithm1",
        source="fluid paper, Algorithm 1, lines 9 and 10",
        title="Advancing a batch of WAIT",
        statement="For each stage, line 9 takes min{n_j, n_jk} prompts off and line 10 moves "
        "min{n_j, n_jk} from stage k to k + 1.",
        formula="n_jk ← n_jk − min{n_j, n_jk};  move min{n_j, n_jk} from k to k+1",
        hypotheses=(
            "type j is in the batch: n_j0 ≥ n_j",
            "meant: each prompt of the batch advances one stage, no other moves",
        ),
        kind=Kind.COUNTEREXAMPLE,
        check=_algorithm1_check,
        summary="Line 9 takes the batch out, line 10 counts anew and moves as many of those that "
        "stayed: none, where none stayed.",
        mutations=(
            Mutation("counts taken anew in the correction", snapshot=False),
            Mutation("the batch's own counts as printed", recount=False),
        ),
        correction="Both lines must use the counts of the moment when the batch was formed. "
        "(Lines 13 to 17 also need a guard: no batch is formed while the GPU is busy.)",
        defect=Defect.MISPRINT,
        reading="one line after the other, as pseudo-code runs. That both lines mean the same "
        "number is plain from section 4.1; taken once, it may be taken at the batch's end.",
        verify=verify_algorithm1,
    ),
    Claim(
        id="fluid.algorithm2",
        source="fluid paper, Algorithm 2, lines 1 and 19",
        title="Stages of the segments",
        statement="Segment i has the stages from Σ_{j<i} l'_j to Σ_{j≤i} l'_j − 1.",
        formula="k ∈ {Σ_{j=1}^{i−1} l'_j, ..., Σ_{j=1}^i l'_j − 1}",
        hypotheses=("m ≥ 2, l'_1 < ... < l'_m", "segments as section 5.1 describes them"),
        kind=Kind.COUNTEREXAMPLE,
        check=_algorithm2_check,
        summary="Cumulative sums fit increments, not lengths; and each segment ends one stage "
        "early.",
        mutations=(Mutation("segments begin at stage 1", first=1),),
        correction="Segment 1 has the stages 0..l'_1, segment i the stages l'_{i−1}+1..l'_i, as "
        "section 5.1 says and line 13 uses. (Line 15 must free the caches of every segment's "
        "completed prompts, not only of the last segment's.)",
        defect=Defect.MISPRINT,
        verify=verify_algorithm2,
    ),
)
