"""The conditions (9), (10) and (13) on thresholds, for chains of segments, and their solution.

With n_gi the threshold of segment i of chain g and ``ΔT(n) = d0 + d1·Σ s_gi n_gi`` the time of a
batch that is full everywhere, the conditions are

    n_g1 >= arrivals of chain g during ΔT(n)      and      n_{g,i+1} >= P_{g,i+1} n_gi,

all of them with ``>`` if they are strict. Each bounds one entry from below by a function that
increases in all entries. If n and m are solutions, so is their componentwise minimum z: where
``z_a = n_a``, the entry satisfies the bound at n, which is at least the bound at z <= n. Hence
there is a least solution for any number of chains. It has the least memory and the shortest full
batch.

Multiply the conditions by the weights and sum: ``ΔT >= d0 + d1·A·ΔT`` with ``A = Σ Λ_gi s_gi``. So
there is no solution with a load ``d1·A`` of 1 or more, and no full batch takes less than ``d0/(1 −
d1·A)``. With a load below 1 there is a solution, see `ThresholdConditions.upper_vector`.

`least_thresholds` finds the least solution by monotone iteration. The iteration for (9) is the
recurrence of response-time analysis, ``ΔT = d0 + d1·Σ w_j ⌈λ_j ΔT⌉`` (a job of length d0 preempted
by periodic ones). Its least fixed point is NP-hard to compute (Eisenbrand and Rothvoß 2008), so no
starting point is known from which few rounds always suffice. From
`ThresholdConditions.lower_vector`, the usual starting point, a load of 1 − ε may take ``1/ε`` or
more rounds. If the rates have a short common period, `_leap` skips all but the last rounds.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import ceil, floor, gcd, lcm
from typing import Protocol

from formulations.errors import CapabilityError
from formulations.fluid import FluidWorker
from formulations.problem_data import Validated


@dataclass(frozen=True)
class SegmentChain:
    """A chain of segments 1..L of stages, with memory per request and arrival rates.

    Segment i ends with stage ``b_i``: the first has stages ``0..b_1``, the others
    ``b_{i−1}+1..b_i``. A class of WAIT, with known output length, is a chain of one segment.

    Parameters
    ----------
    prompt : int
        ``l`` [tokens].
    ends : tuple of int
        ``b_1 < ... < b_L``.
    rate : Fraction
        ``Λ_1``, the long-run arrival rate [1/s].
    passing : tuple of Fraction
        ``P_2 .. P_L``: share of the requests of a segment that continue to the next; the largest
        share if it varies in time.
    num_classes : int
        Number of output lengths in the chain.
    """

    prompt: int
    ends: tuple[int, ...]
    rate: Fraction
    passing: tuple[Fraction, ...]
    num_classes: int

    @property
    def entries(self) -> tuple[int, ...]:
        """``e_i``: the first stage of each segment."""
        return first_stages(self.ends)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """``s_i = Σ (l + k)`` over the stages k of each segment [tokens]."""
        return tuple(
            (end - entry + 1) * (2 * self.prompt + entry + end) // 2
            for entry, end in zip(self.entries, self.ends, strict=True)
        )

    @property
    def stages(self) -> tuple[int, ...]:
        """Number of stages of each segment."""
        pairs = zip(self.entries, self.ends, strict=True)
        return tuple(end - entry + 1 for entry, end in pairs)

    @property
    def held(self) -> tuple[int, ...]:
        """``l + b_{k−1}`` for k = 2..L: tokens held by a request waiting before segment k."""
        return tuple(self.prompt + end for end in self.ends[:-1])

    @property
    def arriving(self) -> tuple[Fraction, ...]:
        """``Λ_i``: rate of the requests that reach each segment [1/s]."""
        return tuple(accumulate(self.passing, lambda rate, p: rate * p, initial=self.rate))

    def thresholds_from(self, first: int, *, strict: bool) -> tuple[int, ...]:
        """Return the least n_1..n_L, given n_1: ``n_{i+1} >= P_{i+1} n_i``, or ``>`` if strict."""
        vector = [first]
        for share in self.passing:
            passed = share.numerator * vector[-1]
            vector.append(least_quotient(passed, share.denominator, strict=strict))
        return tuple(vector)

    def rounding(self, first: Fraction) -> tuple[Fraction, ...]:
        """Return the excess of `thresholds_from` over the ray ``Λ_i τ``, given that of n_1.

        ``n_{i+1} <= P n_i + 1``, hence ``c_{i+1} = 1 + P_{i+1} c_i``.
        """
        return tuple(accumulate(self.passing, lambda c, share: 1 + share * c, initial=first))


def first_stages(ends: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``e_1 = 0``, ``e_i = b_{i−1} + 1``: the first stages of segments with these ends."""
    return (0, *(end + 1 for end in ends[:-1]))


def least_integer(bound: Fraction, *, strict: bool) -> int:
    """Return the least positive integer that is at least (if strict: above) a number."""
    return least_quotient(bound.numerator, bound.denominator, strict=strict)


def least_quotient(numerator: int, denominator: int, *, strict: bool) -> int:
    """Return the least positive integer that is at least (if strict: above) a quotient."""
    return max(1, numerator // denominator + 1 if strict else -(-numerator // denominator))


class Arrivals(Protocol):
    """Interface for the arrivals of a chain during a batch of M tokens."""

    @property
    def excess(self) -> Fraction:
        """Largest excess of the arrivals during a batch over the long-run rate × batch time."""

    def least(self, memory: int, *, strict: bool) -> int:
        """Return the least positive integer >= (strict: >) the arrivals in a batch of M tokens."""


@dataclass(frozen=True)
class BatchArrivals:
    """Arrivals at a constant rate during a batch of M tokens: ``(constant + slope·M)/scale``.

    The data are integers, because the iteration evaluates arrivals often and fractions are slow.

    Parameters
    ----------
    constant, slope, scale : int
        ``Λ·d0`` and ``Λ·d1`` over their common denominator.
    """

    constant: int
    slope: int
    scale: int
    excess = Fraction(0)

    @staticmethod
    def of(rate: Fraction, worker: FluidWorker) -> "BatchArrivals":
        """Return the arrivals at this rate during a batch of this worker."""
        fixed, each = rate * worker.d0, rate * worker.d1
        scale = lcm(fixed.denominator, each.denominator)
        return BatchArrivals(int(fixed * scale), int(each * scale), scale)

    def least(self, memory: int, *, strict: bool) -> int:
        """Return the least positive integer >= (strict: >) the arrivals in a batch of M tokens."""
        return least_quotient(self.constant + self.slope * memory, self.scale, strict=strict)


@dataclass(frozen=True)
class ThresholdConditions:
    """The conditions on the thresholds of all chains; see the module docstring.

    Vectors concatenate the thresholds of the chains.

    Parameters
    ----------
    chains : tuple of SegmentChain
        At least one.
    worker : FluidWorker
        Times and memory.
    strict : bool
        Whether the conditions hold with ``>``.
    within_memory : bool
        Whether ``Σ s_gi n_gi <= C`` is required too.
    arrivals : tuple of Arrivals
        One per chain.
    """

    chains: tuple[SegmentChain, ...]
    worker: FluidWorker
    strict: bool
    within_memory: bool
    arrivals: tuple[Arrivals, ...]

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """``s_gi``: memory per unit of each threshold [tokens]."""
        return tuple(s for chain in self.chains for s in chain.weights)

    @cached_property
    def arriving(self) -> tuple[Fraction, ...]:
        """``Λ_gi``: rate of the requests that reach each segment [1/s]."""
        return tuple(rate for chain in self.chains for rate in chain.arriving)

    @cached_property
    def load(self) -> Fraction:
        """``d1·Σ Λ_gi s_gi``; there is a solution iff it is below 1."""
        pairs = zip(self.arriving, self.weights, strict=True)
        return self.worker.d1 * sum((rate * s for rate, s in pairs), Fraction(0))

    def split(self, vector: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return the thresholds of each chain from a vector of all thresholds."""
        parts, start = [], 0
        for chain in self.chains:
            end = start + len(chain.ends)
            parts.append(tuple(vector[start:end]))
            start = end
        return tuple(parts)

    def vector_from(self, first: Sequence[int]) -> tuple[int, ...]:
        """Return the least vector of thresholds with the given n_1 of each chain."""
        pairs = zip(self.chains, first, strict=True)
        return tuple(n for c, n_1 in pairs for n in c.thresholds_from(n_1, strict=self.strict))

    def next_vector(self, vector: Sequence[int]) -> tuple[int, ...]:
        """Return the least vector that satisfies the conditions for batch time ``ΔT(vector)``."""
        memory = policy_memory(self.weights, vector)
        return self.vector_from([a.least(memory, strict=self.strict) for a in self.arrivals])

    def lower_vector(self) -> tuple[int, ...]:
        """Return a vector below every solution, from the shortest batch time ``d0/(1 − load)``.

        For one chain of one segment, this vector is the least solution.
        """
        time = self.worker.d0 / (1 - self.load)
        first = (least_integer(chain.rate * time, strict=self.strict) for chain in self.chains)
        return self.vector_from(list(first))

    def upper_vector(self) -> tuple[int, ...]:
        """Return a solution: the ray ``Λ·τ``, rounded up, for a sufficiently large τ.

        If entries exceed the ray by at most c_gi, ``ΔT <= d0 + d1·Σ c_gi s_gi + load·τ``, which
        equals τ for ``τ = (d0 + d1·Σ c_gi s_gi)/(1 − load)``.
        """
        # With one chain, rounding n_1 up only means a longer τ, so its excess is 0.
        first = int(len(self.chains) > 1)
        parts = zip(self.chains, self.arrivals, strict=True)
        rounding = [c for chain, a in parts for c in chain.rounding(a.excess + first)]
        paid = sum((c * s for c, s in zip(rounding, self.weights, strict=True)), Fraction(0))
        time = (self.worker.d0 + self.worker.d1 * paid) / (1 - self.load)
        return self.vector_from(
            [
                least_integer(chain.rate * time + arrivals.excess, strict=self.strict)
                for chain, arrivals in zip(self.chains, self.arrivals, strict=True)
            ]
        )

    def memory_bound(self) -> int:
        """Return a lower bound on the memory [tokens]: the fluid equilibrium's, rounded up."""
        pairs = zip(self.arriving, self.weights, strict=True)
        work = sum((rate * s for rate, s in pairs), Fraction(0))
        return ceil(self.worker.d0 * work / (1 - self.load))


class ThresholdProblem(Validated, ABC):
    """The interface common to all threshold problems."""

    @property
    @abstractmethod
    def conditions(self) -> ThresholdConditions:
        """The conditions on the thresholds."""

    @property
    def weights(self) -> tuple[int, ...]:
        """Memory per unit of each threshold [tokens]."""
        return self.conditions.weights

    @property
    def arriving(self) -> tuple[Fraction, ...]:
        """Rate of the requests that reach each segment, or of each class [1/s]."""
        return self.conditions.arriving

    @property
    def load(self) -> Fraction:
        """The load ``ρ``; feasible thresholds exist iff ``ρ < 1``."""
        return self.conditions.load


def constant_rate_conditions(
    chains: Sequence[SegmentChain], worker: FluidWorker, *, strict: bool, within_memory: bool
) -> ThresholdConditions:
    """Return the conditions of chains with Poisson arrivals at constant rates, (9) and (10)."""
    arrivals = tuple(BatchArrivals.of(chain.rate, worker) for chain in chains)
    return ThresholdConditions(tuple(chains), worker, strict, within_memory, arrivals)


def batch_time(worker: FluidWorker, weights: Sequence[int], thresholds: Sequence[int]) -> Fraction:
    """Return ``ΔT(n) = d0 + d1·Σ n_i w_i``, the time of a full batch [s]."""
    return worker.d0 + worker.d1 * policy_memory(weights, thresholds)


def policy_memory(weights: Sequence[int], thresholds: Sequence[int]) -> int:
    """Return ``M(n) = Σ n_i w_i``, the memory of a full batch [tokens]."""
    return sum(n * w for n, w in zip(thresholds, weights, strict=True))


#: Rounds before a leap is tried, and in total.
_PATIENCE, _MAX_ROUNDS = 2_000, 300_000
#: Largest number of thresholds that a leap computes.
_MAX_LEAP = 500_000


def least_thresholds(problem: ThresholdProblem) -> tuple[tuple[int, ...] | None, int]:
    """Return the least solution of the conditions, by iterating ``n <- next_vector(n)``.

    The bounds in the conditions increase in n, so every iterate stays below every solution, and
    the first fixed point is the least solution. It exists iff the load is below 1.

    Returns
    -------
    tuple
        The least solution and the number of rounds; (None, 0) if the load is 1 or more. The memory
        limit is not checked, but the least solution needs the least memory.

    Raises
    ------
    CapabilityError
        If the load is so close to 1 that the iteration does not converge within its limit.
    """
    conditions = problem.conditions
    if conditions.load >= 1:
        return None, 0
    vector = conditions.lower_vector()
    for rounds in range(1, _MAX_ROUNDS):
        after = tuple(map(max, vector, conditions.next_vector(vector)))
        if after == vector:
            return vector, rounds
        vector = _leap(conditions, after) if rounds == _PATIENCE else after
    remedy = "lower the rates a little (in Python, try the integer program: solve with cp-sat)"
    raise CapabilityError("load", "too close to 1 for the iteration", remedy)


def _leap(conditions: ThresholdConditions, vector: tuple[int, ...]) -> tuple[int, ...]:
    """Return a larger vector that is still below every solution; the same vector if none is known.

    Let ``n(D)`` be the least vector if batches last D, and ``f(D) = ΔT(n(D)) − D``; a solution is
    ``n(D)`` with ``f(D) = 0``. If all ``Λ_gi·Π`` are whole, ``n(D + Π) = n(D) + Λ·Π`` and ``f(D +
    Π) = f(D) − (1 − load)·Π``. Between its breaks, where n changes, f decreases. Let m be the
    smallest infimum of f before a break in one period. As long as ``k·(1 − load)·Π < m``, f is
    positive in the k-th period after it, except that it may reach 0 after the last break, where n
    equals its value at the end of the period. The iteration can therefore continue from the end of
    the last period of this kind.
    """
    chains, arriving = conditions.chains, conditions.arriving
    if not all(isinstance(a, BatchArrivals) for a in conditions.arrivals):
        return vector
    scale = lcm(*(rate.denominator for rate in arriving))
    period = scale / Fraction(gcd(*(int(rate * scale) for rate in arriving)))
    if sum(chain.rate * period for chain in chains) * len(vector) > _MAX_LEAP:
        return vector
    start = batch_time(conditions.worker, conditions.weights, vector)
    breaks = {
        k / chain.rate
        for chain in chains
        for k in range(floor(chain.rate * start) + 1, floor(chain.rate * (start + period)) + 1)
    }

    def excess(time: Fraction) -> Fraction:
        # Up to and including a break, n_1 is the number of arrivals rounded up.
        before = conditions.vector_from([ceil(chain.rate * time) for chain in chains])
        return batch_time(conditions.worker, conditions.weights, before) - time

    least = min(excess(time) for time in breaks)
    skipped = max(0, ceil(least / ((1 - conditions.load) * period)))
    time = start + skipped * period
    return conditions.vector_from(
        [least_integer(chain.rate * time, strict=conditions.strict) for chain in chains]
    )
