"""Fluid solutions of one engine in fractions: piecewise linear, by equations (C.10) to (C.17)."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

_ZERO = Fraction(0)


@dataclass(frozen=True)
class Fluid:
    """An engine in the fluid model: ``λ``, ``m_p``, ``m_d`` and ``μ = b/t_b``."""

    rate: Fraction
    prefill: Fraction
    decode: Fraction
    capacity: Fraction

    @property
    def drift(self) -> Fraction:
        """``λ(m_p + m_d) − b/t_b``."""
        return self.rate * (self.prefill + self.decode) - self.capacity


@dataclass(frozen=True)
class Point:
    """A point of a solution: time, requests in either phase, tokens processed."""

    time: Fraction
    in_prefill: Fraction
    in_decode: Fraction
    done: Fraction


def workload(fluid: Fluid, point: Point, *, printed: bool) -> Fraction:
    """Return f: by (C.19), or with the weights m_p + m_d and m_d of what is still to be done."""
    both, p, d = fluid.prefill + fluid.decode, fluid.prefill, fluid.decode
    weights = (p, both) if printed else (both, d)
    return weights[0] * point.in_prefill + weights[1] * point.in_decode


def path(
    fluid: Fluid, start: Point, rng: np.random.Generator, steps: int, *, wasted: bool = False
) -> Iterator[Point]:
    """Return the corners of a solution in which a random share goes to either phase.

    Parameters
    ----------
    fluid : Fluid
        The engine.
    start : Point
        Where it begins.
    rng : numpy.random.Generator
        Draws shares and durations.
    steps : int
        Corners at most; it ends where both phases are empty.
    wasted : bool
        Whether part of the capacity may be left unused.
    """
    point = start
    yield point
    for _ in range(steps):
        if point.in_prefill == point.in_decode == 0:
            return
        used = fluid.capacity
        if wasted:
            used *= Fraction(int(rng.integers(0, 5)), 4)
        prefill, decode = _shares(fluid, point, used, Fraction(int(rng.integers(0, 9)), 8))
        flows = (fluid.rate - prefill / fluid.prefill, prefill / fluid.prefill)
        slopes = (flows[0], flows[1] - decode / fluid.decode)
        ends = [
            -level / slope
            for level, slope in zip((point.in_prefill, point.in_decode), slopes, strict=True)
            if slope < 0
        ]
        lasts = min([*ends, Fraction(int(rng.integers(1, 9)), 2)])
        point = Point(
            point.time + lasts,
            point.in_prefill + slopes[0] * lasts,
            point.in_decode + slopes[1] * lasts,
            point.done + (prefill + decode) * lasts,
        )
        yield point


def _shares(
    fluid: Fluid, point: Point, used: Fraction, share: Fraction
) -> tuple[Fraction, Fraction]:
    """Return tokens per slot of both phases: an empty phase gets no more than comes to it."""
    prefill = used * share
    if point.in_prefill == 0:
        prefill = min(prefill, fluid.rate * fluid.prefill)
    decode = used - prefill
    if point.in_decode == 0 and decode * fluid.prefill > prefill * fluid.decode:
        # What the prompts bring is decoded at once: the capacity is split as their tokens are.
        prefill = used * fluid.prefill / (fluid.prefill + fluid.decode)
        decode = used - prefill
    return prefill, decode


def random_fluid(rng: np.random.Generator, load: Fraction) -> Fluid:
    """Return an engine with a load."""
    prefill, decode, capacity = (Fraction(int(x)) for x in rng.integers(1, 30, size=3))
    return Fluid(load * capacity / (prefill + decode), prefill, decode, capacity)


def random_start(rng: np.random.Generator) -> Point:
    """Return a start with requests in both phases, or in one."""
    levels = [Fraction(int(x), 4) for x in rng.integers(0, 9, size=2)]
    return Point(_ZERO, levels[0], levels[1] if any(levels) else Fraction(1), _ZERO)
