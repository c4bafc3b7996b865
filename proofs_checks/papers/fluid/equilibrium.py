"""Equations (2), (3), (6) and (7): the equilibrium of the fluid model."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from formulations.fluid import equilibrium
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.fluid.cases import Case, all_cases, random_cases, stage_sum
from proofs_checks.search import examine

Equation = Callable[[Case], bool]
MADE = "every case of 1 or 2 classes with small lengths, at three loads; random ones of up to 4"


def equilibrium_cases(context: Context) -> list[Case]:
    """Return stable cases, all small ones and some random ones."""
    longest, number = context.choose((2, 20), (3, 300), (4, 3000))
    return [*all_cases(1, longest, 2), *random_cases(context.rng, number)]


def _holds_check(context: Context, *, equation: Equation, what: str) -> Outcome:
    return examine(what, MADE, equilibrium_cases(context), equation)


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


def _valid(
    claim_id: str, source: str, title: str, statement: str, formula: str, equation: Equation,
    mutation: str, broken: Equation,
) -> Claim:  # fmt: skip
    check = partial(_holds_check, equation=equation, what=formula)
    return Claim(
        id=claim_id,
        source=source,
        title=title,
        statement=statement,
        formula=formula,
        hypotheses=STABLE,
        kind=Kind.IDENTITY,
        check=check,
        summary="Exact; counts come from arrivals = completions by elimination.",
        mutations=(Mutation(mutation, equation=broken),),
    )


PAPER = "fluid paper"

CLAIMS = (
    _valid(
        "fluid.eq3",
        f"{PAPER}, eq. (2) and (3) (section 3.1)",
        "Equilibrium of one class",
        "In equilibrium the active prompts and the memory of one class are the given fractions.",
        "n* = d0λ(l'+1)/(1 − d1λ(l'+1)(l+l'/2)),  M* = n*(l + l'/2)",
        eq3,
        "l' stages in place of l' + 1",
        partial(eq3, extra=0),
    ),
    _valid(
        "fluid.eq6",
        f"{PAPER}, eq. (6) (section 3.2)",
        "Memory in equilibrium",
        "The memory of all classes in equilibrium is d0·A/(1 − d1·A).",
        "M* = d0·A/(1 − d1·A),  A = Σ_j λ_j(l'_j+1)(l_j+l'_j/2)",
        eq6,
        "stage 0 forgotten",
        eq6_without_prefill,
    ),
    _valid(
        "fluid.eq7",
        f"{PAPER}, eq. (7) (section 3.2)",
        "Time of an iteration in equilibrium",
        "An iteration in equilibrium takes d0/(1 − d1·A).",
        "d0 + d1·M* = d0/(1 − d1·A)",
        eq7,
        "the square of the denominator",
        partial(eq7, power=2),
    ),
)
