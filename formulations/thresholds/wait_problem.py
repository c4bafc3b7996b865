"""Data of the WAIT threshold program: one worker, known output lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm

from formulations.fluid import FluidProblem, FluidWorker, work_rate


@dataclass(frozen=True)
class WaitProblem:
    """Thresholds ``n_j >= 1``: WAIT starts class j once n_j of it wait for their prefill.

    Then every stage of class j holds 0 or n_j requests, a batch of everything takes ``ΔT(n) = d0 +
    d1·M(n)`` with ``M(n) = Σ_j n_j w_j``, and condition (9) asks ``ΔT(n) <= n_j/λ_j`` for all j.

    Parameters
    ----------
    fluid : FluidProblem
        Classes and one worker.
    strict : bool
        Whether (9) must hold with ``<``, as the bounded latency of theorem 1 needs.
    within_memory : bool
        Whether ``M(n) <= C`` is required. WAIT never holds more than M(n).

    Raises
    ------
    InputError
        If there are several workers.
    """

    fluid: FluidProblem
    strict: bool = False
    within_memory: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        self.fluid.single_worker()

    @property
    def worker(self) -> FluidWorker:
        """The worker."""
        return self.fluid.workers[0]

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """``w_j``: memory that one more of threshold j takes [tokens]."""
        return tuple(kind.work for kind in self.fluid.classes)

    @property
    def arriving(self) -> tuple[Fraction, ...]:
        """``λ_j`` [1/s]."""
        return tuple(kind.rate for kind in self.fluid.classes)

    @property
    def load(self) -> Fraction:
        """``ρ = d1·Σ λ_j w_j``; (9) has a solution iff it is below 1.

        If n satisfies (9), ``M(n) >= A·(d0 + d1·M(n))``, so ``(1 − ρ) M(n) >= A·d0 > 0``.
        """
        return self.worker.d1 * work_rate(self.fluid.classes)

    @cached_property
    def _arrivals(self) -> tuple["BatchArrivals", ...]:
        return tuple(BatchArrivals.of(rate, self.worker) for rate in self.arriving)

    def next_vector(self, thresholds: Sequence[int]) -> tuple[int, ...]:
        """Return the least n that (9) allows if iterations take ``ΔT(thresholds)``."""
        memory = policy_memory(self.weights, thresholds)
        return tuple(arrivals.least(memory, strict=self.strict) for arrivals in self._arrivals)

    def lower_vector(self) -> tuple[int, ...]:
        """Return a vector below every solution: no iteration is shorter than ``ΔT*``."""
        time = self.worker.d0 / (1 - self.load)
        return tuple(least_integer(rate * time, strict=self.strict) for rate in self.arriving)

    def upper_vector(self) -> tuple[int, ...]:
        """Return a solution of (9): the ray ``c·λ``, rounded up, for a c that pays the rounding.

        ``ΔT(n) <= d0 + d1·(c·A + Σ w_j) = c <= n_j/λ_j`` with ``c = (d0 + d1·Σ w_j)/(1 − ρ)``.
        """
        c = (self.worker.d0 + self.worker.d1 * sum(self.weights)) / (1 - self.load)
        return tuple(least_integer(rate * c, strict=self.strict) for rate in self.arriving)


@dataclass(frozen=True)
class BatchArrivals:
    """Arrivals during a batch of M tokens, ``(constant + slope·M)/scale``, in integers.

    The iteration asks for them very often, and fractions are slow.

    Parameters
    ----------
    constant, slope, scale : int
        ``λ·d0`` and ``λ·d1`` over their common denominator.
    """

    constant: int
    slope: int
    scale: int

    @staticmethod
    def of(rate: Fraction, worker: FluidWorker) -> "BatchArrivals":
        """Return the arrivals at a rate during the batches of a worker."""
        fixed, each = rate * worker.d0, rate * worker.d1
        scale = lcm(fixed.denominator, each.denominator)
        return BatchArrivals(int(fixed * scale), int(each * scale), scale)

    def least(self, memory: int, *, strict: bool) -> int:
        """Return the least positive integer at least as large, or larger."""
        return least_quotient(self.constant + self.slope * memory, self.scale, strict=strict)


def batch_time(worker: FluidWorker, weights: Sequence[int], thresholds: Sequence[int]) -> Fraction:
    """Return ``ΔT(n) = d0 + d1·Σ n_i w_i``, the longest batch [s]."""
    return worker.d0 + worker.d1 * policy_memory(weights, thresholds)


def policy_memory(weights: Sequence[int], thresholds: Sequence[int]) -> int:
    """Return ``M(n) = Σ n_i w_i`` [tokens]."""
    return sum(n * w for n, w in zip(thresholds, weights, strict=True))


def least_integer(bound: Fraction, *, strict: bool) -> int:
    """Return the least positive integer that is at least, or more than, a number."""
    return least_quotient(bound.numerator, bound.denominator, strict=strict)


def least_quotient(numerator: int, denominator: int, *, strict: bool) -> int:
    """Return the least positive integer that is at least, or more than, a quotient."""
    return max(1, numerator // denominator + 1 if strict else -(-numerator // denominator))
