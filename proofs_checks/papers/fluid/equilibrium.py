"""The equilibrium of the fluid model: equations (2) to (8) and appendix A.2."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from formulations.fluid import equilibrium
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation, Scope
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.fluid.cases import Case, all_cases, random_cases, stage_sum
from proofs_checks.papers.fluid.printed import printed_active, printed_balance, printed_throughput
from proofs_checks.search import Domain, examine

Equation = Callable[[Case], bool]
#: Longest output of every class, and random cases: quick, normal, deep.
_SIZES = ((2, 20), (3, 300), (4, 3000))


def made(context: Context) -> str:
    """Return the cases of `equilibrium_cases` in words."""
    longest, number = context.choose(*_SIZES)
    return (
        f"every case of 1 or 2 classes with rate 1, prompts 1 and 2, outputs up to {longest}, at "
        f"three loads; {number} random ones of up to 4"
    )


def equilibrium_cases(context: Context) -> list[Case]:
    """Return stable cases, all up to a size and some random ones."""
    longest, number = context.choose(*_SIZES)
    return [*all_cases(1, longest, 2), *random_cases(context.rng, number)]


def _holds_check(context: Context, *, equation: Equation, what: str) -> Outcome:
    return examine(what, made(context), equilibrium_cases(context), equation)


def eq3(case: Case, *, extra: int = 1) -> bool:
    """Count and memory of one class alone, with ``l' + extra`` stages."""
    rate, prompt, output = case.rows[0]
    alone = Case(case.rows[:1], case.fixed, case.inverse)
    (count,) = alone.counts
    stages, footprint = output + extra, prompt + Fraction(output, 2)
    share = 1 - case.d1 * rate * stages * footprint
    return (
        count / stages * stage_sum(prompt, output) == count * footprint
        and count == case.fixed * rate * stages / share
        and alone.memory([count]) == case.fixed * rate * stages * footprint / share
    )


def eq6(case: Case) -> bool:
    """Memory of all classes, and the toolkit's."""
    memory = case.memory(case.counts)
    work = sum(r * (o + 1) * (p + Fraction(o, 2)) for r, p, o in case.rows)
    ours = equilibrium(case.classes, case.worker())
    return memory == case.fixed * work / (1 - case.d1 * work) == ours.memory


def eq6_without_prefill(case: Case) -> bool:
    """Compare with a variant of (6) that forgets stage 0."""
    work = sum(r * o * (p + Fraction(o + 1, 2)) for r, p, o in case.rows)
    return case.memory(case.counts) == case.fixed * work / (1 - case.d1 * work)


def eq7(case: Case, *, power: int = 1) -> bool:
    """Time of an iteration."""
    return case.time == case.fixed / (1 - case.d1 * case.work_rate) ** power


STABLE = ("rates, prompts and outputs are positive integers", "d1·A < 1")


def _valid(*, equation: Equation, broken: Mutation, formula: str, **texts: Any) -> Claim:
    return Claim(
        formula=formula,
        hypotheses=STABLE,
        kind=Kind.IDENTITY,
        check=partial(_holds_check, equation=equation, what=formula),
        summary="Exact; counts come from arrivals = completions by elimination.",
        mutations=(broken,),
        **texts,
    )


PAPER = "fluid paper"


@dataclass(frozen=True)
class EquationVerifier:
    """Tells whether data are a case in which an equation fails."""

    equation: Equation
    why: Callable[[Case], str]

    def __call__(self, data: Data) -> str | None:
        """Say why, or None."""
        case = Case.of(data)
        return None if case is None or self.equation(case) else self.why(case)


def _corrected_check(
    context: Context, *, printed: Equation, corrected: Equation, verify: EquationVerifier
) -> Outcome:
    cases = equilibrium_cases(context)
    domain = Domain(made(context), cases)
    return (
        domain.refute("as printed", verify, lambda case: case.data, holds=printed),
        domain.examine("as corrected", corrected),
    )


def eq4(case: Case, *, printed: bool = True) -> bool:
    """``n*/ΔT*`` against the completions per second times what each one counts."""
    _, _, output = case.rows[0]
    alone = Case(case.rows[:1], case.fixed, case.inverse)
    (count,) = alone.counts
    completions = count / (output + 1) / alone.time
    return count / alone.time == completions * (output if printed else output + 1)


def _balance(case: Case, *, printed: bool = True) -> bool:
    stages = [1 if printed else output + 1 for _, _, output in case.rows]
    counts = case.balanced(stages)
    as_implemented = printed_balance(case.classes, case.worker())
    return case.memory(counts) == equilibrium(case.classes, case.worker()).memory and (
        not printed or tuple(counts) == as_implemented
    )


def _why_balance(case: Case) -> str:
    memory = case.memory(case.balanced([1] * len(case.rows)))
    return f"the printed balance and (5) give M* = {memory}, (6) gives {case.memory(case.counts)}"


def eq8(case: Case, *, printed: bool = True) -> bool:
    """Compare the middle of (8) with its end."""
    end = sum(rate * (output + 1) for rate, _, output in case.rows)
    if printed:
        return printed_throughput(case.classes, case.worker()) == end
    return sum(case.counts) * (1 - case.d1 * case.work_rate) / case.fixed == end


def _why_eq8(case: Case) -> str:
    middle = printed_throughput(case.classes, case.worker())
    end = sum(rate * (output + 1) for rate, _, output in case.rows)
    return f"the middle of (8) is {middle}, its end {end}"


def _active(case: Case, *, printed: bool = True) -> bool:
    if printed:
        counts = list(printed_active(case.classes, case.worker()))
    else:
        counts = [case.time * rate * (output + 1) for rate, _, output in case.rows]
    return case.memory(counts) == case.memory(case.counts)


def _why_active(case: Case) -> str:
    counts = printed_active(case.classes, case.worker())
    return f"with A.2's counts (5) gives {case.memory(counts)}, not {case.memory(case.counts)}"


def _intuition(case: Case, *, printed: bool = True) -> bool:
    factor = Fraction(case.fixed) if printed else case.d1
    return all(
        factor * stage_sum(p, o) == case.d1 * (o + 1) * (p + Fraction(o, 2))
        for _, p, o in case.rows
    )


def _refuted(
    *,
    equation: Callable[..., bool],
    why: Callable[[Case], str],
    **texts: Any,
) -> Claim:
    """Return a claim on an equation that takes ``printed`` to choose its form."""
    right = partial(equation, printed=False)
    verify = EquationVerifier(equation, why)
    return Claim(
        hypotheses=STABLE,
        kind=Kind.IDENTITY,
        check=partial(_corrected_check, printed=equation, corrected=right, verify=verify),
        mutations=(
            Mutation("the printed form in place of the correction", corrected=equation),
            Mutation("the correction in place of the printed form", printed=right),
        ),
        verify=verify,
        **texts,
    )


CLAIMS = (
    _valid(
        id="fluid.eq3",
        scope=Scope.FORMULA,
        source=f"{PAPER}, eq. (2) and (3) (section 3.1)",
        title="Equilibrium of one class",
        statement="In equilibrium the active prompts and the memory of one class are the given "
        "fractions.",
        formula="n* = d0λ(l'+1)/(1 − d1λ(l'+1)(l+l'/2)),  M* = n*(l + l'/2)",
        equation=eq3,
        broken=Mutation("l' stages in place of l' + 1", equation=partial(eq3, extra=0)),
    ),
    _valid(
        id="fluid.eq6",
        scope=Scope.FORMULA,
        source=f"{PAPER}, eq. (6) (section 3.2)",
        title="Memory in equilibrium",
        statement="The memory of all classes in equilibrium is d0·A/(1 − d1·A).",
        formula="M* = d0·A/(1 − d1·A),  A = Σ_j λ_j(l'_j+1)(l_j+l'_j/2)",
        equation=eq6,
        broken=Mutation("stage 0 forgotten", equation=eq6_without_prefill),
    ),
    _valid(
        id="fluid.eq7",
        scope=Scope.FORMULA,
        source=f"{PAPER}, eq. (7) (section 3.2)",
        title="Time of an iteration in equilibrium",
        statement="An iteration in equilibrium takes d0/(1 − d1·A).",
        formula="d0 + d1·M* = d0/(1 − d1·A)",
        equation=eq7,
        broken=Mutation("the square of the denominator", equation=partial(eq7, power=2)),
    ),
    _refuted(
        id="fluid.eq4",
        scope=Scope.FORMULA,
        source=f"{PAPER}, eq. (4) (section 3.1)",
        title="Throughput of one class",
        statement="The throughput, tokens generated in decode per unit time, is n*/ΔT*, as each "
        "completed prompt generates l' tokens.",
        formula="Thr* = n*/(d0 + d1·n*(l + l'/2)) = (completions per unit time)·l'",
        equation=eq4,
        why=lambda case: (
            f"n*/ΔT* is {case.rows[0][0] * (case.rows[0][2] + 1)} a second, but the completions, "
            f"{case.rows[0][0]} a second, of l' = {case.rows[0][2]} tokens each, make "
            f"{case.rows[0][0] * case.rows[0][2]}"
        ),
        correction="n*/ΔT* counts l' + 1 for each completed prompt, its prefill included; in "
        "decode tokens, the throughput of section 2.3, the benchmark is λl'.",
        defect=Defect.FORMULA,
        summary="Both counts are kept apart throughout this toolkit; like is compared with like. "
        "The proof of Proposition 2 (appendix A.2) takes Σ λ_j l'_j for Thr* of (8) in the same "
        "way; the proposition is true in either count (fluid.proposition2).",
    ),
    _refuted(
        id="fluid.eq5",
        scope=Scope.FORMULA,
        source=f"{PAPER}, eq. (5) and the balance after it (section 3.2)",
        title="Balance of several classes",
        statement="Substituting the balance (d0 + d1·M*)λ_j = n_j* into (5) yields (6).",
        formula="(d0 + d1·M*)·λ_j = n_j*  ⇒  M* = d0·A/(1 − d1·A)",
        equation=_balance,
        why=_why_balance,
        correction="Completions per iteration are n_j*/(l'_j + 1): only the prompts of the last "
        "stage complete. With (d0 + d1·M*)λ_j = n_j*/(l'_j + 1), as in section 3.1, (6) follows.",
        defect=Defect.MISPRINT,
        summary="The system of printed balances is solved exactly and differs from (6) in each "
        "case.",
    ),
    _refuted(
        id="fluid.eq8",
        scope=Scope.FORMULA,
        source=f"{PAPER}, eq. (8) (section 3.2)",
        title="Throughput in equilibrium",
        statement="The throughput in equilibrium is (1/d0)·(Σ n_j*)·(1 − A) = Σ λ_j(l'_j + 1).",
        formula="(1/d0)·(Σ_j n_j*)·(1 − Σ_j λ_j(l'_j+1)(l_j+l'_j/2)) = Σ_j λ_j(l'_j+1)",
        equation=eq8,
        why=_why_eq8,
        correction="The factor is 1 − d1·A; then both sides agree.",
        defect=Defect.MISPRINT,
        summary="The end of (8) is right, its middle lacks d1 (and its first sum runs to n, "
        "read m).",
    ),
    _refuted(
        id="fluid.a2-active",
        scope=Scope.STEP,
        source=f"{PAPER}, proof of Proposition 2 (appendix A.2)",
        title="Active prompts in equilibrium",
        statement="n_j* = ΔT·λ_j(l'_j + 1)(l_j + l'_j/2) is the number of prompts of type j in "
        "the batch.",
        formula="n_j* = ΔT*·λ_j(l'_j+1)(l_j+l'_j/2)",
        equation=_active,
        why=_why_active,
        correction="n_j* = ΔT*·λ_j(l'_j + 1), as section 3.1 has it; the printed value is the "
        "memory of type j.",
        defect=Defect.MISPRINT,
        summary="With the printed counts (5) is not M*.",
    ),
    _refuted(
        id="fluid.proposition1-intuition",
        scope=Scope.REMARK,
        source=f"{PAPER}, after Proposition 1 (section 3.1)",
        title="Processing time of a prompt",
        statement="Completing a prompt takes d0·Σ_k(l + k) = d1·(l'+1)(l + l'/2) of processing "
        "time.",
        formula="d0·Σ_{k=0}^{l'} (l+k) = d1·(l'+1)(l+l'/2)",
        equation=_intuition,
        why=lambda case: f"d0 = {case.fixed} and d1 = 1/{case.inverse} differ",
        correction="d1·Σ_k(l + k) = d1·(l'+1)(l + l'/2).",
        defect=Defect.MISPRINT,
        summary="A slip of the index, which returns in Proposition 1.",
    ),
)
