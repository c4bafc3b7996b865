"""Theorem 6.4 with a proof: a distribution of releases that meets every start.

With chance ½ only the long request comes; else εM short ones come at kM, k uniform on ε, 2ε, ...,
c + 1 − 2ε. Before the release a deterministic algorithm knows the long request only, so it is a
start k′M (a pause keeps its tokens, and each stretch of εM tokens still takes εM rounds: no less
is met). Started after cM, it costs 1 + c times the optimum where nothing else comes. Started
before, each of the 1/ε − 2 releases after k′ meets memory for 1/ε − 2, ..., 1 short requests at a
time, where the optimum that waits runs 1/ε − 1 at least (1/ε under B, which only helps).
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import floor, log, sqrt
from typing import TypeAlias

from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.papers.kv.adversary import Attack
from proofs_checks.papers.kv.randomized import printed_values
from proofs_checks.papers.kv.randomized_bound import riemann_sum
from proofs_checks.search import examine

CLAIMS = Claims()


#: The values of k for 1/ε and c.
Law: TypeAlias = Callable[[int, int], list[Fraction]]
#: A bound on TEL/OPT at a release, for 1/ε and the free share of M.
Growth: TypeAlias = Callable[[int, Fraction], Fraction]


def every_release(steps: int, constant: int) -> list[Fraction]:
    """Return ``k = ε, 2ε, ..., c + 1 − 2ε``."""
    return [Fraction(j, steps) for j in range(1, (constant + 1) * steps - 1)]


def least_growth(steps: int, room: Fraction) -> Fraction:
    """Return a lower bound on TEL/OPT for M large where ``room·M`` tokens are free at the release.

    With free memory fit short requests run at a time, until all are done: ``(εM)²/(2·fit)`` in
    total. After waiting with the long one 1/ε − 1 do at least; under A both take twice as long,
    and where one fits three quarters of this remain, more than the proof counts.
    """
    fit = floor(room * steps)
    return Fraction(steps - 1, fit) if fit > 0 else Fraction(1)


def cleared(steps: int, room: Fraction) -> Fraction:
    """Return the bound where the long request may be cleared: that costs no term in M²."""
    del steps, room
    return Fraction(1)


def least_ratio(steps: int, constant: int) -> Fraction:
    """``½ + ½·[1 − 1/(c + 1) + (H_{1/ε−1} − 1)/(c + 1)]``, or 1 + c/2 where that is less."""
    hits = riemann_sum(steps) - 1
    return min(1 + hits / (2 * (constant + 1)), 1 + Fraction(constant, 2))


def mean_ratio(
    steps: int,
    constant: int,
    start: Fraction,
    *,
    law: Law = every_release,
    growth: Growth = least_growth,
) -> Fraction:
    """Return a lower bound on ``E[TEL/OPT]`` of the start k′ for M large.

    Parameters
    ----------
    steps, constant : int
        1/ε and c.
    start : Fraction
        k′.
    law : callable
        Values of k; half of the chance is theirs, and in the other half nothing else arrives.
    growth : callable
        Bound on TEL/OPT at one release.
    """
    length = 1 - Fraction(1, steps)
    alone = (start + length) / length
    values = law(steps, constant)
    hits = [growth(steps, start + length - k) for k in values if k > start]
    mean = (sum(hits, Fraction(0)) + len(values) - len(hits)) / len(values)
    return (alone + mean) / 2


def limit(steps: int) -> float:
    """Return the bound for the best c, with H = ln n + 0.5772 + 1/(2n) − ..."""
    hits = log(steps - 1) + 0.5772156649 + 1 / (2 * steps) - 2
    # Both parts of the minimum are equal where c(c + 1) = hits.
    constant = max(sqrt(hits + Fraction(1, 4)) - 0.5, 0.0)
    return 1 + constant / 2


def _costs_at(case: tuple[int, int, int]) -> bool:
    """Compare both parts of `least_growth` with exact costs under C, for a start at 0."""
    steps, prompt, later = case
    attack = Attack(steps * prompt, prompt, prompt, later * prompt)
    together = Fraction(prompt**2, 2)
    rest = 2 * prompt + attack.release + attack.memory
    growth = least_growth(steps, Fraction(steps - 1 - later, steps))
    least = together * growth / (steps - 1)
    return attack.with_long_at(0) >= least and attack.wait() <= together / (steps - 1) + rest


@CLAIMS.result(
    "kv.theorem6.4",
    Mutation("the printed values of k", law=printed_values),
    Mutation("the long request may be cleared", growth=cleared),
    kind=Kind.ASYMPTOTIC,
    proof="randomized-starts",
)
def _theorem_check(
    context: Context, *, law: Law = every_release, growth: Growth = least_growth
) -> Outcome:
    """No constant ratio with randomness.

    Source: KV-cache paper, Theorem 6.4 (section 6)
    Statement: Under adversarial arrivals no randomized algorithm has a constant competitive ratio
        independent of M.
    Formula: sup_M inf_R sup_I E[TEL(I; R)]/OPT(I) = ∞
    Assumes: what has been processed is not cleared, as in Theorem 6.2
    Summary: The theorem stands, with another distribution than the printed one, which fails
        (kv.theorem6.4-distribution, kv.theorem6.4-bound). With chance ½ only the long request
        comes, else k is uniform on ε, 2ε, ..., c + 1 − 2ε. Each k′ ≤ c meets, at 1/ε − 2 of the
        releases, memory for 1, ..., 1/ε − 2 short requests at a time; k′ > c costs 1 + c where
        nothing else arrives. By Yao's inequality for E[TEL/OPT] (kv.eq8) the ratio is at least ½ +
        ½·[1 − 1/(c + 1) + (H_{1/ε−1} − 1)/(c + 1)] or 1 + c/2, unbounded with c about √ln(1/ε),
        after M → ∞.
    Reading: as Theorem 6.2, for algorithms that may pause, which keeps the memory, and do not
        clear: cleared once, the long request costs O(M) more, and neither proof says anything.
        Terms linear in M are left out, as in the paper.
    """
    sizes, constants = context.choose(((8, 20), (1, 2)), ((8, 20, 50), (1, 2, 3)), ((200,), (3,)))
    cases = [
        (n, c, Fraction(k, 2 * n))
        for n, c in product(sizes, constants)
        for k in range(2 * n * (c + 1) + 1)
    ]
    every = examine(
        "E[TEL/OPT] ≥ min{½ + ½·[1 − 1/(c + 1) + (H_{1/ε−1} − 1)/(c + 1)], 1 + c/2} for M large",
        f"1/ε in {list(sizes)}, c in {list(constants)}, k′ = 0, ε/2, ε, ..., c + 1",
        cases,
        lambda case: mean_ratio(*case, law=law, growth=growth) >= least_ratio(*case[:2]),
    )
    costs = examine(
        "what it counts of TEL and OPT, up to terms linear in M, for k′ = 0",
        "convention C, 1/ε = 4..7, M = 50/ε, every k",
        [(n, 50, later) for n in range(4, 8) for later in range(1, n - 1)],
        _costs_at,
    )
    most = context.choose(4, 5, 6)
    unbounded = examine(
        "the bound exceeds every number, c and 1/ε chosen for it",
        f"1, 3/2, ..., {most}/2 with c = twice the number and 1/ε = 2^p",
        [Fraction(h, 2) for h in range(2, most + 1)],
        lambda goal: any(_exceeds(goal, 2**p) for p in range(3, 80)),
    )
    return Findings(
        every,
        costs,
        unbounded,
        numbers={f"bound_at_1/{10**p}": limit(10**p) for p in (2, 4, 6, 9)},
    )


def _exceeds(goal: Fraction, steps: int) -> bool:
    """Whether `least_ratio` for c = 2·goal exceeds the goal, by H_n > ln n + ½."""
    constant = 2 * goal
    return 1 + (log(steps - 1) - 1.5) / (2 * (float(constant) + 1)) > goal
