"""Conditions (9) and (10): implications, least solutions, and the printed thresholds."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise, product
from math import floor

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
from proofs_checks.evidence import Data, Examination, Findings, Outcome
from proofs_checks.papers.fluid.equilibrium import Case, all_cases, random_cases
from proofs_checks.papers.fluid.runs import canonical
from proofs_checks.search import Domain, examine, named, refute

CLAIMS = Claims()


#: A case and real thresholds.
Choice = tuple[Case, tuple[Fraction, ...]]


def meets_condition9(
    classes: Sequence[RequestClass], worker: FluidWorker, thresholds: Sequence[Fraction]
) -> bool:
    """Whether ``d0 + d1·Σ n_i w_i <= n_j/λ_j`` for all j."""
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

    def holds(choice: Choice) -> bool:
        case, thresholds = choice
        memory = sum(n * kind.work for kind, n in zip(case.classes, thresholds, strict=True))
        state = equilibrium(case.classes, case.worker())
        is_equilibrium = thresholds == state.per_stage
        return memory >= state.memory and (memory == state.memory) == is_equilibrium

    return examine(
        "M^π ≥ M*, with equality only for n_j = n_j*/(l'_j + 1)",
        "random cases; thresholds on the ray n = cλ and beside it; exactly",
        _choices(context),
        holds,
        lambda c: not feasible or meets_condition9(c[0].classes, c[0].worker(), c[1]),
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

    def holds(pair: tuple[Case, Fraction]) -> bool:
        case, factor = pair
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
    """Whether the iteration's vector is a solution and below every nearby solution."""
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
        lambda pair: _is_least(pair[0], method, pair[1]),
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
    """Whether the rule of section 6.1 violates (9) for the longest class for every B.

    With ``n_j = B·λ_j/(Λ·(l'_j + 1))`` condition (9) is ``d0 + d1·B·X <= B/(Λ·(l' + 1))``.
    """
    longest = max(kind.iterations for kind in case.classes)
    needed = sum(
        kind.rate * kind.work * Fraction(longest, kind.iterations) for kind in case.classes
    )
    return case.d1 * needed >= 1


def _suits(case: Case, rule: BatchRule) -> bool:
    """Whether the rule's real thresholds meet (9) for some limit B."""
    limit = 1
    while limit < 10**12:
        thresholds = batch_limit_thresholds(case.classes, limit, rule)
        total = sum(n * k.iterations for n, k in zip(thresholds, case.classes, strict=True))
        if total != limit:
            return False
        if meets_condition9(case.classes, case.worker(), thresholds):
            return True
        limit *= 4
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
    domain = Domain(
        f"every case of 1 or 2 classes with rate 1, prompts 1 and 2, outputs up to {longest}, at "
        "three loads, random stable cases; limits 1, 4, 16, ...",
        cases,
    )
    as_printed = domain.refute(
        "some limit B meets (9)",
        verify_section61,
        holds=lambda c: _suits(c, printed),
    )
    as_corrected = domain.examine("some limit B meets (9)", lambda c: _suits(c, corrected))
    return as_printed, as_corrected


#: Rates of the ten bins, and the thresholds said to "follow (10)".
_PRINTED = [([23, 11, 8, 7, 6, 4, 3, 2, 1, 1], [66, 43, 32, 24, 17, 11, 7, 4, 2, 1])]


def drifts_before(rates: Sequence[int], thresholds: Sequence[int], i: int) -> bool:
    """Whether ``n_{i+1}/n_i > p_i`` (i from 1 on)."""
    reach = suffix_sums(rates)
    return thresholds[i] * reach[i - 1] > thresholds[i - 1] * reach[i]


def drifts(rates: Sequence[int], thresholds: Sequence[int]) -> bool:
    """Whether the second part of (10) holds: ``n_{i+1}/n_i > Λ_{i+1}/Λ_i``."""
    return all(drifts_before(rates, thresholds, i) for i in range(1, len(rates)))


def suffix_sums(rates: Sequence[int]) -> list[int]:
    """``Λ_1 .. Λ_m``."""
    return list(accumulate(reversed(rates)))[::-1]


def verify_section62(data: Data) -> str | None:
    """Confirm that the printed thresholds are proportional to the rates and violate (10)."""
    rates, thresholds = data["rates"], data["thresholds"]
    if (rates, thresholds) not in _PRINTED or drifts(rates, thresholds):
        return None
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
    printed = refute(
        "66:43:32:24:17:11:7:4:2:1 at rates 23:11:...:1",
        "the paper's thresholds; they are the segments' rates",
        _PRINTED,
        verify_section62,
        named("rates thresholds"),
        holds=lambda case: drifts(
            case[0], raised(case[0], raise_printed) if raise_printed else case[1]
        ),
        applies=lambda case: case[1] == suffix_sums(case[0]),
    )
    corrected = examine(
        "n_{i+1} = ⌊p_i n_i⌋ + 1", "the paper's rates and random ones", published + drawn,
        lambda rates: drifts(rates, raised(rates, more)),
    )  # fmt: skip
    return printed, corrected
