"""The memory of a full batch: equations (11), (12) and (14), merged segments, figures 16 to 18."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

from formulations.fluid import FluidWorker, equilibrium
from formulations.thresholds import (
    NestedProblem,
    equal_boundaries,
    policy_memory,
)
from formulations.thresholds.segments import printed_segment_memory
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.papers.fluid.equilibrium import (
    Case,
    printed_policy_memory,
    random_cases,
    stage_sum,
)
from proofs_checks.search import Domain, examine, named, refute

CLAIMS = Claims()


#: Prompt, output lengths and thresholds.
Full = tuple[int, tuple[int, ...], tuple[int, ...]]


def full_batch(full: Full) -> int:
    """Tokens of a batch with n_i prompts at each stage of segment i, summed by stage."""
    prompt, outputs, thresholds = full
    begins = (0, *(output + 1 for output in outputs))
    return sum(
        n * stage_sum(prompt, end, begin)
        for n, begin, end in zip(thresholds, begins, outputs, strict=False)
    )


def closed_form(full: Full, *, half: bool = True) -> Fraction:
    """``n_1(l'_1+1)(l + l'_1/2) + Σ n_i (l'_i − l'_{i−1})(l + (l'_{i−1} + 1 + l'_i)/2)``."""
    prompt, outputs, thresholds = full
    total = Fraction(thresholds[0] * (outputs[0] + 1)) * (prompt + Fraction(outputs[0], 2))
    for n, before, end in zip(thresholds[1:], outputs, outputs[1:], strict=False):
        total += n * (end - before) * (prompt + Fraction(before + half + end, 2))
    return total


def verify_eq11(data: Data) -> str | None:
    """Confirm that (11) is not the memory of a full batch."""
    full: Full = (data["prompt"], tuple(data["outputs"]), tuple(data["thresholds"]))
    prompt, outputs, thresholds = full
    if len(outputs) != len(thresholds) or len(outputs) < 2:
        return None
    if min(prompt, *thresholds, *outputs) < 1:
        return None
    printed = printed_policy_memory(*full)
    if sorted(set(outputs)) != list(outputs) or printed == full_batch(full):
        return None
    return f"(11) gives {printed}, a full batch has {full_batch(full)} tokens"


def meets_equilibrium(case: Case) -> bool:
    """Whether ``n_i = ΔT*·Λ_i`` with a common prompt length gives M* in the closed form."""
    prompt = case.rows[0][1]
    outputs = tuple(accumulate(output for _, _, output in case.rows))
    rows = tuple((rate, prompt, o) for (rate, _, _), o in zip(case.rows, outputs, strict=True))
    nested = Case(rows, case.fixed, 2 * Case(rows, 1, 1).work_rate)
    reach = list(accumulate(rate for rate, _, _ in reversed(rows)))[::-1]
    problem = NestedProblem.single(
        prompt, outputs, tuple(map(Fraction, (r[0] for r in rows))), nested.worker()
    )
    real = [nested.time * rate for rate in reach]
    total = sum(n * w for n, w in zip(real, problem.weights, strict=True))
    return total == equilibrium(nested.classes, nested.worker()).memory


def _fulls(context: Context) -> Iterator[Full]:
    rng = context.rng
    yield 10, (20, 40, 80, 160), (15, 14, 12, 8)
    yield 1, (1, 2), (4, 3)
    yield 5, tuple(range(1, 31)), (9,) * 30
    for _ in range(context.choose(60, 600, 6000)):
        first, *more = rng.integers(1, 10, rng.integers(2, 6)).tolist()
        outputs = tuple(accumulate(more, initial=first))
        yield int(rng.integers(1, 50)), outputs, tuple(rng.integers(1, 20, len(outputs)).tolist())


_SEGMENTS = ("l'_1 < ... < l'_m", "one prompt length l")


@CLAIMS.formula(
    "fluid.eq11",
    Mutation("l'_{j−1} + l'_j in place of L'_j only", half=False),
    Mutation("the correction as printed", printed=False),
    hypotheses=_SEGMENTS,
    kind=Kind.IDENTITY,
    defect=Defect.FORMULA,
    verify=verify_eq11,
)
def _eq11_check(context: Context, *, half: bool = True, printed: bool = True) -> Outcome:
    """Memory of a full batch of Nested WAIT.

    Source: fluid paper, eq. (11) (section 5.2) and appendix C
    Statement: A batch with n_i prompts per stage of segment i has M^π tokens.
    Formula: M^π = Σ_j n_j(l + L'_j/2)(l'_j − l'_{j−1}),  L'_j = Σ_{k≤j} l'_k
    Summary: Too small for m = 2 always (13.5 instead of 21 for l = 1, l' = (1, 2), n = (4, 3));
        too large for many segments. For n_i = ΔT*·Λ_i the corrected form is M*, (11) is not.
    Correction: M^π = n_1(l'_1+1)(l + l'_1/2) + Σ_{i≥2} n_i(l'_i − l'_{i−1})(l +
        (l'_{i−1}+1+l'_i)/2): segments are runs of stages, not of cumulative sums, and the first
        has stage 0 as well.
    """
    rng = context.rng
    fulls = list(_fulls(context))
    domain = Domain(
        "the thresholds of section 6.2, a small instance, random ones; stage by stage", fulls
    )

    def corrected(full: Full) -> bool:
        prompt, outputs, thresholds = full
        problem = NestedProblem.single(
            prompt, outputs, (Fraction(1),) * len(outputs), Case((), 1, 1).worker()
        )
        weighed = policy_memory(problem.weights, thresholds)
        return full_batch(full) == closed_form(full, half=half) == weighed

    fits = examine(
        "with n_i = ΔT*·Λ_i it is M* of (6)", "random classes of one prompt length",
        random_cases(rng, context.choose(20, 200, 2000)), meets_equilibrium,
    )  # fmt: skip
    as_printed = domain.refute(
        "(11) is the memory of a full batch",
        verify_eq11,
        named("prompt outputs thresholds"),
        holds=lambda f: (
            (printed_policy_memory(*f) if printed else closed_form(f)) == full_batch(f)
        ),
    )
    as_corrected = domain.examine("the corrected form is", corrected)
    return Findings(
        as_printed,
        as_corrected,
        fits,
        numbers={
            "(11) for 15:14:12:8": float(printed_policy_memory(*fulls[0])),
            "exact": full_batch(fulls[0]),
        },
    )


def waiting_tokens(full: Full) -> int:
    """``Σ_{j >= 2} n_j (l + l'_{j−1})``: the second term of (12)."""
    prompt, outputs, thresholds = full
    return sum(n * (prompt + end) for n, end in zip(thresholds[1:], outputs, strict=False))


@CLAIMS.formula(
    "fluid.eq12",
    Mutation("segment 1 counted as well", first_too=True),
    Mutation("twice the term", part=2),
    hypotheses=_SEGMENTS,
)
def _eq12_check(context: Context, *, first_too: bool = False, part: int = 1) -> Outcome:
    """Order of the memory of (12).

    Source: fluid paper, second line of (12) (section 5.2)
    Statement: The memory of (12) is O(2M^π + Σ_j (l + l'_{j−1})θ_j^{−1}·ln(mζS/δ)).
    Formula: Σ_{j≥2} (l + l'_{j−1})·n_j ≤ M^π
    Summary: Segment j ≥ 2 has a stage at least, where a prompt holds more than while it waits
        before.
    Reading: sums from j = 2: there is no θ_1.
    """

    def holds(full: Full) -> bool:
        tokens = waiting_tokens(full)
        if first_too:
            # A sum from j = 1 would include the queue of fresh prompts before segment 1.
            tokens += full[2][0] * (full[0] + full[1][0])
        return part * tokens <= full_batch(full) and part * tokens <= printed_policy_memory(*full)

    return examine(
        "Σ_{j≥2} n_j(l + l'_{j−1}) ≤ M^π, exact and by (11)",
        "the thresholds of section 6.2, a small instance, a segment per length, random ones",
        _fulls(context),
        holds,
    )


#: Prompt, width ``m/L`` of the segments, thresholds.
Merged = tuple[int, int, tuple[int, ...]]


def exact_memory(merged: Merged) -> int:
    """Tokens of a full batch, ``l'_j = j``: segment i ends at stage iΔ, segment 1 has stage 0."""
    prompt, width, thresholds = merged
    ends = tuple(width * (i + 1) for i in range(len(thresholds)))
    return full_batch((prompt, ends, thresholds))


def _as_problem(merged: Merged) -> NestedProblem:
    prompt, width, thresholds = merged
    outputs = tuple(range(1, width * len(thresholds) + 1))
    rates = (Fraction(1),) * len(outputs)
    ends = equal_boundaries(outputs, len(thresholds))
    return NestedProblem.single(
        prompt, outputs, rates, FluidWorker(Fraction(1), Fraction(0), 1), ends
    )


def verify_eq14(data: Data) -> str | None:
    """Confirm that the printed memory is not that of a full batch."""
    merged: Merged = (data["prompt"], data["width"], tuple(data["thresholds"]))
    if len(merged[2]) < 2 or min(merged[0], merged[1], *merged[2]) < 1:
        return None
    printed = printed_segment_memory(*merged)
    if printed == exact_memory(merged):
        return None
    return f"printed {printed}, a full batch has {exact_memory(merged)} tokens"


@CLAIMS.formula(
    "fluid.eq14",
    Mutation("stage 0 left out of the correction", first=0),
    Mutation("the exact memory as printed", second=True),
    kind=Kind.IDENTITY,
    defect=Defect.FORMULA,
    verify=verify_eq14,
)
def _eq14_check(context: Context, *, first: int = 1, second: bool = False) -> Outcome:
    """Memory of a full batch with merged segments.

    Source: fluid paper, eq. (14) and the M^π after it (section 7.2)
    Statement: With L segments of ΔL = m/L types each, a full batch has M^π tokens.
    Formula: M^π = Σ_{i=1}^L n_i·(l + (i/2)·ΔL)·ΔL
    Assumes: l'_j = j; L divides m, L ≥ 2
    Summary: The mean stage of segment i is (i − 1/2)ΔL + 1/2, not iΔL/2, and stage 0 is missing:
        always too small, by n_1·l + Σ_i n_i·ΔL·((i − 1)·ΔL + 1)/2.
    Correction: M^π = n_1·l + Σ_i n_i·ΔL·(l + (i − 1/2)·ΔL + 1/2): the printed value is too small,
        whatever the thresholds.
    """
    rng = context.rng
    cases: list[Merged] = [
        (
            int(rng.integers(1, 70)),
            int(rng.integers(1, 12)),
            tuple(rng.integers(1, 20, int(rng.integers(2, 6))).tolist()),
        )
        for _ in range(context.choose(60, 600, 6000))
    ]

    def corrected(merged: Merged) -> bool:
        prompt, width, thresholds = merged
        total = (
            sum(
                n * width * (prompt + Fraction((2 * i - 1) * width + 1, 2))
                for i, n in enumerate(thresholds, 1)
            )
            + first * thresholds[0] * prompt
        )
        weights = _as_problem(merged).weights
        weighed = sum(n * w for n, w in zip(thresholds, weights, strict=True))
        return total == exact_memory(merged) == weighed

    def alike(merged: Merged) -> bool:
        problem = _as_problem((merged[0], 1, merged[2]))
        own = problem.with_boundaries(problem.group.outputs)
        return problem.conditions == own.conditions

    def too_small(merged: Merged) -> bool:
        _, width, thresholds = merged
        lacking = Fraction(exact_memory(merged)) - printed_segment_memory(*merged)
        terms = (n * width * ((i * width) + 1) for i, n in enumerate(thresholds))
        return lacking == thresholds[0] * merged[0] + Fraction(sum(terms), 2)

    printed = refute(
        "M^π of (14)",
        "random segments, stage by stage",
        cases,
        verify_eq14,
        named("prompt width thresholds"),
        holds=lambda c: (
            (exact_memory(c) if second else printed_segment_memory(*c)) == exact_memory(c)
        ),
    )
    domain = Domain("the same", cases)
    as_corrected = domain.examine("the corrected form", corrected)
    more = domain.examine("what (14) lacks", too_small)
    another = examine("with L = m and l'_j = j, (14) is (10)", "the same sizes", cases, alike)
    return printed, as_corrected, more, another
