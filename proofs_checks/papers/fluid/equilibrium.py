"""The equilibrium of the fluid model: cases, (2) to (8), appendix A.2, and misprinted formulas."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate, combinations, product
from typing import Any, TypeAlias, TypeVar

import numpy as np

from formulations.fluid import FluidProblem, FluidWorker, RequestClass, equilibrium
from formulations.stability.traffic import least_solution
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation, Scope, texts_of
from proofs_checks.evidence import Data, Outcome, Verifier
from proofs_checks.search import examine

CLAIMS = Claims()


#: Rate, prompt and output of a class.
Row = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """Classes on an engine with ``d0 = fixed`` and ``d1 = 1/inverse``.

    Parameters
    ----------
    rows : tuple of (int, int, int)
        Rate [1/s], prompt and output [tokens] of each class.
    fixed : int
        ``d0`` [s].
    inverse : int
        ``1/d1`` [tokens/s].
    """

    rows: tuple[Row, ...]
    fixed: int
    inverse: int

    @staticmethod
    def of(data: Data) -> "Case | None":
        """Return the case that plain data describe; None if it is not stable."""
        rows = tuple((rate, prompt, output) for rate, prompt, output in data["rows"])
        case = Case(rows, data["fixed"], data["inverse"])
        if not rows or case.fixed < 1 or min(min(row) for row in rows) < 1:
            return None
        return case if case.inverse > case.work_rate else None

    @cached_property
    def classes(self) -> tuple[RequestClass, ...]:
        """The classes."""
        return tuple(
            RequestClass(Fraction(rate), prompt, output) for rate, prompt, output in self.rows
        )

    @property
    def d1(self) -> Fraction:
        """``d1`` [s/token]."""
        return Fraction(1, self.inverse)

    def worker(self, memory: int = 1) -> FluidWorker:
        """Return the worker of the case."""
        return FluidWorker(Fraction(self.fixed), self.d1, memory)

    def problem(self, memory: int = 1) -> FluidProblem:
        """Return the fluid problem: the classes on one worker with this memory [tokens]."""
        return FluidProblem(self.classes, (self.worker(memory),))

    @property
    def work_rate(self) -> int:
        """``A = Σ_j λ_j Σ_k (l_j + k)``, stage by stage [token-iterations/s]."""
        return sum(rate * stage_sum(prompt, output) for rate, prompt, output in self.rows)

    @cached_property
    def counts(self) -> list[Fraction]:
        """``n_j*``: the solution of arrivals = completions, by elimination."""
        return self.balanced([output + 1 for _, _, output in self.rows])

    def balanced(self, stages: Sequence[int]) -> list[Fraction]:
        """Solve ``n_j = stages_j·λ_j·(d0 + d1·Σ_i n_i (l_i + l'_i/2))`` for all j."""
        means = [prompt + Fraction(output, 2) for _, prompt, output in self.rows]
        rates = [row[0] * number for row, number in zip(self.rows, stages, strict=True)]
        shares = [[(i, rate * self.d1 * mean) for i, mean in enumerate(means)] for rate in rates]
        return list(least_solution([Fraction(rate * self.fixed) for rate in rates], shares))

    def memory(self, counts: Sequence[Fraction]) -> Fraction:
        """Return ``Σ_j n_j (l_j + l'_j/2)``, equation (5) [tokens]."""
        pairs = zip(counts, self.rows, strict=True)
        return sum((n * (p + Fraction(o, 2)) for n, (_, p, o) in pairs), Fraction(0))

    @property
    def time(self) -> Fraction:
        """``ΔT* = d0 + d1·M*`` [s]."""
        return self.fixed + self.d1 * self.memory(self.counts)


def stage_sum(prompt: int, last: int, first: int = 0) -> int:
    """Return ``Σ (l + k)`` over the stages ``k = first..last``, one by one."""
    return sum(prompt + k for k in range(first, last + 1))


def all_cases(longest: int) -> Iterator[Case]:
    """Yield every case of 1 or 2 classes with rate 1 and prompts 1 or 2, at three loads."""
    kinds = list(product((1,), (1, 2), range(1, longest + 1)))
    for number in (1, 2):
        for rows in combinations(kinds, number):
            work = Case(rows, 1, 1).work_rate
            for fixed, inverse in ((1, work + 1), (2, 2 * work), (3, 10 * work)):
                yield Case(rows, fixed, inverse)


def random_cases(rng: np.random.Generator, number: int, most: int = 4) -> Iterator[Case]:
    """Yield random cases of 1 to ``most`` classes of different lengths, loads below 1."""
    for _ in range(number):
        lengths = {
            tuple(rng.integers(1, 12, 2).tolist()) for _ in range(rng.integers(1, most + 1))
        }
        rows = tuple((int(rng.integers(1, 10)), *pair) for pair in sorted(lengths))
        work = Case(rows, 1, 1).work_rate
        yield Case(rows, int(rng.integers(1, 10)), work + int(rng.integers(1, 4 * work)))


# Wrong formulas of the fluid paper, as printed.


def printed_balance(classes: Sequence[RequestClass], worker: FluidWorker) -> tuple[Fraction, ...]:
    """Return ``n_j = (d0 + d1·M*) λ_j`` of section 3.2: the count of one stage, not of all."""
    return equilibrium(classes, worker).per_stage


def printed_active(classes: Sequence[RequestClass], worker: FluidWorker) -> tuple[Fraction, ...]:
    """Return ``n_j = ΔT λ_j (l'_j + 1)(l_j + l'_j/2)`` of appendix A.2: memory, not a count."""
    state = equilibrium(classes, worker)
    pairs = zip(classes, state.active, strict=True)
    return tuple(kind.footprint * active for kind, active in pairs)


def printed_throughput(classes: Sequence[RequestClass], worker: FluidWorker) -> Fraction:
    """Return the middle of (8), ``(1/d0)(Σ n_j*)(1 − A)``: the load without its ``d1``."""
    state = equilibrium(classes, worker)
    return sum(state.active, Fraction(0)) * (1 - state.work_rate) / worker.d0


def printed_policy_memory(
    prompt: int, outputs: Sequence[int], thresholds: Sequence[int]
) -> Fraction:
    """Return (11), ``Σ n_j (l + L'_j/2)(l'_j − l'_{j−1})`` with ``L'_j = l'_1 + ... + l'_j``.

    The correct sum over stages has ``l'_{j−1} + 1 + l'_j`` in place of L'_j, and one more stage in
    the first segment.
    """
    rows = zip(thresholds, accumulate(outputs), outputs, (0, *outputs), strict=False)
    return sum(
        (n * (prompt + Fraction(total, 2)) * (end - before) for n, total, end, before in rows),
        Fraction(0),
    )


def printed_exponent_bound(before: int, threshold: int, share: Fraction) -> Fraction:
    """Return Theorem 2's ``8 (n_k − n_{k−1} P)/n_k``, a "lower bound" that θ can violate.

    Lemma 8 proves the bound with ``n_{k−1}`` in the denominator.
    """
    return 8 * (threshold - before * share) / threshold


# The equilibrium of the fluid model: equations (2) to (8) and appendix A.2.


Equation: TypeAlias = Callable[[Case], bool]
E = TypeVar("E", bound=Callable[..., bool])
#: Longest output of every class, and random cases: quick, normal, deep.
_SIZES = ((2, 20), (3, 300), (4, 3000))


def made(context: Context) -> str:
    """Return a text that describes the cases of `equilibrium_cases`."""
    longest, number = context.choose(*_SIZES)
    return (
        f"every case of 1 or 2 classes with rate 1, prompts 1 and 2, outputs up to {longest}, at "
        f"three loads; {number} random ones of up to 4"
    )


def equilibrium_cases(context: Context) -> list[Case]:
    """Return stable cases, all up to a size and some random ones."""
    longest, number = context.choose(*_SIZES)
    return [*all_cases(longest), *random_cases(context.rng, number)]


STABLE = ("rates, prompts and outputs are positive integers", "d1·A < 1")


# Equations that hold.
def _valid(claim_id: str, broken: str, **changes: Any) -> Callable[[E], E]:
    """Decorate an equation: claim that it holds, and that it fails under ``changes``."""

    def add(equation: E) -> E:
        what = texts_of(equation)["formula"]

        def check(context: Context, *, equation: Equation = equation) -> Outcome:
            return examine(what, made(context), equilibrium_cases(context), equation)

        return CLAIMS.formula(
            claim_id,
            Mutation(broken, equation=partial(equation, **changes)),
            check=check,
            hypotheses=STABLE,
            kind=Kind.IDENTITY,
            summary="Exact; counts come from arrivals = completions by elimination.",
        )(equation)

    return add


@_valid("fluid.eq3", "l' stages in place of l' + 1", extra=0)
def eq3(case: Case, *, extra: int = 1) -> bool:
    """Equilibrium of one class.

    Source: fluid paper, eq. (2) and (3) (section 3.1)
    Statement: In equilibrium the active prompts and the memory of one class are the given
        fractions.
    Formula: n* = d0λ(l'+1)/(1 − d1λ(l'+1)(l+l'/2)),  M* = n*(l + l'/2)
    """
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


@_valid("fluid.eq6", "stage 0 forgotten", first=1)
def eq6(case: Case, *, first: int = 0) -> bool:
    """Memory in equilibrium.

    Source: fluid paper, eq. (6) (section 3.2)
    Statement: The memory of all classes in equilibrium is d0·A/(1 − d1·A).
    Formula: M* = d0·A/(1 − d1·A),  A = Σ_j λ_j(l'_j+1)(l_j+l'_j/2)
    """
    work = sum(r * stage_sum(p, o, first) for r, p, o in case.rows)
    ours = equilibrium(case.classes, case.worker())
    return case.memory(case.counts) == case.fixed * work / (1 - case.d1 * work) == ours.memory


@_valid("fluid.eq7", "the square of the denominator", power=2)
def eq7(case: Case, *, power: int = 1) -> bool:
    """Time of an iteration in equilibrium.

    Source: fluid paper, eq. (7) (section 3.2)
    Statement: An iteration in equilibrium takes d0/(1 − d1·A).
    Formula: d0 + d1·M* = d0/(1 − d1·A)
    """
    return case.time == case.fixed / (1 - case.d1 * case.work_rate) ** power


# Equations that do not hold.
def _refuted(
    claim_id: str,
    why: Callable[[Case], str],
    *,
    scope: Scope = Scope.FORMULA,
    defect: Defect = Defect.MISPRINT,
) -> Callable[[E], E]:
    """Decorate an equation: claim that its printed form fails."""

    def add(equation: E) -> E:
        right = partial(equation, printed=False)

        def check(
            context: Context, *, printed: Equation = equation, corrected: Equation = right
        ) -> Outcome:
            domain = context.domain(made(context), equilibrium_cases(context))
            as_printed = domain.refute("as printed", holds=printed)
            return as_printed, domain.examine("as corrected", corrected)

        return CLAIMS.stated(
            scope,
            claim_id,
            Mutation("the printed form in place of the correction", corrected=equation),
            Mutation("the correction in place of the printed form", printed=right),
            check=check,
            hypotheses=STABLE,
            kind=Kind.IDENTITY,
            defect=defect,
            verify=_verifier(equation, why),
        )(equation)

    return add


def _verifier(equation: Equation, why: Callable[[Case], str]) -> Verifier:
    """Return a verifier that confirms that an equation fails for a case."""

    def verify(data: Data) -> str | None:
        case = Case.of(data)
        return None if case is None or equation(case) else why(case)

    return verify


def _why_eq4(case: Case) -> str:
    rate, _, output = case.rows[0]
    return (
        f"n*/ΔT* is {rate * (output + 1)} a second, but the completions, {rate} a second, of l' = "
        f"{output} tokens each, make {rate * output}"
    )


@_refuted("fluid.eq4", _why_eq4, defect=Defect.FORMULA)
def eq4(case: Case, *, printed: bool = True) -> bool:
    """Throughput of one class.

    Source: fluid paper, eq. (4) (section 3.1)
    Statement: The throughput, tokens generated in decode per unit time, is n*/ΔT*, as each
        completed prompt generates l' tokens.
    Formula: Thr* = n*/(d0 + d1·n*(l + l'/2)) = (completions per unit time)·l'
    Summary: Both counts are kept apart throughout this toolkit; like is compared with like. The
        proof of Proposition 2 (appendix A.2) takes Σ λ_j l'_j for Thr* of (8) in the same way; the
        proposition is true in either count (fluid.proposition2).
    Correction: n*/ΔT* counts l' + 1 for each completed prompt, its prefill included; in decode
        tokens, the throughput of section 2.3, the benchmark is λl'.
    """
    _, _, output = case.rows[0]
    alone = Case(case.rows[:1], case.fixed, case.inverse)
    (count,) = alone.counts
    completions = count / (output + 1) / alone.time
    return count / alone.time == completions * (output if printed else output + 1)


def _why_balance(case: Case) -> str:
    memory = case.memory(case.balanced([1] * len(case.rows)))
    return f"the printed balance and (5) give M* = {memory}, (6) gives {case.memory(case.counts)}"


@_refuted("fluid.eq5", _why_balance)
def _balance(case: Case, *, printed: bool = True) -> bool:
    """Balance of several classes.

    Source: fluid paper, eq. (5) and the balance after it (section 3.2)
    Statement: Substituting the balance (d0 + d1·M*)λ_j = n_j* into (5) yields (6).
    Formula: (d0 + d1·M*)·λ_j = n_j*  ⇒  M* = d0·A/(1 − d1·A)
    Summary: The system of printed balances is solved exactly and differs from (6) in each case.
    Correction: Completions per iteration are n_j*/(l'_j + 1): only the prompts of the last stage
        complete. With (d0 + d1·M*)λ_j = n_j*/(l'_j + 1), as in section 3.1, (6) follows.
    """
    stages = [1 if printed else output + 1 for _, _, output in case.rows]
    counts = case.balanced(stages)
    as_implemented = printed_balance(case.classes, case.worker())
    return case.memory(counts) == equilibrium(case.classes, case.worker()).memory and (
        not printed or tuple(counts) == as_implemented
    )


def _end(case: Case) -> int:
    """Return the right-hand side of (8)."""
    return sum(rate * (output + 1) for rate, _, output in case.rows)


def _why_eq8(case: Case) -> str:
    return (
        f"the middle of (8) is {printed_throughput(case.classes, case.worker())}, its end "
        f"{_end(case)}"
    )


@_refuted("fluid.eq8", _why_eq8)
def eq8(case: Case, *, printed: bool = True) -> bool:
    """Throughput in equilibrium.

    Source: fluid paper, eq. (8) (section 3.2)
    Statement: The throughput in equilibrium is (1/d0)·(Σ n_j*)·(1 − A) = Σ λ_j(l'_j + 1).
    Formula: (1/d0)·(Σ_j n_j*)·(1 − Σ_j λ_j(l'_j+1)(l_j+l'_j/2)) = Σ_j λ_j(l'_j+1)
    Summary: The end of (8) is right, its middle lacks d1 (and its first sum runs to n, read m).
    Correction: The factor is 1 − d1·A; then both sides agree.
    """
    if printed:
        return printed_throughput(case.classes, case.worker()) == _end(case)
    return sum(case.counts) * (1 - case.d1 * case.work_rate) / case.fixed == _end(case)


def _why_active(case: Case) -> str:
    counts = printed_active(case.classes, case.worker())
    return f"with A.2's counts (5) gives {case.memory(counts)}, not {case.memory(case.counts)}"


@_refuted("fluid.a2-active", _why_active, scope=Scope.STEP)
def _active(case: Case, *, printed: bool = True) -> bool:
    """Active prompts in equilibrium.

    Source: fluid paper, proof of Proposition 2 (appendix A.2)
    Statement: n_j* = ΔT·λ_j(l'_j + 1)(l_j + l'_j/2) is the number of prompts of type j in the
        batch.
    Formula: n_j* = ΔT*·λ_j(l'_j+1)(l_j+l'_j/2)
    Summary: With the printed counts (5) is not M*.
    Correction: n_j* = ΔT*·λ_j(l'_j + 1), as section 3.1 has it; the printed value is the memory of
        type j.
    """
    if printed:
        counts = list(printed_active(case.classes, case.worker()))
    else:
        counts = [case.time * rate * (output + 1) for rate, _, output in case.rows]
    return case.memory(counts) == case.memory(case.counts)


@_refuted(
    "fluid.proposition1-intuition",
    lambda case: f"d0 = {case.fixed} and d1 = 1/{case.inverse} differ",
    scope=Scope.REMARK,
)
def _intuition(case: Case, *, printed: bool = True) -> bool:
    """Processing time of a prompt.

    Source: fluid paper, after Proposition 1 (section 3.1)
    Statement: Completing a prompt takes d0·Σ_k(l + k) = d1·(l'+1)(l + l'/2) of processing time.
    Formula: d0·Σ_{k=0}^{l'} (l+k) = d1·(l'+1)(l+l'/2)
    Summary: A slip of the index, which returns in Proposition 1.
    Correction: d1·Σ_k(l + k) = d1·(l'+1)(l + l'/2).
    """
    factor = Fraction(case.fixed) if printed else case.d1
    return all(
        factor * stage_sum(p, o) == case.d1 * (o + 1) * (p + Fraction(o, 2))
        for _, p, o in case.rows
    )
