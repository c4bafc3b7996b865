"""One slot: its stationary law and age under FCFS, and its moments under drift (Lemma 8)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, product

from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Outcome, dismiss_if, verifier
from proofs_checks.search import examine
from proofs_checks.statistics import ExactLaw, in_whole_numbers, uniform, variance
from proofs_checks.statistics import exact_mean as mean

CLAIMS = Claims()


_CHANCES = tuple(Fraction(k, 10) for k in (1, 3, 5, 9))


# Equations (25) and (26): the stationary law.


def stationary_by_substitution(prompts: ExactLaw, p: Fraction, states: int) -> list[Fraction]:
    """Solve πP = π for the sizes 0..states−1 of one slot, exactly.

    From size y the slot moves to y + 1 with probability 1 − p and to a fresh prompt with
    probability p. Sizes decrease only through a fresh prompt, so the equations of the sizes below
    any limit form a closed system.
    """
    fresh = (p * prompts.get(y, Fraction(0)) for y in range(states))
    return list(accumulate(fresh, lambda smaller, new: (1 - p) * smaller + new))


def snapshot_chance(prompts: ExactLaw, p: Fraction, size: int) -> Fraction:
    """Return ``P(S + A = size)``; S has the law ``prompts``, P(A = a) = p(1 − p)^a."""
    return sum(
        (chance * p * (1 - p) ** (size - s) for s, chance in prompts.items() if s <= size),
        Fraction(0),
    )


def stationary_moments(prompts: ExactLaw, p: Fraction) -> tuple[Fraction, Fraction]:
    """Mean and variance of the stationary size from its balance equation, without its law.

    ``E f(U) = (1 − p)·E f(U + 1) + p·E f(S)`` for f(u) = u and f(u) = u².
    """
    first = mean(prompts)
    second = variance(prompts) + first**2
    centre = ((1 - p) + p * first) / p
    square = ((1 - p) * (2 * centre + 1) + p * second) / p
    return centre, square - centre**2


@CLAIMS.step(
    "balance.eq26",
    Mutation("ages from 1 on", extra_age=1),
    Mutation("variance (1 − p)/(2p²)", spread=Fraction(1, 2)),
)
def _stationary_check(
    context: Context, *, extra_age: int = 0, spread: Fraction = Fraction(1)
) -> Outcome:
    """Stationary law of a slot under FCFS.

    Source: BF-IO paper, appendix C.2, step 2.B, eq. (25) and (26)
    Statement: A slot that grows by one token a step and is refilled with probability p is, in the
        long run, a prompt plus an independent geometric age: mean μ_s + (1 − p)/p, variance σ_s² +
        (1 − p)/p².
    Formula: U = S + A,  P(A = a) = p(1−p)^a,  E U = μ_s + (1−p)/p,  Var U = σ_s² + (1−p)/p²
    Assumes: outputs geometric with p; a pool that never runs dry; FCFS
    Summary: Solved by elimination in fractions; the moments from the chain's own equation.
    """
    largest = context.choose(4, 5, 6)
    states = context.choose(12, 30, 60)
    cases = [
        (uniform([v for v in range(1, largest + 1) if mask >> (v - 1) & 1]), p)
        for mask in range(1, 2**largest)
        for p in _CHANCES
    ]
    domain = context.domain(
        f"prompts uniform on every set within 1..{largest}, p = 1/10, 3/10, 1/2, 9/10", cases
    )
    law = domain.examine(
        "the law of S + A solves πP = π",
        lambda prompts, p: stationary_by_substitution(prompts, p, states)
        == [snapshot_chance(prompts, p, y - extra_age) for y in range(states)]
    )  # fmt: skip

    def moments(prompts: ExactLaw, p: Fraction) -> bool:
        return stationary_moments(prompts, p) == (
            mean(prompts) + (1 - p) / p,
            variance(prompts) + spread * (1 - p) / p**2,
        )

    both = domain.examine("mean and variance of eq. (26)", moments)
    return law, both


# Equation (39) and the moments behind Lemma 8.


def age_law(p: Fraction, step: int) -> ExactLaw:
    """Law of the age at a step: a completion at each step with probability p, or none so far."""
    law = {a: p * (1 - p) ** a for a in range(step)}
    return law | {step: (1 - p) ** step}


@CLAIMS.step(
    "balance.eq39",
    Mutation("(1 − p)^{n+1} in place of (1 − p)^n", faster=1),
    Mutation("0 in place of 3", constant=0),
    kind=Kind.IDENTITY,
)
def _age_check(context: Context, *, faster: int = 0, constant: int = 3) -> Outcome:
    """Tails of the age.

    Source: BF-IO paper, appendix C.3, eq. (39), and the tail sum in the proof of Lemma 8
    Statement: At every step the age of a slot is n or more with probability at most (1 − p)^n, and
        E[A³] is at most three times the sum of n²·P(A ≥ n).
    Formula: P(A(k) ≥ n) ≤ (1−p)^n;  E[A(k)³] ≤ 3·Σ_n n²·P(A(k) ≥ n)
    Assumes: completions independent with probability p; age counted from step 0
    Summary: With equality for n ≤ k in the first.
    """
    steps = context.choose(12, 40, 100)
    cases = list(product(_CHANCES, range(1, steps)))
    domain = context.domain(f"p = 1/10, 3/10, 1/2, 9/10 and steps 1..{steps - 1}, exactly", cases)

    def tails(p: Fraction, k: int) -> bool:
        law = age_law(p, k)
        return all(
            sum(chance for a, chance in law.items() if a >= n) <= (1 - p) ** (n + faster)
            for n in range(k + 2)
        )

    def third(p: Fraction, k: int) -> bool:
        law = age_law(p, k)
        moment = sum(a**3 * chance for a, chance in law.items())
        total = sum(
            n**2 * sum((c for a, c in law.items() if a >= n), Fraction(0)) for n in range(k + 1)
        )
        return moment <= constant * total

    tail = domain.examine("P(A(k) ≥ n) ≤ (1 − p)^n", tails)
    cube = domain.examine("E[A³] ≤ 3·Σ n²·P(A ≥ n)", third)
    return tail, cube


# Lemma 8: variance and third moment of a slot under drift, and steps of its proof.


@dataclass(frozen=True)
class Slot:
    """A slot under drift: prompts, completion probability, increments, initial size.

    Parameters
    ----------
    prompts : tuple of int
        Prompts are uniform on these.
    tenths : int
        ``p`` in tenths.
    increments : tuple of int
        ``δ_1, ..., δ_k`` up to step k.
    start : int or None
        Size at step 0; None for a fresh prompt.
    """

    prompts: tuple[int, ...]
    tenths: int
    increments: tuple[int, ...]
    start: int | None

    @property
    def chance(self) -> Fraction:
        """``p``."""
        return Fraction(self.tenths, 10)

    @property
    def renewed(self) -> Fraction:
        """Probability that a request ended since step 0, ``1 − (1 − p)^k``."""
        return 1 - (1 - self.chance) ** len(self.increments)

    def law(self) -> ExactLaw:
        """Return the law of ``Y(k)`` by recursion (38)."""
        # Integer weights: each prompt has weight `total` over the number of prompts.
        number = len(self.prompts)
        law = dict.fromkeys(self.prompts, 1) if self.start is None else {self.start: number}
        total = number
        for increment in self.increments:
            later = {y + increment: q * (10 - self.tenths) for y, q in law.items()}
            for y in self.prompts:
                later[y] = later.get(y, 0) + total // number * self.tenths
            law, total = later, total * 10
        return {y: Fraction(q, total) for y, q in law.items() if q}


def third_moment(law: ExactLaw) -> Fraction:
    """Return ``E|Y − E Y|³``."""
    weights, whole = in_whole_numbers(law)
    centre = sum(v * w for v, w in weights.items())
    return Fraction(sum(abs(v * whole - centre) ** 3 * w for v, w in weights.items()), whole**4)


def slot_of(prompts: list[int], tenths: int, increments: list[int], start: int) -> Slot:
    """Return a slot that starts from a given size; dismiss what is not a slot."""
    dismiss_if(len(set(prompts)) != len(prompts) or len(prompts) < 2 or min(prompts) < 1)
    # Increments of 0 would work too; positive ones make a clearer counterexample.
    dismiss_if(not increments or min(increments) < 1 or not 1 <= tenths <= 9 or start < 1)
    return Slot(tuple(prompts), tenths, tuple(increments), start)


def _described(slot: Slot) -> str:
    return (
        f"a slot of size {slot.start} at step 0, p = {slot.tenths}/10, prompts uniform on "
        f"{list(slot.prompts)}, increments {list(slot.increments)}: after "
        f"{len(slot.increments)} step(s)"
    )


#: Largest prompt and most steps: quick, normal, deep.
_SIZES = ((3, 2), (4, 3), (6, 4))


def _made(context: Context) -> str:
    largest, longest = context.choose(*_SIZES)
    return (
        f"every slot with uniform prompts on two values or more in 1..{largest}, up to {longest} "
        "increments 0..2, p = 1/10, 1/2, 9/10"
    )


def _slots(context: Context, starts: Sequence[int | None], *, slowest: int = 0) -> Iterator[Slot]:
    largest, longest = context.choose(*_SIZES)
    for mask in range(1, 2**largest):
        prompts = tuple(v for v in range(1, largest + 1) if mask >> (v - 1) & 1)
        if len(prompts) < 2:
            continue
        for k in range(1, longest + 1):
            for deltas, tenths, start in product(
                product(range(slowest, 3), repeat=k), (1, 5, 9), starts
            ):
                yield Slot(prompts, tenths, deltas, start)


# The variance, (40).


@verifier
def verify_variance(prompts: list[int], tenths: int, increments: list[int], start: int) -> str:
    """Confirm that a slot's variance from a given start breaks the printed bound, exactly."""
    slot = slot_of(prompts, tenths, increments, start)
    actual, wanted = variance(slot.law()), variance(uniform(slot.prompts))
    dismiss_if(actual >= wanted)
    return f"{_described(slot)} the variance is {actual} < σ_s² = {wanted}"


_RECURSION = "recursion (38): Y(k) = (1−ξ)(Y(k−1) + δ_k) + ξ·S"


@CLAIMS.result(
    "balance.lemma8",
    Mutation("fresh prompts at step 0", arbitrary=False),
    Mutation("σ_s² from any start in the correction", whole=True),
    hypotheses=(_RECURSION, "Y(0) arbitrary, independent of what follows"),
    defect=Defect.HYPOTHESIS,
    verify=verify_variance,
)
def _variance_check(context: Context, *, arbitrary: bool = True, whole: bool = False) -> Outcome:
    """Variance of a slot under drift.

    Source: BF-IO paper, Lemma 8, (40) (appendix C.3)
    Statement: For any slot and any step k ≥ 1 the variance of its size is at least σ_s², whatever
        the initial configuration.
    Formula: Var(Y(k)) ≥ σ_s² for all k ≥ 1
    Summary: The proof takes the prompt in a slot for an independent copy of S at any fixed time;
        until the first completion it is whatever the slot began with.
    Reading: refuted is the reading with any Y(0), as (38) introduces it: independent of what
        follows, and not restricted. The age counts from time 0 where nothing has ended, and Y =
        S_cur + H, so the proof means fresh prompts at step 0; read so, the lemma holds as it
        stands. A hypothesis that the proof implies and nothing states.
    Correction: It holds if the slots hold fresh prompts at step 0, as they do when a run begins.
        From an arbitrary configuration Var(Y(k)) ≥ (1 − (1 − p)^k)·σ_s² ≥ p·σ_s²: given that a
        request ended in the slot, its prompt is an independent copy of S. Theorem 3's time average
        is not affected.
    """
    starts: tuple[int | None, ...] = tuple(range(1, context.choose(4, 7, 10)))
    made = _made(context)
    printed = context.refute(
        "Var Y(k) ≥ σ_s² from any size at step 0",
        made.replace("0..2", "1 and 2"),
        _slots(context, starts if arbitrary else (None,), slowest=1),
        holds=lambda s: variance(s.law()) >= variance(uniform(s.prompts)),
    )

    def corrected_holds(slot: Slot) -> bool:
        share = 1 if slot.start is None or whole else slot.renewed
        actual = variance(slot.law())
        return actual >= share * variance(uniform(slot.prompts)) and share >= slot.chance

    corrected = examine(
        "Var Y(k) ≥ (1 − (1 − p)^k)·σ_s² ≥ p·σ_s² from any size at step 0, and ≥ σ_s² from a "
        "fresh prompt",
        made, _slots(context, (None, *starts)), corrected_holds,
    )  # fmt: skip
    return printed, corrected


# The third moment, (41).


def moment_bound(slot: Slot) -> Fraction:
    """Return a valid C_3 for slots that begin with a fresh prompt.

    ``|x + y|³ ≤ 4(|x|³ + |y|³)`` for the prompt and the growth, each less its mean; the growth is
    at most δ_max times an age with ``E A³ ≤ 6/p³``, and ``E|H − EH|³ ≤ 8·E H³``.
    """
    grown = 48 * Fraction(max(slot.increments)) ** 3 / slot.chance**3
    return 4 * (Fraction(max(slot.prompts) - 1) ** 3 + grown)


@verifier
def verify_moment(
    prompts: list[int], tenths: int, increments: list[int], start: int, constant: int
) -> str:
    """Confirm that the third moment exceeds a constant that is valid for a fresh prompt."""
    slot = slot_of(prompts, tenths, increments, start)
    dismiss_if(constant < moment_bound(slot))
    moment = third_moment(slot.law())
    dismiss_if(moment <= constant)
    return (
        f"{_described(slot)} E|Y − EY|³ = {float(moment):.1f}, above {constant}; from a fresh "
        f"prompt it would stay below {float(moment_bound(slot)):.1f} at all steps"
    )


@CLAIMS.result(
    "balance.lemma8-moment",
    Mutation("starts no larger than prompts", far=False),
    Mutation("a thousandth of the constant in the correction", share=Fraction(1, 1000)),
    hypotheses=(_RECURSION, "Y(0) arbitrary, independent of what follows"),
    defect=Defect.HYPOTHESIS,
    verify=verify_moment,
)
def _moment_check(context: Context, *, far: bool = True, share: Fraction = Fraction(1)) -> Outcome:
    """Third moment of a slot under drift.

    Source: BF-IO paper, Lemma 8, (41) (appendix C.3)
    Statement: There is a constant C_3 that depends only on (p, σ_s², δ_max, s_max) such that the
        third central absolute moment of a slot's size is at most C_3 at every step k ≥ 1.
    Formula: E|Y(k) − E Y(k)|³ ≤ C_3(p, σ_s², δ_max, s_max) for all k ≥ 1
    Summary: While the first content y is there with probability (1 − p)^k, the moment grows like
        y³; no constant that knows (p, σ_s², δ_max, s_max) only can bound it.
    Reading: as balance.lemma8: refuted with any Y(0), true with fresh prompts at step 0, which the
        proof implies. The check refutes constants of ten thousand and a million; a larger start
        refutes any other.
    Correction: It holds if the slots hold fresh prompts at step 0, with C_3 = 4((s_max − 1)³ +
        48·δ_max³/p³); or with a constant that depends on the first content too.
    """
    constants = context.choose((10**4, 10**6), (10**4, 10**6, 10**9), (10**4, 10**6, 10**12))
    starts = [10 * round(constant ** (1 / 3)) for constant in constants] if far else [1, 2]
    cases = [
        ((1, 2), tenths, (1,) * k, start, constant)
        for constant, start, tenths, k in product(constants, starts, (5, 9), (1, 2))
    ]
    printed = context.refute(
        "E|Y(k) − E Y(k)|³ below one constant from any size at step 0",
        f"prompts 1 or 2, increments 1, p = 1/2 and 9/10, constants {constants}, starts {starts}",
        cases,
    )
    corrected = examine(
        "E|Y(k) − E Y(k)|³ ≤ 4((s_max − 1)³ + 48·δ_max³/p³) from a fresh prompt",
        _made(context),
        _slots(context, (None,)),
        lambda s: third_moment(s.law()) <= share * moment_bound(s),
    )
    return printed, corrected


# Steps of the proof of Lemma 8: the decomposition of a slot's size, and the cube of a sum.


# The decomposition, after one step: H is δ_1 with probability 1 − p, else 0.


def _means(prompts: Sequence[int], tenths: int, increment: int) -> tuple[Fraction, Fraction]:
    """Return ``μ_s`` and ``E H``."""
    return Fraction(sum(prompts), len(prompts)), (1 - Fraction(tenths, 10)) * increment


@verifier
def verify_decomposition(
    prompts: list[int], tenths: int, increment: int, prompt: int, survives: int
) -> str:
    """Confirm that both sides of the printed identity differ after a slot's first step."""
    dismiss_if(len(prompts) < 2 or len(set(prompts)) < len(prompts) or prompt not in prompts)
    dismiss_if(min(prompts) < 1 or increment < 0 or not 1 <= tenths <= 9)
    growth = increment if survives == 1 else 0
    mean_s, mean_h = _means(prompts, tenths, increment)
    left = prompt + growth - (mean_s + mean_h)
    right = (prompt - mean_s) + (growth - mean_h) + (mean_s - (mean_s + mean_h))
    dismiss_if(left == right)
    return (
        f"prompts uniform on {prompts}, p = {tenths}/10, δ_1 = {increment}, k = 1, a "
        f"prompt of {prompt} that {'has grown' if growth else 'is new'}: Y − E[Y] = {left}, the "
        f"right-hand side = {right}"
    )


@CLAIMS.step(
    "balance.lemma8-decomposition",
    Mutation("no growth, H = 0", increments=0),
    Mutation("the second term dropped from the correction", terms=1),
    defect=Defect.FORMULA,
    verify=verify_decomposition,
)
def _decomposition_check(context: Context, *, increments: int = 2, terms: int = 2) -> Outcome:
    """Decomposition of a slot's size.

    Source: BF-IO paper, proof of Lemma 8 (appendix C.3)
    Statement: Y(k) − E[Y(k)] = (S_cur − μ_s) + (H − E[H]) + (μ_s − E[Y(k)]).
    Formula: Y − EY = (S − μ_s) + (H − EH) + (μ_s − EY)
    Assumes: Y = S + H; S and H independent; Var(S) > 0
    Summary: The third term is −E[H], one too many.
    Correction: Without the third term: Y − EY = (S − μ_s) + (H − EH). The bound on the third
        moment needs no more, and the constant C_3 gets smaller.
    """
    largest = context.choose(3, 5, 8)
    cases = [
        ((1, other), *rest)
        for other in range(2, largest + 1)
        for rest in product((1, 5, 9), range(increments + 1), (1, other), (0, 1))
    ]
    domain = context.domain(
        f"slots with two prompts up to {largest} and increments up to {increments} after a step",
        cases,
    )
    printed = domain.refute("Y − EY = (S − μ_s) + (H − EH) + (μ_s − EY)")

    def two_terms(case: tuple[tuple[int, int], int, int, int, int]) -> bool:
        prompts, tenths, increment, prompt, survives = case
        mean_s, mean_h = _means(prompts, tenths, increment)
        growth = increment * survives
        parts = [prompt - mean_s, growth - mean_h][:terms]
        return sum(parts) == prompt + growth - mean_s - mean_h

    corrected = domain.examine("Y − EY = (S − μ_s) + (H − EH)", two_terms)
    return printed, corrected


# The cube.


@CLAIMS.step("balance.lemma8-cubes", Mutation("8 in place of 27", constant=8), kind=Kind.IDENTITY)
def _cubes_check(context: Context, *, constant: int = 27) -> Outcome:
    """Cube of a sum of three.

    Source: BF-IO paper, proof of Lemma 8 (appendix C.3)
    Statement: For non-negative x, y, z the cube of the sum is at most 27 times the sum of the
        cubes.
    Formula: (x + y + z)³ ≤ 27(x³ + y³ + z³)
    Assumes: x, y, z ≥ 0
    Summary: 9 would do (power means), with equality at x = y = z; 27 is safe.
    """
    largest = context.choose(6, 12, 30)
    return examine(
        "(x + y + z)³ ≤ 27(x³ + y³ + z³)",
        f"all integers 0..{largest}",
        product(range(largest + 1), repeat=3),
        lambda x: sum(x) ** 3 <= constant * sum(v**3 for v in x),
    )
