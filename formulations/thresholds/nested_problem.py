"""Data of the Nested WAIT threshold program: one worker, output lengths unknown beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import floor
from typing import Any

from formulations.arrays import integer
from formulations.errors import InputError
from formulations.fluid import FluidProblem, FluidWorker, RequestClass
from formulations.fluid.rates import exact_number
from formulations.thresholds.wait_problem import (
    BatchArrivals,
    least_integer,
    least_quotient,
    policy_memory,
)

_MAX_LENGTH = 10**9


@dataclass(frozen=True)
class NestedProblem:
    """Thresholds ``n_i >= 1`` of L segments of stages.

    Classes have one prompt length l, output lengths ``l'_1 < ... < l'_m`` and rates λ_j. Segment i
    ends with stage ``b_i``: the first is stages ``0..b_1``, the others ``b_{i−1}+1..b_i``. With
    ``Λ_i`` the rate of classes longer than ``b_{i−1}`` and ``s_i = Σ (l + k)`` over the stages k
    of segment i, a full batch takes ``ΔT(n) = d0 + d1·Σ n_i s_i``, and condition (10) asks

        ΔT(n) < n_1/Λ_1      and      n_{i+1}/n_i > P_{i+1} = Λ_{i+1}/Λ_i.

    Parameters
    ----------
    prompt : int
        ``l >= 1`` [tokens].
    outputs : tuple of int
        ``l'_j >= 0``, increasing [tokens].
    rates : tuple of Fraction
        ``λ_j > 0`` [1/s].
    worker : FluidWorker
        Times and memory.
    boundaries : tuple of int, optional
        ``b_1 < ... < b_L = l'_m``; by default every output length (section 5). Fewer are the
        segments of section 7.2: requests that end within one leave it at once, so that ``Σ n_i
        s_i`` is an upper bound.
    strict : bool
        Whether (10) holds with ``<`` and ``>`` as bounded latency and buffers need; otherwise
        with equality allowed, as (14) prints the first and the paper's experiments use the other.
    within_memory : bool
        Whether ``Σ n_i s_i <= C`` is required (the safety buffer comes on top, see `buffer`).

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    prompt: int
    outputs: tuple[int, ...]
    rates: tuple[Fraction, ...]
    worker: FluidWorker
    boundaries: tuple[int, ...] | None = None
    strict: bool = True
    within_memory: bool = False

    def __post_init__(self) -> None:
        """Validate."""
        self._set("prompt", integer(self.prompt, "prompt", minimum=1, maximum=_MAX_LENGTH))
        self._set("outputs", _increasing(self.outputs, "outputs"))
        rates = [exact_number(r, f"rates[{j}]", positive=True) for j, r in enumerate(self.rates)]
        if len(rates) != len(self.outputs):
            raise InputError(
                "rates", f"{len(rates)} for {len(self.outputs)} outputs", "give one for each"
            )
        self._set("rates", tuple(rates))
        if self.boundaries is None:
            self._set("boundaries", self.outputs)
        self._set("boundaries", _increasing(self.boundaries, "boundaries"))
        if self.ends[-1] != self.outputs[-1]:
            raise InputError(
                f"boundaries[{len(self.ends) - 1}]",
                f"{self.ends[-1]} is not the longest output",
                f"end with {self.outputs[-1]}",
            )

    @staticmethod
    def from_fluid(
        fluid: FluidProblem, boundaries: Sequence[int] | None = None, **options: Any
    ) -> "NestedProblem":
        """Return the problem of a fluid problem with one worker.

        Raises
        ------
        InputError
            If prompts differ or outputs do not increase, naming the class.
        """
        prompts = [kind.prompt for kind in fluid.classes]
        for j, prompt in enumerate(prompts):
            if prompt != prompts[0]:
                raise InputError(
                    f"classes[{j}].prompt",
                    f"{prompt} differs from {prompts[0]}, but Nested WAIT needs one length",
                    "make a problem per prompt length",
                )
        return NestedProblem(
            prompt=prompts[0],
            outputs=tuple(kind.output for kind in fluid.classes),
            rates=tuple(kind.rate for kind in fluid.classes),
            worker=fluid.single_worker(),
            boundaries=None if boundaries is None else tuple(boundaries),
            **options,
        )

    @property
    def ends(self) -> tuple[int, ...]:
        """``b_1 .. b_L``: the last stage of each segment."""
        assert self.boundaries is not None
        return self.boundaries

    @property
    def entries(self) -> tuple[int, ...]:
        """``e_1 = 0``, ``e_i = b_{i−1} + 1``: the first stage of each segment."""
        return (0, *(b + 1 for b in self.ends[:-1]))

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """``s_i = Σ (l + k)`` over the stages of each segment [tokens]."""
        return tuple(
            (end - entry + 1) * (2 * self.prompt + entry + end) // 2
            for entry, end in zip(self.entries, self.ends, strict=True)
        )

    @cached_property
    def arriving(self) -> tuple[Fraction, ...]:
        """``Λ_i``: rate of the requests that reach each segment [1/s]."""
        classes = list(zip(self.outputs, self.rates, strict=True))
        reaching, total = [], Fraction(0)
        for entry in reversed(self.entries):
            while classes and classes[-1][0] >= entry:
                total += classes.pop()[1]
            reaching.append(total)
        return tuple(reversed(reaching))

    @cached_property
    def passing(self) -> tuple[Fraction, ...]:
        """``P_2 .. P_L``: share of the requests of a segment that go on to the next."""
        rates = self.arriving
        return tuple(b / a for a, b in pairwise(rates))

    @cached_property
    def load(self) -> Fraction:
        """``d1·Σ Λ_i s_i``; (10) has a solution iff it is below 1.

        With boundaries at all outputs it is the load ρ of the fluid model, otherwise more: each
        request is taken to stay until the end of its segment. (10) gives ``n_i >= n_1 Λ_i/Λ_1``,
        so ``n_1/Λ_1 > d0 + d1·Σ n_i s_i >= d0 + load·n_1/Λ_1``.
        """
        pairs = zip(self.arriving, self.weights, strict=True)
        return self.worker.d1 * sum((rate * s for rate, s in pairs), Fraction(0))

    def with_boundaries(self, boundaries: Sequence[int]) -> "NestedProblem":
        """Return the problem with other segments."""
        return replace(self, boundaries=tuple(boundaries))

    def fluid(self) -> FluidProblem:
        """Return the fluid problem of the same classes."""
        pairs = zip(self.rates, self.outputs, strict=True)
        classes = tuple(RequestClass(rate, self.prompt, output) for rate, output in pairs)
        return FluidProblem(classes, (self.worker,))

    def next_vector(self, thresholds: Sequence[int]) -> tuple[int, ...]:
        """Return the least n that (10) allows given ``ΔT(thresholds)``, along the chain."""
        memory = policy_memory(self.weights, thresholds)
        return self.chain(self._arrivals.least(memory, strict=self.strict))

    @cached_property
    def _arrivals(self) -> BatchArrivals:
        return BatchArrivals.of(self.arriving[0], self.worker)

    def lower_vector(self) -> tuple[int, ...]:
        """Return a vector below every solution: ``n_1 > Λ_1·d0/(1 − load)``."""
        time = self.worker.d0 / (1 - self.load)
        return self.chain(least_integer(self.arriving[0] * time, strict=self.strict))

    def upper_vector(self) -> tuple[int, ...]:
        """Return a solution: n_1 large enough to pay for all rounding.

        The chain stays below ``n_1 Λ_i/Λ_1 + c_i`` with ``c_1 = 0, c_{i+1} = 1 + P_{i+1} c_i``.
        """
        excess, rounding = [Fraction(0)], Fraction(0)
        for share in self.passing:
            excess.append(1 + share * excess[-1])
        for c, s in zip(excess, self.weights, strict=True):
            rounding += c * s
        time = (self.worker.d0 + self.worker.d1 * rounding) / (1 - self.load)
        return self.chain(floor(self.arriving[0] * time) + 1)

    def chain(self, first: int) -> tuple[int, ...]:
        """Return the least thresholds after a given n_1."""
        vector = [first]
        for share in self.passing:
            passed = share.numerator * vector[-1]
            vector.append(least_quotient(passed, share.denominator, strict=self.strict))
        return tuple(vector)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def _increasing(values: object, where: str) -> tuple[int, ...]:
    if not isinstance(values, list | tuple) or not values:
        raise InputError(where, "no list of lengths", "give one at least")
    lengths = tuple(integer(v, f"{where}[{i}]", maximum=_MAX_LENGTH) for i, v in enumerate(values))
    for i in range(1, len(lengths)):
        if lengths[i] <= lengths[i - 1]:
            raise InputError(
                f"{where}[{i}]",
                f"{lengths[i]} does not exceed {lengths[i - 1]}",
                "sort them, and merge classes of equal length",
            )
    return lengths
