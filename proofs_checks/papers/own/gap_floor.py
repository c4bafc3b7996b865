"""With two prompt sizes no policy reduces the gap far below their difference."""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb, pi, sin, sqrt

import numpy as np

from formulations.arrays import FloatArray
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Estimate, Findings, Outcome
from proofs_checks.runs import Admission, Cell, level_sizes, mean_gaps, two_sizes
from proofs_checks.search import examine
from proofs_checks.statistics import mean_estimate
from proofs_checks.step_enumeration import gap

CLAIMS = Claims()


def longest_step(residues: tuple[int, ...], period: int) -> int:
    """``λ(r)``: longest step between consecutive occurring residues on the circle."""
    places = sorted({r % period for r in residues})
    return max(b - a for a, b in zip(places, [*places[1:], places[0] + period], strict=True))


def onto(workers: int, places: int) -> int:
    """Return the number of surjections of G workers onto k places."""
    return sum((-1) ** j * comb(places, j) * (places - j) ** workers for j in range(places + 1))


@cache
def floor(period: int, workers: int) -> Fraction:
    """``μ(m, G)``: m less the mean longest step between uniform residues, exact."""
    total = sum(
        longest_step(places, period) * onto(workers, number)
        for number in range(1, min(period, workers) + 1)
        for places in combinations(range(period), number)
    )
    return period - Fraction(total, period**workers)


def distance_bound(period: int, completion: float, slots: int) -> float:
    """``ε_B``: bound on the distance of a worker's residue from a uniform one."""
    ratio = 1 + 4 * (1 - completion) / completion**2 * sin(pi / period) ** 2
    return float(sqrt(period - 1) / 2 * ratio ** (-slots / 2))


def residue_distance(period: int, completion: float, slots: int) -> float:
    """Return the distance in total variation, by convolution on the circle."""
    chances = completion * (1 - completion) ** np.arange(period)
    one: FloatArray = chances / chances.sum()
    law = np.zeros(period)
    law[0] = 1
    for _ in range(slots):
        law = sum(one[j] * np.roll(law, j) for j in range(period))
    return float(np.abs(law - 1 / period).sum() / 2)


def _loads(context: Context) -> Iterator[tuple[int, tuple[int, ...]]]:
    reach = context.choose(9, 13, 21)
    for period, workers in product((1, 2, 3, 5), (2, 3)):
        for loads in product(range(reach), repeat=workers - 1):
            yield period, (0, *loads)


def _mean_floor(context: Context, factor: float) -> Iterator[tuple[int, int, float]]:
    for period, workers in product((1, 2, 5, context.choose(7, 10, 12)), (2, 4, 16, 64)):
        harmonic = sum(1 / g for g in range(1, workers + 1))
        yield period, workers, factor * period * (1 - harmonic / workers) - 1


def _measured(context: Context, admission: Admission) -> Estimate:
    size, workers, slots, p = context.choose(
        (8, 8, 64, 0.5), (11, 8, 256, 0.5), (11, 16, 512, 0.5)
    )
    replicas, steps = context.choose((8, 24), (20, 60), (60, 400))
    bound = float(floor(size - 1, workers))
    bound -= (size - 1) * workers * distance_bound(size - 1, p, slots)
    return mean_estimate(
        f"mean gap of (IO), prompts 1 and {size}, G = {workers}, B = {slots}, p = {p} [tokens]",
        mean_gaps(Cell(workers, slots, p, size), replicas, steps, context.rng, admission)[0],
        f"not the whole interval below the floor {bound:.4f}, nor above s_max",
        lambda low, high: high >= bound and low <= size,
    )


def residue_imbalance(period: int, workers: int, rng: np.random.Generator) -> float:
    """Return the least imbalance that residues force, over (G − 1)·m; a mean of 50 draws."""
    levels = np.arange(period)[:, None]
    draws = rng.integers(0, period, (50, workers))
    least = [((levels - residues) % period).sum(axis=1).min() for residues in draws]
    return float(np.mean(least) / ((workers - 1) * period))


@CLAIMS.own(
    "own.gap-floor",
    Mutation("plenty of every size in place of two", admission=level_sizes),
    Mutation("one token more", less=1),
    Mutation("the floor doubled", factor=2),
    kind=Kind.STATISTICAL,
    proof="gap-floor",
)
def _check(
    context: Context, *, admission: Admission = two_sizes, factor: float = 1, less: int = 0
) -> Outcome:
    """With two prompt sizes no policy has a gap far below s_max.

    Source: BF-IO paper, Lemma 4 from below (our question)
    Statement: If all prompts are s_min or s_max and the policy does not know the outputs, the mean
        gap tends to at least m(1 − H_G/G) − 1 less a term that vanishes exponentially in B, where
        m = s_max − s_min and H_G = 1 + 1/2 + … + 1/G.
    Formula: liminf_k E[D(k)] ≥ μ(m, G) − mG·ε_B,  μ(m, G) ≥ m(1 − H_G/G) − 1
    Assumes: outputs geometric with p < 1, not known in advance; prompts s_min and s_max only; all
        slots filled at each step
    Summary: Loads are fixed modulo s_max − s_min by the ages, which no policy can choose, and
        nearly uniform there. So the bound s_max of own.lemma4-smax on the gap has the right order,
        and for many workers the right constant. Its bound on the imbalance may be twice too large:
        residues force less than half of (G − 1)·m.
    """
    every = examine(
        "D ≥ m − λ for the residues of the loads modulo m",
        "all loads of 2 and 3 workers in a small range, m = 1, 2, 3, 5",
        _loads(context),
        lambda case: gap(case[1]) >= case[0] - longest_step(case[1], case[0]) + less,
    )
    mean = examine(
        "μ(m, G) ≥ m(1 − H_G/G) − 1",
        "exact means over all residues, m up to 7 (normal 10), G = 2, 4, 16, 64",
        _mean_floor(context, factor),
        lambda case: float(floor(case[0], case[1])) >= case[2] - 1e-9,
    )
    near = examine(
        "a worker's residue is within ε_B of a uniform one",
        "by convolution, m = 2, 3, 7, p = 0.1, 0.5, 0.9, B = 1, 4, 16",
        product((2, 3, 7), (0.1, 0.5, 0.9), (1, 4, 16)),
        lambda case: residue_distance(*case) <= distance_bound(*case) + 1e-12,
    )
    measured = _measured(context, admission)
    return Findings(
        every,
        mean,
        near,
        estimates=(measured,),
        numbers={
            f"floor over s_max − 1 at s_max = {m + 1}, G = {G}": float(floor(m, G) / m)
            for m, G in ((6, 2), (6, 8), (6, 64))
        }
        | {
            f"least imbalance by residues over (G − 1)·m at m = 1000, G = {G}": round(
                residue_imbalance(1000, G, context.rng), 3
            )
            for G in (64, 256)
        },
    )
