"""The gap of BF-IO: its floor with two prompt sizes, and Lemma 4 with s_max for s_max/p."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, product
from math import comb, exp, log, pi, sin, sqrt
from operator import le

import numpy as np

from formulations.arrays import FloatArray
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Estimate, Examination, Findings, Outcome
from proofs_checks.papers.balance.average_gap import sufficient_slots
from proofs_checks.runs import Admission, Cell, blind_sizes, gap, level_sizes, mean_gaps, two_sizes
from proofs_checks.search import examine
from proofs_checks.statistics import bounded_mean, mean_estimate, sum_law

CLAIMS = Claims()


def longest_step(residues: tuple[int, ...], period: int) -> int:
    """Return ``λ(r)``: longest step between consecutive occurring residues on the circle."""
    places = sorted({r % period for r in residues})
    return max(b - a for a, b in zip(places, [*places[1:], places[0] + period], strict=True))


def onto(workers: int, places: int) -> int:
    """Return the number of surjections of G workers onto k places."""
    return sum((-1) ** j * comb(places, j) * (places - j) ** workers for j in range(places + 1))


@cache
def floor(period: int, workers: int) -> Fraction:
    """Return ``μ(m, G)``: m less the mean longest step between uniform residues, exact."""
    total = sum(
        longest_step(places, period) * onto(workers, number)
        for number in range(1, min(period, workers) + 1)
        for places in combinations(range(period), number)
    )
    return period - Fraction(total, period**workers)


def distance_bound(period: int, completion: float, slots: int) -> float:
    """Return ``ε_B``: bound on the distance of a worker's residue from a uniform one."""
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


def _floor_measured(context: Context, admission: Admission) -> Estimate:
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
def _floor_check(
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
        lambda m, loads: gap(loads) >= m - longest_step(loads, m) + less,
    )
    mean = examine(
        "μ(m, G) ≥ m(1 − H_G/G) − 1",
        "exact means over all residues, m up to 7 (normal 10), G = 2, 4, 16, 64",
        _mean_floor(context, factor),
        lambda m, G, least: float(floor(m, G)) >= least - 1e-9,
    )
    near = examine(
        "a worker's residue is within ε_B of a uniform one",
        "by convolution, m = 2, 3, 7, p = 0.1, 0.5, 0.9, B = 1, 4, 16",
        product((2, 3, 7), (0.1, 0.5, 0.9), (1, 4, 16)),
        lambda *case: residue_distance(*case) <= distance_bound(*case) + 1e-12,
    )
    measured = _floor_measured(context, admission)
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


@dataclass(frozen=True)
class Constants:
    """The constants of the theorem; ``drift`` is the largest increment Δ, ``level`` is α's 4."""

    workers: int
    slots: int
    completion: float
    largest: int
    drift: float = 1.0
    level: float = 4.0

    @property
    def alpha(self) -> float:
        """``α = 4·log(GB)``."""
        return self.level * log(self.workers * self.slots)

    @property
    def counts(self) -> float:
        """``W``: bound on the deviation of a worker's free slots from Bp on a good step."""
        p = self.completion
        return sqrt(2 * p * (1 - p) * self.slots * self.alpha) + self.alpha / 3

    @property
    def growth(self) -> float:
        """Bound on the deviation of the completed growth from its mean, good step [tokens]."""
        p = self.completion
        root = sqrt((1 - p) * self.slots * self.alpha / p)
        return self.drift * (2 * root + self.alpha / p)

    @property
    def noise(self) -> float:
        """``u``: bound on |Z_g| on a good step [tokens]."""
        return (self.largest + self.drift) * self.counts + self.growth

    @property
    def remainder(self) -> float:
        """``ρ``, for s_min = 1 [tokens]."""
        p, G, B = self.completion, self.workers, self.slots
        prompts = (self.largest - 1) / (G * sqrt(G) * B)
        return sqrt(6) / p * (prompts + sqrt(2) * self.drift / (p * G * B))

    def met(self, program: bool = False) -> bool:
        """Return whether B is large enough, for the minimiser of the gap or for (IO)."""
        s = self.largest
        added = (self.workers - 2) * (s - 1) if program else 0
        return self.slots * self.completion >= (2 * s - 1) * self.counts + 2 * self.noise + added


def least_slots(workers: int, completion: float, largest: int, program: bool = False) -> int:
    """Return the batch size that meets the condition although one slot less does not."""

    def met(slots: int) -> bool:
        return Constants(workers, slots, completion, largest).met(program)

    low, high = 0, 1
    while not met(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle, high)
    return high


# One good step.


def _contractions(
    context: Context, *, truncated: bool, share: int
) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield excesses after a good step and their bounds, for both policies."""
    spread, largest = context.choose((3, 5), (4, 8), (6, 12))
    for G, w, tenths in product((2, 3), range(spread), (1, 5, 9)):
        keep = 1 - Fraction(tenths, 10)
        for deficits in product(range(largest + 1), repeat=G - 1):
            worst = max(Fraction(w), keep * max(deficits))
            slack = Fraction(share * (G - 2) * w)
            total = sum((max(Fraction(w), keep * d - slack) for d in deficits), Fraction(0))
            for after, before, level in (
                (worst, Fraction(max(deficits)), w),
                (total, Fraction(sum(deficits)), (G - 1) * w),
            ):
                off = level if truncated else 0
                yield max(after - off, Fraction(0)), keep * max(before - off, Fraction(0))


# Noise.


def growth_tail(slots: int, longest: int, least: float) -> float:
    """Return ``P(Σ_i (ξ_i − 1/2)·N_i ≥ least)``, ages truncated at ``longest``; p = 1/2.

    Twice the sum is a sum of ``±N_i``: one law with integer values, convolved.
    """
    # Half the chances of the ages 0, 1, ..., longest, for each sign.
    half = 0.5 ** np.minimum(np.arange(2, longest + 3), longest + 1)
    one = np.zeros(2 * longest + 1)
    one[longest:] += half
    one[longest::-1] += half
    law = sum_law(one, slots)
    values = (np.arange(len(law)) - slots * longest) / 2
    return float(law[values >= least].sum())


def _noise(context: Context, factor: float) -> Examination[tuple[int, float]]:
    slots = context.choose((4, 32), (4, 32, 128), (4, 32, 128, 512))

    def holds(B: int, t: float) -> bool:
        # p = 1/2, Δ = 1: √(2vt) + ct with v = 2B(1 − p)/p, c = 1/p.
        threshold = factor * (2 * sqrt(B * t) + 2 * t)
        return growth_tail(B, 12, threshold) <= exp(-t) * (1 - 1e-9)

    return examine(
        "P(Σ_i (ξ_i − p)·N_i ≥ 2√((1 − p)Bt/p) + t/p) ≤ e^{−t}",
        f"laws by convolution, p = 1/2, B in {slots}, ages up to 12, t = 1, 2, 4, 8",
        product(slots, (1.0, 2.0, 4.0, 8.0)),
        holds,
    )


def _bad_steps(level: float) -> Examination[tuple[int, int]]:
    def holds(G: int, B: int) -> bool:
        constants = Constants(G, B, 0.5, 2, level=level)
        off = np.abs(np.arange(B + 1) - B / 2) > constants.counts
        # If all prompts are s_max, Z_g^1 is (s_max + 1)(c_g − Bp) and as likely to be too large.
        counts = 2 * float(sum_law(np.array([0.5, 0.5]), B)[off].sum())
        return G * (counts + 2 * growth_tail(B, 12, constants.growth)) <= 6 / (G**3 * B**4)

    return examine(
        "P(a step is not good) ≤ 6/(G³B⁴)",
        "the chances of its three events added up, laws by convolution; p = 1/2, prompts of "
        "s_max, ages up to 12, G = 2, 16, B = 16, 128",
        product((2, 16), (16, 128)),
        holds,
    )


# The whole statement.

_SETTINGS = ((2, 0.9, 2), (2, 0.5, 2), (16, 0.5, 10), (16, 0.1, 10), (256, 0.5, 10))


def _least_batches(program: bool) -> Examination[tuple[int, float, int, bool]]:
    def holds(G: int, p: float, s: int, of_imbalance: bool) -> bool:
        B = least_slots(G, p, s, of_imbalance and program)
        constants = Constants(G, B, p, s)
        few, many = B * p - constants.counts, B * p + constants.counts
        contracts = s * few - (s - 1) * many - 2 * constants.noise
        needed = (G - 2) * (s - 1) if of_imbalance else 0
        return constants.remainder < 0.1 and contracts >= needed - 1e-14 * s * B

    return examine(
        "ρ < 1/10, and Γ ≥ 2u on good steps, for (IO) Γ ≥ 2u + (G − 2)(s_max − s_min), at the "
        "least B that meets the condition",
        "G = 2, 16, 1024, p = 0.001, 0.1, 0.5, 0.9, 0.999, s_max = 2, 10, 1000, (D) and (IO)",
        product((2, 16, 1024), (0.001, 0.1, 0.5, 0.9, 0.999), (2, 10, 1000), (False, True)),
        holds,
    )


def _smax_measured(
    context: Context, admissions: tuple[Admission, Admission], bound: float
) -> Iterator[Estimate]:
    settings = context.choose(((4, 3),), ((4, 3), (8, 4)), ((4, 3), (8, 4), (8, 11)))
    replicas, steps = context.choose((6, 12), (20, 40), (60, 200))
    for G, s in settings:
        for of_imbalance, admission in enumerate(admissions):
            cell = Cell(G, least_slots(G, 0.9, s, bool(of_imbalance)), 0.9, s)
            at_most = s - 1 + Constants(G, cell.slots, 0.9, s).remainder
            yield bounded_mean(
                f"mean {('gap of (D)', 'imbalance of (IO)')[of_imbalance]}, prompts 1 and s_max, "
                f"G = {G}, B = {cell.slots}, p = 0.9, s_max = {s} [tokens]",
                mean_gaps(cell, replicas, steps, context.rng, admission)[of_imbalance],
                ("s_max − 1 + ρ", "(G − 1)(s_max − 1 + ρ)")[of_imbalance],
                bound * (G - 1) ** of_imbalance * at_most,
            ).estimate


@CLAIMS.own(
    "own.lemma4-smax",
    Mutation("no truncation: the gap itself shrinks by 1 − p", truncated=False),
    Mutation("(IO) without the added (G − 2)(s_max − s_min)", share=0),
    Mutation("a tenth of the noise", factor=0.1),
    Mutation("α = 2·log(GB)", level=2),
    Mutation("the condition for (D) in place of that for (IO)", program=False),
    Mutation("FCFS in place of BF-IO", admissions=(blind_sizes, blind_sizes)),
    Mutation("a quarter of s_max", bound=0.25),
    kind=Kind.STATISTICAL,
    proof="lemma4-smax",
)
def _smax_check(
    context: Context,
    *,
    truncated: bool = True,
    share: int = 1,
    factor: float = 1,
    level: float = 4,
    program: bool = True,
    admissions: tuple[Admission, Admission] = (partial(two_sizes, by_gap=True), two_sizes),
    bound: float = 1,
) -> Outcome:
    """Lemma 4 with s_max in place of s_max/p.

    Source: BF-IO paper, Lemmas 4 and 7 (appendix C; our sharpening)
    Statement: With geometric outputs and an overloaded pool the mean gap of the policy that
        minimises the gap tends to at most s_max − s_min + ρ, and the mean imbalance of (IO),
        whatever breaks its ties, to at most G − 1 times that, if Bp is at least (4·s_max +
        1)·(√(2p(1 − p)Bα) + α/3) + 4·√((1 − p)Bα/p) + 2α/p with α = 4·log(GB), for (IO) plus (G −
        2)(s_max − s_min). There ρ = (√6/p)((s_max − s_min)/(G^{3/2}B) + √2/(pGB)) < 1/10.
    Formula: limsup_k E[D(k)] ≤ s_max − s_min + ρ,  limsup_k E[Imb_IO(k)] ≤ (G − 1)(s_max − s_min +
        ρ)
    Assumes: outputs geometric with p, not known in advance, and ties broken without them;
        overloaded pool (Definition 1); Bp at least as in the statement
    Summary: On a good step D ≤ max{s_max − s_min, (1 − p)·D}; the paper replaces this maximum by a
        sum and so loses 1/p. The excess contracts instead. So the bound of Theorem 2 is larger by
        1/p, for (IO) with any tie-break, from batches on that are thousands of times smaller than
        what (19) asks for. Theorem 3 gains nothing: its constant may depend on p. For the gap the
        order cannot be improved (own.gap-floor).
    Reading: for (IO) the imbalance is bounded and the gap is not: ties of one step can leave a gap
        above s_max − s_min (the proof's section on one step of (IO)).
    """
    pairs = list(_contractions(context, truncated=truncated, share=share))
    step = examine(
        "on a good step the excess over s_max − s_min, and over G − 1 times that, shrinks by 1 − "
        "p",
        "deficits before the step 0, 1, ..., in fractions; p = 1/10, 1/2, 9/10; G = 2 and 3",
        pairs,
        le,
    )
    numbers: dict[str, float | str] = {}
    for G, p, s in _SETTINGS:
        least, printed = least_slots(G, p, s), sufficient_slots(G, p, s)
        numbers[f"least B at G = {G}, p = {p}, s_max = {s}"] = least
        numbers[f"power of two that meets (19), G = {G}, p = {p}, s_max = {s}"] = printed
    return Findings(
        step,
        _noise(context, factor),
        _bad_steps(level),
        _least_batches(program),
        estimates=tuple(_smax_measured(context, admissions, bound)),
        numbers=numbers,
    )
