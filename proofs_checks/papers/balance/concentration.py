"""Lemmas 3 and 6: how much completions can spread the loads before admission.

Both proofs use one inequality for all u > 0 and then choose one u:

    P(A_pre − (1 − p)·D > u) ≤ 2G·exp(−min{(u/2)²/(16p(1−p)BΛ²), 3(u/2)/(8Λ)})       (Lemma 3)

It is checked here in exact fractions over all completion patterns. This is possible for small B
only, where the probability at the lemmas' own u is 0. At u_A itself the check uses workers with
hundreds of equal requests, where the number of completions is binomial.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import exp, log, prod, sqrt

import numpy as np

from proofs_checks.claim import C, Claims, Context, Defect, Mutation
from proofs_checks.evidence import Findings, Outcome, dismiss_if, verifier
from proofs_checks.search import examine
from proofs_checks.statistics import ExactLaw, gathered, of_sum, sum_law

CLAIMS = Claims()

#: Tolerance of floating-point comparisons.
MARGIN = 1 - 1e-9


@dataclass(frozen=True)
class Snapshot:
    """The state before a step: request sizes per worker, completion probability, increment."""

    sizes: tuple[tuple[int, ...], ...]
    chance: Fraction
    increment: int

    @property
    def slots(self) -> int:
        """``B``, slots per worker."""
        return len(self.sizes[0])

    @property
    def envelope(self) -> int:
        """``Λ``, the largest size."""
        return max(map(max, self.sizes))

    def spread_law(self) -> dict[Fraction, Fraction]:
        """Return the law of ``A_pre − (1 − p)·D``, exactly."""
        loads = [sum(row) for row in self.sizes]
        centre = (1 - self.chance) * (max(loads) - min(loads))
        outcomes = product(*(self._kept_law(row).items() for row in self.sizes))
        pairs = (zip(*outcome, strict=True) for outcome in outcomes)
        return gathered((max(kept) - min(kept) - centre, prod(q)) for kept, q in pairs)

    def _kept_law(self, row: Sequence[int]) -> ExactLaw:
        """Law of the load kept on a worker: each request grows, then ends with probability p."""
        law = {0: Fraction(1)}
        for size in row:
            law = of_sum(law, {0: self.chance, size + self.increment: 1 - self.chance})
        return law


#: Bound on ``P(A_pre − (1 − p)·D > u)``.
Bound = Callable[[Snapshot, float], float]


def _snapshots(context: Context, largest_increment: int) -> Iterator[Snapshot]:
    rng = context.rng
    for number in range(context.choose(12, 80, 1000)):
        G = 2 if number % 3 else 3
        B = int(rng.integers(2, 9 if G == 2 else 5))
        sizes = rng.integers(1, 3, (G, B)).tolist()
        increment = 1 if largest_increment == 1 else int(rng.integers(0, largest_increment + 1))
        yield Snapshot(tuple(map(tuple, sizes)), Fraction(int(rng.integers(1, 10)), 10), increment)


def bernstein3(snapshot: Snapshot, u: float) -> float:
    """Return Lemma 3's bound at u; the increment is 1 and is included in 2Λ."""
    q, half = float(snapshot.chance * (1 - snapshot.chance)), u / 2
    envelope = snapshot.envelope
    quadratic = half**2 / (16 * q * snapshot.slots * envelope**2)
    return 2 * len(snapshot.sizes) * exp(-min(quadratic, 3 * half / (8 * envelope)))


def bernstein6(snapshot: Snapshot, u: float) -> float:
    """Return Lemma 6's bound at u with Bernstein's constants: C_1 = 1/4."""
    q, half = float(snapshot.chance * (1 - snapshot.chance)), u / 2
    envelope = snapshot.envelope + snapshot.increment
    quadratic = half**2 / (q * snapshot.slots * envelope**2)
    return 2 * len(snapshot.sizes) * exp(-min(quadratic, half / envelope) / 4)


def _below(snapshot: Snapshot, bound: Bound, steeper: float) -> bool:
    """Return whether the tail probability is below the bound at every jump of the tail."""
    tail = Fraction(0)
    for value, chance in sorted(snapshot.spread_law().items(), reverse=True):
        # For u just below this value, the event A_pre − (1 − p)·D > u includes this value.
        tail += chance
        if value <= 0:
            return True
        if float(tail) > bound(snapshot, steeper * float(value)) * MARGIN:
            return False
    return True


def deviation_at(
    envelope: float, workers: int, slots: int, chance: float, factor: float = 8
) -> float:
    """Return ``u_A = 8Λ·max{√(p(1−p)Bα_B), α_B}`` with ``α_B = 3·log(GB)``."""
    alpha = 3 * log(workers * slots)
    return factor * envelope * max(sqrt(chance * (1 - chance) * slots * alpha), alpha)


@dataclass(frozen=True)
class Alike:
    """Workers whose requests all have the same size, so that ``D(k − 1) = 0``."""

    workers: int
    slots: int
    tenths: int
    size: int

    def tail(self, increment: int, envelope: Fraction, *, independent: bool = True) -> float:
        """Bound ``P(A_pre > u_A)`` from above by the sum over all pairs of workers.

        Parameters
        ----------
        increment : int
            Growth of each request [tokens].
        envelope : Fraction
            Value of Λ, or of Λ + δ_max, in u_A [tokens].
        independent : bool
            Whether requests end independently; else all requests of a worker end together.
        """
        p = self.tenths / 10
        u = deviation_at(float(envelope), self.workers, self.slots, p)
        count, weight = (self.slots, 1) if independent else (1, self.slots)
        ends = sum_law(np.array([1 - p, p]), count)
        apart = np.convolve(ends, ends[::-1])
        spread = np.abs(np.arange(-count, count + 1)) * weight * (self.size + increment)
        return self.workers * (self.workers - 1) / 2 * float(apart[spread > u].sum())

    def bound(self) -> float:
        """Return the lemma's bound ``2G·e^{−α_B}`` on the probability."""
        return 2.0 * self.workers / (self.workers * self.slots) ** 3


def _check(
    context: Context,
    *,
    bound: Bound,
    largest_increment: int,
    steeper: float = 1,
    share: Fraction = Fraction(1),
    independent: bool = True,
) -> Outcome:
    seen = examine(
        "the tail lies below the bound for every u",
        "random snapshots of 2 or 3 workers with up to 8 slots; all completion patterns",
        list(_snapshots(context, largest_increment)),
        lambda s: _below(s, bound, steeper),
    )
    choice = examine(
        "u_A makes the bound at most 2G·e^{−α_B} ≤ 2G^{−2}B^{−3}",
        "Λ = 1, 5, 100, G = 2, 16, B = 8, 128, 1024, p = 1/10 to 9/10",
        product((1, 5, 100), (2, 16), (8, 128, 1024), range(1, 10)),
        partial(_choice_holds, bound, largest_increment),
    )
    drift = 0 if bound is bernstein3 else largest_increment
    slots = context.choose((256,), (256, 1024), (256, 1024, 4096))
    itself = examine(
        "the tail at u_A lies below 2G·e^{−α_B}",
        f"G = 2 and 16, B in {slots}, p = 1/10, 1/2, 9/10, all requests of size 1, or 10; by "
        "binomial laws and the sum over pairs of workers",
        [Alike(*case) for case in product((2, 16), slots, (1, 5, 9), (1, 10))],
        lambda case: (
            case.tail(largest_increment, share * (case.size + drift), independent=independent)
            <= case.bound()
        ),
    )
    return Findings(
        seen,
        choice,
        itself,
        summary="The inequality behind the lemma holds with room to spare at every u, and so does "
        "the lemma at u_A.",
    )


def _choice_holds(
    bound: Bound, increment: int, envelope: int, workers: int, slots: int, tenths: int
) -> bool:
    snapshot = Snapshot(((envelope,) * slots,) * workers, Fraction(tenths, 10), increment)
    # Lemma 3 includes the increment in 2Λ, Lemma 6 adds it to Λ.
    reach = envelope if bound is bernstein3 else envelope + increment
    u = deviation_at(reach, workers, slots, tenths / 10)
    wanted, largest = 2 * workers * exp(-3 * log(workers * slots)), 2 * workers**-2.0 * slots**-3.0
    slack = 1 + 1e-9
    return bound(snapshot, u) <= wanted * slack and wanted <= largest * slack


def _claim(
    claim_id: str, too_steep: Mutation, bound: Bound, largest_increment: int, *drift: str
) -> Callable[[C], C]:
    return CLAIMS.result(
        claim_id,
        too_steep,
        Mutation("all requests of a worker end at once", independent=False),
        Mutation("Λ a tenth of every size", share=Fraction(1, 10)),
        check=partial(_check, bound=bound, largest_increment=largest_increment),
        hypotheses=(
            "each request ends with probability p, independently",
            "Λ ≥ every size",
            *drift,
        ),
    )


@_claim(
    "balance.lemma3", Mutation("a bound for six times the deviation", steeper=6), bernstein3, 1
)
def _lemma3() -> None:
    """Concentration of the spread before admission.

    Source: BF-IO paper, Lemma 3 (appendix C.2)
    Statement: The spread of the loads before admission exceeds (1 − p) times the last gap by more
        than u_A with probability at most 2G·e^{−α_B}.
    Formula: P(A_pre(k) − (1−p)·D(k−1) > u_A) ≤ 2G·e^{−α_B} ≤ 2G^{−2}B^{−3},  α_B = 3 log(GB),  u_A
        = 8Λ·max{√(p(1−p)Bα_B), α_B}
    Reading: through the proof's inequality for all u, as at u_A itself the event is empty for
        small B; and at u_A for large B, where all requests are alike.
    """


@_claim(
    "balance.lemma6",
    Mutation("a bound for twenty times the deviation", steeper=20),
    bernstein6,
    3,
    "a common increment 0 ≤ δ_k ≤ δ_max",
)
def _lemma6() -> None:
    """Concentration of the spread under drift.

    Source: BF-IO paper, Lemma 6 (appendix C.3)
    Statement: Lemma 3 holds with Λ + δ_max in place of Λ and some universal constant C_0 in u_A.
    Formula: P(A_pre(k) − (1−p)·D(k−1) > u_A) ≤ 2G·e^{−α_B},  u_A = C_0·(Λ +
        δ_max)·max{√(p(1−p)Bα_B), α_B}
    Reading: with the constants that Bernstein's inequality gives, C_1 = 1/4; C_0 = 8 then does.
    """


# The exponent that the proof of Lemma 3 states at u_A.


def exponents(
    envelope: int, workers: int, slots: int, tenths: int, factor: float = 8
) -> tuple[float, float, float]:
    """Both terms of Lemma 3's exponent at u = factor·Λ·max{√(p(1−p)Bα), α}, and α itself."""
    p, alpha = tenths / 10, 3 * log(workers * slots)
    half = deviation_at(envelope, workers, slots, p, factor) / 2
    return half**2 / (16 * p * (1 - p) * slots * envelope**2), 3 * half / (8 * envelope), alpha


@verifier
def verify_exponent(workers: int, slots: int, tenths: int) -> str:
    """Confirm that the exponent at u_A is below 2α_B."""
    dismiss_if(workers < 2 or slots < 1 or not 1 <= tenths <= 9)
    quadratic, linear, alpha = exponents(1, workers, slots, tenths)
    # For smaller batches u_A is linear in α_B; the paper uses the lemma where the root is larger.
    dismiss_if(tenths * (10 - tenths) * slots < 100 * alpha)
    least = min(quadratic, linear)
    dismiss_if(least >= 2 * alpha * MARGIN)
    return (
        f"G = {workers}, B = {slots}, p = {tenths}/10: the exponent is {least / alpha:.4f}·α_B, "
        "not 2·α_B"
    )


@CLAIMS.step(
    "balance.lemma3-exponent",
    Mutation("12 in place of 8 in u_A", factor=12),
    Mutation("more than α_B in the correction", wanted=1.2),
    defect=Defect.MISPRINT,
    verify=verify_exponent,
)
def _exponent_check(context: Context, *, factor: float = 8, wanted: float = 1) -> Outcome:
    """The exponent at u_A.

    Source: BF-IO paper, proof of Lemma 3 (appendix C.2)
    Statement: With u = u_A both terms are at least α_B, so that the minimum in the exponent is at
        least 2α_B.
    Formula: min{(u_A/2)²/(16p(1−p)BΛ²), 3(u_A/2)/(8Λ)} ≥ 2α_B
    Assumes: u_A = 8Λ·max{√(p(1−p)Bα_B), α_B}
    Summary: With 8 in u_A the first term is exactly α_B where the square root is the larger.
    Reading: where p(1 − p)B ≥ α_B, so that the square root in u_A is the larger term.
    Correction: It is at least α_B: so the two displays before it say, and the bound 2G·e^{−α_B}
        after it uses no more. (2α_B would need 8√2 in u_A.)
    """
    slots = context.choose((1, 8, 256), (1, 8, 64, 256, 4096), (1, 8, 64, 256, 4096, 10**6))
    cases = list(product((2, 16), slots, (1, 5, 9)))
    domain = context.domain(f"G = 2 and 16, B in {slots}, p = 1/10, 1/2, 9/10", cases)

    def reached(case: tuple[int, int, int], least: float) -> bool:
        quadratic, linear, alpha = exponents(1, *case, factor)
        return min(quadratic, linear) >= least * alpha * MARGIN

    printed = domain.refute(
        "the exponent is at least 2α_B",
        holds=lambda c: reached(c, 2),
        applies=lambda G, B, tenths: tenths * (10 - tenths) * B >= 100 * 3 * log(G * B),
    )
    corrected = domain.examine("it is at least α_B", lambda c: reached(c, wanted))
    return printed, corrected
