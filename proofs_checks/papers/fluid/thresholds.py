"""Conditions (9) and (10): what they imply, and least solutions."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, product

from formulations.fluid import FluidWorker, RequestClass, equilibrium
from formulations.thresholds import (
    NestedProblem,
    ThresholdProblem,
    WaitProblem,
    least_thresholds,
    solve,
    threshold_violations,
)
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Examination, Findings, Outcome
from proofs_checks.papers.fluid.cases import Case, random_cases
from proofs_checks.papers.fluid.runs import canonical
from proofs_checks.search import examine

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
    """Yield the equilibrium's thresholds, larger ones on its ray, and ones beside it."""
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
    """Whether the iteration's vector is below every solution near it, and a solution."""
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
