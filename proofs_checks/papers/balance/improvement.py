"""What Theorems 2 and 3 share: the exact side of FCFS, the measured side of BF-IO."""

from collections.abc import Iterable, Sequence
from itertools import product
from math import log, sqrt

from formulations.arrays import FloatArray
from proofs_checks.ample_pool import Cell, blind_sizes, level_sizes, two_sizes
from proofs_checks.claim import Context
from proofs_checks.evidence import Estimate, Examination
from proofs_checks.laws import deviation, expected_imbalance
from proofs_checks.papers.balance.average_gap import Pool, pool_estimates
from proofs_checks.search import examine
from proofs_checks.statistics import Bounded, slope_estimate

#: Hypotheses of Theorems 2 and 3.
OVERLOADED = ("overloaded pool (Definition 1)", "outputs geometric with p", "H = 0")

#: Easy and hard pools, and first come, first served on one of them.
POOLS: tuple[Pool, ...] = (
    (Cell(8, 128, 0.2, 6), level_sizes),
    (Cell(8, 512, 0.2, 11), two_sizes),
    (Cell(8, 64, 0.9, 11), two_sizes),
)
FCFS: tuple[Pool, ...] = ((Cell(8, 128, 0.2, 6), blind_sizes),)


def improvement_estimates(
    context: Context, pools: Sequence[Pool], share: float
) -> tuple[Bounded, ...]:
    """Estimate BF-IO's imbalance; the ratio's bound follows if it is within (G − 1)s_max/p."""
    effort = context.choose((8, 30), (30, 200), (60, 1000))
    return pool_estimates(context, pools, share, effort, per_gap=False)


#: Where ``E[Imb]/(G·σ·√(B log G))`` lies for B ≥ 16, σ the deviation of a slot: √2 for G → ∞.
_CONSTANT = (0.5, 1.6)


def constant(
    what: str, made: str, slots: Iterable[tuple[FloatArray, int, int]], spread: float
) -> Examination[tuple[FloatArray, int, int]]:
    """Bound the constant of the normal limit on both sides; ``spread`` is put in for σ."""
    low, high = _CONSTANT

    def holds(cell: tuple[FloatArray, int, int]) -> bool:
        slot, B, G = cell
        scale = spread * G * deviation(slot) * sqrt(B * log(G))
        return low * scale <= expected_imbalance(slot, B, G) <= high * scale

    return examine(f"E[Imb]/(G·σ·√(B log G)) in {low}..{high}, σ of {what}", made, slots, holds)


def growth(context: Context, name: str, slot: FloatArray, least: int = 16) -> Estimate:
    """Regress the exact imbalance of FCFS per worker on B log G, B from the least on."""
    slots = [least * 4**k for k in range(context.choose(3, 4, 5))]
    workers = context.choose((64, 1024), (64, 256, 1024, 4096), (64, 256, 1024, 4096, 2**16))
    cells = list(product(slots, workers))
    return slope_estimate(
        f"slope of log E[Imb(FCFS)]/G on log(B log G), {name}",
        [log(B * log(G)) for B, G in cells],
        [log(expected_imbalance(slot, B, G) / G) for B, G in cells],
        "the 95 % interval lies in 0.45 to 0.60 (theory 1/2; log G is still small)",
        lambda low, high: low >= 0.45 and high <= 0.60,
    )
