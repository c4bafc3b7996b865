"""Equations (13) to (15): how near to normal a load is, and the tail of the normal law."""

from collections.abc import Iterator
from itertools import product
from math import ceil, erf, exp, log, pi, sqrt

import numpy as np

from formulations.arrays import FloatArray
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.laws import deviation, law, mean, sum_law
from proofs_checks.papers.balance.theorem1 import C1, LEAST_G, prompt_laws
from proofs_checks.search import Domain, examine

CLAIMS = Claims()


#: A constant with which the Berry–Esseen theorem is proven (Shevtsova 2011).
_BERRY_ESSEEN = 0.4748


# Equation (13): distance of a sum from the normal law.


def distance_to_normal(pmf: FloatArray, slots: int) -> float:
    """Return ``sup_x |P(Z ≤ x) − Φ(x)|`` of the standardised sum of ``slots`` draws."""
    total = sum_law(pmf, slots)
    z = (np.arange(len(total)) - slots * mean(pmf)) / (deviation(pmf) * sqrt(slots))
    normal = np.array([(1 + erf(x / sqrt(2))) / 2 for x in z])
    above = np.cumsum(total)
    # The law steps up at each value: compare Φ there with both sides of the step.
    return float(max(abs(above - normal).max(), abs(above - total - normal).max()))


def verify_constant(data: Data) -> str | None:
    """Confirm that a law with values 1 and 2 needs a constant above ``least`` hundredths."""
    odds, slots, least = data["odds"], data["slots"], data["hundredths"]
    if odds < 1 or slots < 1 or least < 300:
        return None
    needed = distance_to_normal(law([1, 2], [odds, 1]), slots) * sqrt(slots)
    if needed * 100 <= least:
        return None
    return (
        f"prompts 1 or 2 with odds {odds} : 1 and B = {slots}: the distance to the normal law is "
        f"{needed:.4f}/√B, above {least / 100}/√B"
    )


@CLAIMS.step(
    "balance.eq13",
    Mutation("no rare sizes: odds up to 10 : 1", rarest=10),
    Mutation("a tenth of the constant in the correction", factor=10),
    defect=Defect.FORMULA,
    verify=verify_constant,
)
def _constant_check(context: Context, *, rarest: int | None = None, factor: float = 1) -> Outcome:
    """Berry–Esseen with a universal constant.

    Source: BF-IO paper, eq. (13) (appendix C.1)
    Statement: Since prompts are bounded there is a universal constant C_BE such that the law of
        the standardised load of B prompts is within C_BE/√B of the normal law.
    Formula: sup_x |P(Z_g ≤ x) − Φ(x)| ≤ C_BE/√B
    Assumes: prompts independent on 1..s_max, σ_s > 0
    Summary: The rarer the long prompts, the larger the constant: it grows without bound as κ_0
        falls.
    Reading: universal: the same for all laws of prompts, as the word says, though the theorem has
        fixed κ_0 before. The check refutes the constant 3; the same family refutes any other.
    Correction: The constant depends on the law through E|s − μ|³/σ_s³ ≤ s_max/σ_s ≤ 1/κ_0:
        0.4748/κ_0 does, so for a fixed κ_0 there is one constant. Theorem 1 keeps its universal c,
        but B_0(G) depends on κ_0 as well as on G.
    """
    most = rarest or context.choose(200, 1000, 10_000)
    odds = [o for o in (1, 3, 10, 30, 100, 200, 1000, 10_000) if o <= most]
    slots = context.choose((1, 8, 64), (1, 8, 64, 256), (1, 8, 64, 256, 1024))
    cases = list(product(odds, slots))
    domain = Domain(
        f"prompts 1 or 2 with odds {odds} : 1, B in {slots}; exact law of the sum", cases
    )
    printed = domain.refute(
        "one constant, 3, for all laws of prompts",
        verify_constant,
        lambda c: {"odds": c[0], "slots": c[1], "hundredths": 300},
    )

    def within(case: tuple[int, int]) -> bool:
        pmf = law([1, 2], [case[0], 1])
        kappa = deviation(pmf) / 2
        return distance_to_normal(pmf, case[1]) * sqrt(case[1]) * factor <= _BERRY_ESSEEN / kappa

    corrected = domain.examine("constant 0.4748/κ_0", within)
    return printed, corrected


# Equations (14) and (15): the tail of the normal law and c_1.


def _grid(context: Context, least: int) -> Iterator[int]:
    for k in range(context.choose(60, 300, 3000)):
        yield least + k
    yield from (2**k for k in range(6, 60) if 2**k >= least)


@CLAIMS.step("balance.eq14", Mutation("G from 30 on", least=30), kind=Kind.IDENTITY)
def _tail_check(context: Context, *, least: int = LEAST_G) -> Outcome:
    """Tail of the normal law.

    Source: BF-IO paper, before eq. (14) (appendix C.1), and eq. (44)
    Statement: For log G ≥ 4 a standard normal variable exceeds z_G = √(log G / 2) with probability
        at least G^{−1/4}/(2√(2π)·z_G).
    Formula: P(Z ≥ z_G) ≥ (1/√(2π))·(1/z_G − 1/z_G³)·e^{−z_G²/2} ≥ G^{−1/4}/(2√(2π)·z_G)
    Assumes: log G ≥ 4
    Summary: The last step is z² ≥ 2, which is exactly log G ≥ 4: the condition is sharp.
    """

    def chain(workers: int) -> bool:
        z = sqrt(log(workers) / 2)
        exact = (1 - erf(z / sqrt(2))) / 2
        middle = (1 / z - 1 / z**3) * exp(-(z**2) / 2) / sqrt(2 * pi)
        last = exp(-log(workers) / 4) / (2 * sqrt(2 * pi) * z)
        return exact >= middle >= last * (1 - 1e-12)

    return examine(
        "P(Z ≥ z_G) ≥ (1/z − 1/z³)·φ(z) ≥ G^{−1/4}/(2√(2π)·z_G)",
        "consecutive G from the least with log G ≥ 4 on, and powers of two up to 2^59",
        (g for g in _grid(context, least) if g < 2**40),
        chain,
    )


def exceedance(workers: int) -> float:
    """Return the proof's ``p_G = G^{−1/4}/(4√(2π)·z_G)``."""
    return exp(-log(workers) / 4) / (4 * sqrt(2 * pi) * sqrt(log(workers) / 2))


def sufficient_slots(pmf: FloatArray, workers: int) -> int:
    """Return ``B_0``: from here on the distance to the normal law is at most p_G."""
    kappa = deviation(pmf) / (len(pmf) - 1)
    return ceil((_BERRY_ESSEEN / kappa / exceedance(workers)) ** 2)


def chance_of_reaching(pmf: FloatArray, slots: int, workers: int) -> float:
    """Return ``P(max_g Z_g ≥ z_G)`` from the exact law of a load."""
    total = sum_law(pmf, slots)
    threshold = slots * mean(pmf) + sqrt(log(workers) / 2 * slots) * deviation(pmf)
    below = float(total[: ceil(threshold)].sum())
    return float(1 - min(below, 1.0) ** workers)


@CLAIMS.step(
    "balance.eq15",
    Mutation("c_1 = 0.76 in place of 0.095", constant=0.76),
    Mutation("one slot per worker", slots=1),
)
def _c1_check(context: Context, *, constant: float = C1, slots: int | None = None) -> Outcome:
    """Some worker reaches the threshold.

    Source: BF-IO paper, eq. (15) (appendix C.1)
    Statement: For log G ≥ 4 and B ≥ B_0(G) some worker's standardised load reaches z_G with
        probability at least c_1 = 1 − e^{−1/(4√(2π))}.
    Formula: P(max_g Z_g ≥ z_G) ≥ 1 − (1 − p_G)^G ≥ 1 − exp(−G·p_G) ≥ c_1,  p_G =
        G^{−1/4}/(4√(2π)·z_G)
    Assumes: log G ≥ 4; B ≥ B_0(G); G independent loads of B independent prompts
    Summary: c_1 has much room: for log G ≥ 4 the chain itself gives 0.759. B_0 must depend on the
        law as well as on G: with prompts 2, but 1 with a chance of 1/(n + 1), no load can reach
        the threshold at all while B < n·log(G)/2.
    Reading: B_0 may depend on the law of prompts too, through κ_0 (balance.eq13); the chain is
        checked from G = 2 on.
    """

    def chain(workers: int) -> bool:
        chance = exceedance(workers)
        # log1p keeps (1 − p)^G accurate where G is huge.
        some = -np.expm1(workers * np.log1p(-chance))
        return bool(some >= 1 - exp(-workers * chance) - 1e-12 and some >= constant)

    bound = examine(
        "1 − (1 − p_G)^G ≥ 1 − exp(−G·p_G) ≥ c_1",
        "consecutive G from 2 on, and powers of two up to 2^59",
        _grid(context, 2),
        chain,
    )
    sizes = context.choose((LEAST_G,), (LEAST_G, 256), (LEAST_G, 256, 1024))
    laws = list(prompt_laws().items())[context.choose(slice(1, 2), slice(4), slice(4))]
    probabilities: list[float] = []

    def reached(case: tuple[tuple[str, FloatArray], int]) -> bool:
        (_, pmf), workers = case
        probabilities.append(
            chance_of_reaching(pmf, slots or sufficient_slots(pmf, workers), workers)
        )
        return probabilities[-1] >= constant

    exact = examine(
        "P(max_g Z_g ≥ z_G) ≥ c_1",
        f"exact laws of loads: prompts {', '.join(name for name, _ in laws)}; G in {sizes}; B the "
        "least for which 0.4748/κ_0 in (13) gives (14)",
        product(laws, sizes),
        reached,
    )
    return Findings(
        bound,
        exact,
        numbers={
            "c_1": C1,
            "1 − exp(−G·p_G) at log G = 4": 1 - exp(-LEAST_G * exceedance(LEAST_G)),
            "least exact probability": min(probabilities),
        },
    )
