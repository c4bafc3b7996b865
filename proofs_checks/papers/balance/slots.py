"""One slot under FCFS: its stationary law and its age."""

from fractions import Fraction
from itertools import product

from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.exact_laws import ExactLaw, mean, uniform, variance
from proofs_checks.search import Domain

CLAIMS = Claims()


_CHANCES = tuple(Fraction(k, 10) for k in (1, 3, 5, 9))


# Equations (25) and (26): the stationary law.


def stationary_by_elimination(prompts: ExactLaw, p: Fraction, states: int) -> list[Fraction]:
    """Solve πP = π for the sizes 0..states−1 of one slot, exactly.

    From size y the slot goes to y + 1 with probability 1 − p and to a fresh prompt with
    probability p. No path leads down but through a fresh prompt, so the equations of the sizes
    below any limit are closed, and no state above matters.
    """
    rows = [
        [
            Fraction(int(column == row)) - ((1 - p) if column == row - 1 else 0)
            for column in range(states)
        ]
        for row in range(states)
    ]
    right = [p * prompts.get(y, Fraction(0)) for y in range(states)]
    # Elimination on a lower bidiagonal matrix is forward substitution.
    law: list[Fraction] = []
    for y in range(states):
        known = sum((rows[y][x] * law[x] for x in range(y)), Fraction(0))
        law.append((right[y] - known) / rows[y][y])
    return law


def snapshot_chance(prompts: ExactLaw, p: Fraction, size: int) -> Fraction:
    """``P(S + A = size)`` with A geometric: p(1 − p)^a."""
    return sum(
        (chance * p * (1 - p) ** (size - s) for s, chance in prompts.items() if s <= size),
        Fraction(0),
    )


def stationary_moments(prompts: ExactLaw, p: Fraction) -> tuple[Fraction, Fraction]:
    """Mean and variance of the stationary size from its own equation, without its law.

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
    domain = Domain(
        f"prompts uniform on every set within 1..{largest}, p = 1/10, 3/10, 1/2, 9/10", cases
    )
    law = domain.examine(
        "the law of S + A solves πP = π",
        lambda c: stationary_by_elimination(*c, states)
        == [snapshot_chance(*c, y - extra_age) for y in range(states)]
    )  # fmt: skip

    def moments(case: tuple[ExactLaw, Fraction]) -> bool:
        prompts, p = case
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
    domain = Domain(f"p = 1/10, 3/10, 1/2, 9/10 and steps 1..{steps - 1}, exactly", cases)

    def tails(case: tuple[Fraction, int]) -> bool:
        p, k = case
        law = age_law(p, k)
        return all(
            sum(chance for a, chance in law.items() if a >= n) <= (1 - p) ** (n + faster)
            for n in range(k + 2)
        )

    def third(case: tuple[Fraction, int]) -> bool:
        p, k = case
        law = age_law(p, k)
        moment = sum(a**3 * chance for a, chance in law.items())
        total = sum(
            n**2 * sum((c for a, c in law.items() if a >= n), Fraction(0)) for n in range(k + 1)
        )
        return moment <= constant * total

    tail = domain.examine("P(A(k) ≥ n) ≤ (1 − p)^n", tails)
    cube = domain.examine("E[A³] ≤ 3·Σ n²·P(A ≥ n)", third)
    return tail, cube
