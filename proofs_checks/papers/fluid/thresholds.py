"""Conditions (9) and (10), the printed thresholds, Algorithms 1 and 2 as printed, and examples."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate, combinations, pairwise, product
from math import floor
from typing import Any

from bfio.wait.chains import nested_policy
from formulations.fluid import FluidWorker, RequestClass, equilibrium
from formulations.thresholds import (
    BatchRule,
    NestedProblem,
    ThresholdProblem,
    WaitProblem,
    batch_limit_thresholds,
    drift_exponent,
    least_thresholds,
    solve,
    threshold_violations,
)
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Examination, Findings, Outcome, dismiss_if, verifier
from proofs_checks.papers.fluid.equilibrium import Case, all_cases, random_cases, stage_sum
from proofs_checks.papers.fluid.runs import canonical, instance_of, reference
from proofs_checks.search import examine

CLAIMS = Claims()


#: A case and real thresholds.
Choice = tuple[Case, tuple[Fraction, ...]]


def meets_condition9(
    classes: Sequence[RequestClass], worker: FluidWorker, thresholds: Sequence[Fraction]
) -> bool:
    """Return whether ``d0 + d1·Σ n_i w_i <= n_j/λ_j`` for all j."""
    pairs = list(zip(classes, thresholds, strict=True))
    time = worker.d0 + worker.d1 * sum(n * kind.work for kind, n in pairs)
    return all(time * kind.rate <= n for kind, n in pairs)


def _choices(context: Context) -> Iterator[Choice]:
    """Yield the equilibrium's thresholds, their multiples, and perturbations of them."""
    rng = context.rng
    for case in random_cases(rng, context.choose(40, 400, 4000)):
        ray = [case.time * row[0] for row in case.rows]
        yield case, tuple(ray)
        factor = Fraction(int(rng.integers(11, 100)), 10)
        yield case, tuple(factor * n for n in ray)
        for _ in range(3):
            yield case, tuple(factor * n * Fraction(int(rng.integers(1, 14)), 10) for n in ray)


STABLE = ("d1·A < 1",)


@CLAIMS.step(
    "fluid.eq9-memory",
    Mutation("(9) dropped", feasible=False),
    hypotheses=(*STABLE, "real thresholds that satisfy (9)"),
)
def _memory_check(context: Context, *, feasible: bool = True) -> Outcome:
    """No thresholds need less than the equilibrium.

    Source: fluid paper, after the linear system of appendix B.0.2
    Statement: Thresholds that satisfy (9) have M^π ≥ M*; with M^π = M* they are those of the
        equilibrium.
    Formula: d0 + d1·Σ n_i w_i ≤ n_j/λ_j ∀j  ⇒  Σ n_j w_j ≥ M*;  '=' ⇔ n_j = n_j*/(l'_j+1)
    Summary: Multiply (9) by λ_j w_j and sum over j.
    """

    def holds(case: Case, thresholds: tuple[Fraction, ...]) -> bool:
        memory = sum(n * kind.work for kind, n in zip(case.classes, thresholds, strict=True))
        state = equilibrium(case.classes, case.worker())
        is_equilibrium = thresholds == state.per_stage
        return memory >= state.memory and (memory == state.memory) == is_equilibrium

    return examine(
        "M^π ≥ M*, with equality only for n_j = n_j*/(l'_j + 1)",
        "random cases; thresholds on the ray n = cλ and beside it; exactly",
        _choices(context),
        holds,
        lambda case, n: not feasible or meets_condition9(case.classes, case.worker(), n),
    )


@CLAIMS.own(
    "fluid.threshold-ray",
    Mutation("(1 − ρ)² in place of 1 − ρ", slack=2),
    hypotheses=STABLE,
    kind=Kind.IDENTITY,
)
def _ray_check(context: Context, *, slack: int = 1) -> Outcome:
    """Thresholds in proportion to the rates.

    Source: Ours, from (9)
    Statement: n = cλ satisfies (9) if and only if c ≥ ΔT*; its memory is cA.
    Formula: n_j = cλ_j:  n_j/λ_j − ΔT(n) = (c − ΔT*)(1 − ρ),  M^π = cA
    Summary: So (9) has solutions if and only if the load is below 1.
    """

    def holds(case: Case, factor: Fraction) -> bool:
        thresholds = [factor * row[0] for row in case.rows]
        work, load = case.work_rate, case.d1 * case.work_rate
        memory = sum(n * kind.work for kind, n in zip(case.classes, thresholds, strict=True))
        left = factor - (case.fixed + case.d1 * memory)
        return (
            meets_condition9(case.classes, case.worker(), thresholds) == (factor >= case.time)
            and memory == factor * work
            and left == (factor - case.time) * (1 - load) ** slack
        )

    cases = random_cases(context.rng, context.choose(40, 400, 4000))
    return examine(
        "n = cλ meets (9) iff c ≥ ΔT*; then its slack is (c − ΔT*)(1 − ρ)",
        "random cases, c from ΔT*/2 to 3ΔT*; exactly",
        (
            (case, case.time * share)
            for case in cases
            for share in (
                Fraction(1, 2),
                Fraction(99, 100),
                Fraction(1),
                Fraction(5, 4),
                Fraction(3),
            )
        ),
        holds,
    )


def _problems(context: Context, strict: bool) -> Iterator[ThresholdProblem]:
    yield WaitProblem(canonical(), strict=strict)
    yield WaitProblem(canonical(d0=Fraction(2, 5)), strict=strict)
    for case in random_cases(context.rng, context.choose(15, 60, 600), 3):
        yield WaitProblem(case.problem(), strict=strict)
        outputs = tuple(accumulate(output for _, _, output in case.rows))
        rates = tuple(Fraction(rate) for rate, _, _ in case.rows)
        nested = NestedProblem.single(
            case.rows[0][1],
            outputs,
            rates,
            FluidWorker(Fraction(1), Fraction(1, 1000), 1),
            strict=strict,
        )
        if nested.load < Fraction(1, 2):
            yield nested


def _is_least(problem: ThresholdProblem, method: str | None, looser: ThresholdProblem) -> bool:
    """Return whether the iteration's vector is a solution and below every nearby solution."""
    vector, _ = least_thresholds(problem)
    if vector is None or threshold_violations(problem, vector):
        return False
    if method is not None and solve(problem, method=method).thresholds != vector:
        return False
    below = product(*(range(max(1, n - 2), n + 2) for n in vector))
    solutions = (other for other in below if not threshold_violations(looser, other))
    return all(all(a >= n for a, n in zip(other, vector, strict=True)) for other in solutions)


@CLAIMS.own(
    "fluid.least-thresholds",
    Mutation("the strict vector among non-strict solutions", enumerate_strict=False),
    hypotheses=STABLE,
)
def _least_check(context: Context, *, enumerate_strict: bool | None = None) -> Outcome:
    """Least thresholds.

    Source: Ours; the paper leaves the choice of parameters open (section 8)
    Statement: The integer solutions of (9), and those of (10), have a least element, which
        monotone iteration finds; it is the optimum of the integer program that minimises M^π.
    Formula: n ← ⌈λ·ΔT(n)⌉ (or ⌊·⌋ + 1) from below  =  min{n : (9)}  =  argmin M^π
    Summary: Solutions are closed under componentwise minima, so the least one minimises M^π, ΔT
        and every threshold at once.
    """
    method = context.choose(None, "cp-sat", "cp-sat")

    def pairs() -> Iterator[tuple[ThresholdProblem, ThresholdProblem]]:
        for strict in (False, True):
            state = context.rng.bit_generator.state
            problems = list(_problems(context, strict))
            context.rng.bit_generator.state = state
            other = strict if enumerate_strict is None else enumerate_strict
            yield from zip(problems, _problems(context, other), strict=True)

    seen: Examination[tuple[ThresholdProblem, ThresholdProblem]] = examine(
        "the fixed point is a solution and no solution is smaller in any entry",
        "WAIT and Nested WAIT, both forms; all vectors from 2 below to 1 above it"
        + ("" if method is None else "; CP-SAT returns the same"),
        pairs(),
        lambda problem, other: _is_least(problem, method, other),
    )
    vectors = {
        f"{name} least thresholds of the instance of A.3": str(
            least_thresholds(WaitProblem(canonical(), strict=strict))[0]
        )
        for name, strict in (("non-strict", False), ("strict", True))
    }
    return Findings(seen, numbers=vectors)


# Thresholds printed or prescribed in sections 6.1 and 6.2, checked against (9) and (10).


def _longest_fails(case: Case) -> bool:
    """Return whether the rule of section 6.1 violates (9) for the longest class for every B.

    With ``n_j = B·λ_j/(Λ·(l'_j + 1))`` condition (9) is ``d0 + d1·B·X <= B/(Λ·(l' + 1))``.
    """
    longest = max(kind.iterations for kind in case.classes)
    needed = sum(
        kind.rate * kind.work * Fraction(longest, kind.iterations) for kind in case.classes
    )
    return case.d1 * needed >= 1


def _suits(case: Case, rule: BatchRule) -> bool:
    """Return whether the rule's real thresholds meet (9) for some limit B."""
    for limit in (4**power for power in range(20)):
        thresholds = batch_limit_thresholds(case.classes, limit, rule)
        total = sum(n * k.iterations for n, k in zip(thresholds, case.classes, strict=True))
        if total != limit:
            return False
        if meets_condition9(case.classes, case.worker(), thresholds):
            return True
    return False


def verify_section61(data: Data) -> str | None:
    """Confirm that the rule violates (9) for every limit B in a stable case."""
    case = Case.of(data)
    if case is None or not _longest_fails(case):
        return None
    return (
        f"the load is {float(case.d1 * case.work_rate):.3f} < 1, but no batch-size limit gives "
        "the longest class a threshold that meets (9)"
    )


@CLAIMS.remark(
    "fluid.section61",
    Mutation("the printed rule as correction", corrected=BatchRule.PRINTED),
    Mutation("the balanced rule as printed", printed=BatchRule.BALANCED),
    hypotheses=STABLE,
    defect=Defect.FORMULA,
    verify=verify_section61,
)
def _section61_check(
    context: Context,
    *,
    printed: BatchRule = BatchRule.PRINTED,
    corrected: BatchRule = BatchRule.BALANCED,
) -> Outcome:
    """Thresholds from a batch-size limit.

    Source: fluid paper, section 6.1
    Statement: n_j = B·ρ_j/(l'_j + 1) with ρ_j = λ_j/Σλ aligns with Algorithm 1, whose thresholds
        satisfy (9).
    Formula: n_j = B·(λ_j/Σλ)/(l'_j+1) satisfies (9) for some B
    Summary: The printed rule gives each class n_j/λ_j in inverse proportion to its stages, while
        (9) asks the same of all: the longest class starves first.
    Reading: real thresholds and the most favourable B.
    Correction: n_j = B·λ_j/Σ_i λ_i(l'_i + 1), which also fills B prompts, satisfies (9) for large
        B whenever the load is below 1.
    """
    longest = context.choose(2, 3, 4)
    cases = [
        *all_cases(longest),
        *random_cases(context.rng, context.choose(10, 300, 3000)),
    ]
    domain = context.domain(
        f"every case of 1 or 2 classes with rate 1, prompts 1 and 2, outputs up to {longest}, at "
        "three loads, random stable cases; limits 1, 4, 16, ...",
        cases,
    )
    as_printed = domain.refute("some limit B meets (9)", holds=lambda c: _suits(c, printed))
    as_corrected = domain.examine("some limit B meets (9)", lambda c: _suits(c, corrected))
    return as_printed, as_corrected


#: Rates of the ten bins, and the thresholds said to "follow (10)".
_PRINTED = [([23, 11, 8, 7, 6, 4, 3, 2, 1, 1], [66, 43, 32, 24, 17, 11, 7, 4, 2, 1])]


def drifts_before(rates: Sequence[int], thresholds: Sequence[int], i: int) -> bool:
    """Return whether ``n_{i+1}/n_i > p_i`` (i from 1 on)."""
    reach = suffix_sums(rates)
    return thresholds[i] * reach[i - 1] > thresholds[i - 1] * reach[i]


def drifts(rates: Sequence[int], thresholds: Sequence[int]) -> bool:
    """Return whether the second part of (10) holds: ``n_{i+1}/n_i > Λ_{i+1}/Λ_i``."""
    return all(drifts_before(rates, thresholds, i) for i in range(1, len(rates)))


def suffix_sums(rates: Sequence[int]) -> list[int]:
    """Return ``Λ_1 .. Λ_m``."""
    return list(accumulate(reversed(rates)))[::-1]


@verifier
def verify_section62(rates: list[int], thresholds: list[int]) -> str:
    """Confirm that the printed thresholds are proportional to the rates and violate (10)."""
    dismiss_if((rates, thresholds) not in _PRINTED or drifts(rates, thresholds))
    i = next(i for i in range(1, len(rates)) if not drifts_before(rates, thresholds, i))
    share = Fraction(thresholds[i], thresholds[i - 1])
    exponent = drift_exponent(thresholds[i - 1], thresholds[i], share)
    return (
        f"rates {':'.join(map(str, rates))}, thresholds {':'.join(map(str, thresholds))}: "
        f"n_{i + 1}/n_{i} = {share} = p_{i}, not more, at any scale; θ_{i + 1} = {exponent:g}, "
        "and (12) is infinite"
    )


def raised(rates: Sequence[int], extra: int) -> list[int]:
    """Return ``n_1 = Λ_1`` and the least ``n_{i+1} >= p_i n_i``, or one more than it."""
    reach = suffix_sums(rates)
    thresholds = [reach[0]]
    for before, after in pairwise(reach):
        least = Fraction(thresholds[-1] * after, before)
        thresholds.append(max(after, floor(least) + extra))
    return thresholds


@CLAIMS.experiment(
    "fluid.section62",
    Mutation("nothing added in the correction", more=0),
    Mutation("one added as printed", raise_printed=1),
    defect=Defect.FORMULA,
    verify=verify_section62,
)
def _section62_check(context: Context, *, more: int = 1, raise_printed: int = 0) -> Outcome:
    """Thresholds of the Nested WAIT experiments.

    Source: fluid paper, section 6.2
    Statement: With rates proportional to 23:11:8:7:6:4:3:2:1:1, thresholds in the ratio
        66:43:32:24:17:11:7:4:2:1 follow (10).
    Formula: n = 66:43:32:24:17:11:7:4:2:1  ⇒  n_{i+1}/n_i > p_i
    Assumes: the rates of the ten bins of section 6.2
    Summary: 66:43:32:24:17:11:7:4:2:1 are the segments' rates exactly, so that the queues between
        segments have no drift. (So are 15:14:12:8 at 20:40:80:160, of which (10) is not claimed.)
    Reading: thresholds that are exactly in this ratio; their scale, which rounding would blur, is
        not printed.
    Correction: They meet it with equality: no drift, θ = 0, and no finite memory by Theorem 2. One
        more than p_i·n_i, rounded down, is the least that follows (10).
    """
    rng = context.rng
    drawn = [
        rng.integers(1, 50, rng.integers(2, 9)).tolist()
        for _ in range(context.choose(30, 300, 3000))
    ]
    published = [rates for rates, _ in _PRINTED]
    printed = context.refute(
        "66:43:32:24:17:11:7:4:2:1 at rates 23:11:...:1",
        "the paper's thresholds; they are the segments' rates",
        _PRINTED,
        holds=lambda rates, thresholds: drifts(
            rates, raised(rates, raise_printed) if raise_printed else thresholds
        ),
        applies=lambda rates, thresholds: thresholds == suffix_sums(rates),
    )
    corrected = examine(
        "n_{i+1} = ⌊p_i n_i⌋ + 1", "the paper's rates and random ones", published + drawn,
        lambda rates: drifts(rates, raised(rates, more)),
    )  # fmt: skip
    return printed, corrected


# Figure 6.

_TIMES = (0, 0, 1, 5, 5, 7, 7, 11, 14, 14)
#: State after processing at t = 1, 7, 14: segment 1, segment 2, just completed (P1 is 1).
_PRINTED_ROWS = (((), (3,), (1, 2)), ((7,), (3, 5, 6), (4,)), ((10,), (6, 7, 8), (3, 5, 9)))
_CORRECTED = (*_PRINTED_ROWS[:2], ((10,), (7, 8), (3, 5, 6, 9)))
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
    rows, events = [], run.log.events()
    for time in (1, 7, 14):
        end = _SCALE * time + 1
        past = run.batches.end[events.batch] <= end
        pairs = zip(events.request[past].tolist(), events.stage[past].tolist(), strict=True)
        passed = {number[i]: stage for i, stage in pairs}
        here = [i for i in range(10) if time >= _TIMES[i]]
        now = [i for i in range(10) if run.completion[number.index(i)] == end]
        first = tuple(i + 1 for i in here if i not in passed)
        second = tuple(i + 1 for i in here if passed.get(i) == 0 and types[i] == 2)
        rows.append((first, second, tuple(i + 1 for i in now)))
    return tuple(rows)


def is_as_shown(types: Sequence[int]) -> bool:
    """Return whether P7 and P8 advance and P9 completes, as in the figure's last row."""
    return list(types[6:9]) == [2, 2, 1]


@verifier
def verify_figure6(types: list[int]) -> str:
    """Confirm that these types give the figure's rows at t = 1 and 7, but not at t = 14."""
    dismiss_if(len(types) != 10 or not set(types) <= {1, 2} or not is_as_shown(types))
    rows = trace(types)
    dismiss_if(rows[:2] != _PRINTED_ROWS[:2] or rows[2] == _PRINTED_ROWS[2])
    first, second, done = (", ".join(f"P{i}" for i in part) for part in rows[2])
    return (
        f"at t = 14: segment 1 {first}; segment 2 {second or 'empty'}; completed {done or 'none'}"
    )


@CLAIMS.remark(
    "fluid.figure6",
    Mutation("the printed row as correction", expected=_PRINTED_ROWS),
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
        types for types in cases if is_as_shown(types) and trace(types)[:2] == _PRINTED_ROWS[:2]
    ]
    domain = context.domain(
        f"types of P{11 - free} to P10 in all ways that give the rows before, P7 and P8 of type "
        "2, P9 of type 1",
        agreeing,
    )
    printed = domain.refute(
        "the row after t = 14 as printed", holds=lambda t: trace(t)[2] == _PRINTED_ROWS[2]
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


def keeps_prompts(counts: Sequence[int], threshold: int, *, printed: bool) -> bool:
    """Return whether no prompt is lost and each batch member advances one stage."""
    after = advanced(counts, threshold, printed=printed)
    batch = [min(threshold, n) for n in counts]
    stays = [n - b for n, b in zip(counts, batch, strict=True)]
    return after == [s + b for s, b in zip([*stays, 0], [0, *batch], strict=True)]


def is_served(counts: Sequence[int], threshold: int) -> bool:
    """Return whether the type is in the batch: ``n_j0 >= n_j``."""
    return counts[0] >= threshold


@verifier
def verify_algorithm1(counts: list[int], threshold: int) -> str:
    """Confirm that lines 9 and 10 misplace prompts of a type that is in the batch."""
    # There are at least two stages (prefill and one decode), and no count is negative.
    dismiss_if(
        len(counts) < 2 or min(counts) < 0 or threshold < 1 or not is_served(counts, threshold)
    )
    dismiss_if(keeps_prompts(counts, threshold, printed=True))
    after = advanced(counts, threshold, printed=True)
    right = advanced(counts, threshold, printed=False)
    return (
        f"n_j = {threshold}, prompts at the stages {counts}: lines 9 and 10 make of it "
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
    domain = context.domain(
        f"up to {most} prompts at each of 3 stages, thresholds 1..{most}", cases
    )
    printed = domain.refute(
        "lines 9 and 10 one after the other: no prompt is lost, each moves one stage",
        holds=partial(keeps_prompts, printed=recount),
        applies=is_served,
    )
    corrected = domain.examine(
        "with the batch's own counts", partial(keeps_prompts, printed=not snapshot), is_served
    )
    return printed, corrected


def printed_stages(outputs: Sequence[int]) -> list[range]:
    """Return the stages of each segment in line 1, between cumulative sums of output lengths."""
    sums = [sum(outputs[:i]) for i in range(len(outputs) + 1)]
    return [range(a, b) for a, b in pairwise(sums)]


def corrected_stages(outputs: Sequence[int]) -> list[range]:
    """Return ``0..l'_1`` and ``l'_{i−1}+1..l'_i``."""
    begins = [0, *(output + 1 for output in outputs[:-1])]
    return [range(a, b + 1) for a, b in zip(begins, outputs, strict=True)]


def cuts_well(outputs: Sequence[int], segments: Sequence[range]) -> bool:
    """Whether the segments partition the stages 0..l'_m and segment i ends with stage l'_i."""
    tiled = [stage for segment in segments for stage in segment] == list(range(outputs[-1] + 1))
    return tiled and all(s[-1] == o for s, o in zip(segments, outputs, strict=True) if len(s))


@verifier
def verify_algorithm2(outputs: list[int]) -> str:
    """Confirm that the printed stages are not the segments of section 5.1."""
    dismiss_if(len(outputs) < 2 or outputs[0] < 1 or sorted(set(outputs)) != outputs)
    dismiss_if(cuts_well(outputs, printed_stages(outputs)))
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
    domain = context.domain(f"every set of 2 to 4 output lengths in 1..{longest}", cases)

    def shifted(outputs: Sequence[int]) -> list[range]:
        return [range(s.start + first, s.stop + first) for s in corrected_stages(outputs)]

    printed = domain.refute("stages of line 1", holds=lambda o: cuts_well(o, printed_stages(o)))
    corrected = domain.examine("0..l'_1, l'_{i−1}+1..l'_i", lambda o: cuts_well(o, shifted(o)))
    return printed, corrected
