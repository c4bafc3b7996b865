"""The golden instance of the fluid programs."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from bfio.testing.instances import fluid_problem
from formulations.fluid import FluidProblem

#: Less than the distance to any kink.
_LITTLE = Fraction(1, 10**40)


def golden(memory: int = 9, d0: object = "1/2", d1: object = "1/18") -> FluidProblem:
    """Return I0 of appendix A.3: l = (1, 1), l' = (1, 2), λ = (1, 1).

    w = ((1+1)(1+1/2), (2+1)(1+1)) = (3, 6), A = 9. With d0 = 1/2 and d1 = 1/18, ρ = 1/2,
    ΔT* = (1/2)/(1/2) = 1, n* = (2, 3) and M* = 9.
    """
    return fluid_problem(memory, [(1, 1, 1), (1, 1, 2)], d0, d1)


def plain(*values: object) -> tuple[object, ...]:
    """Return the values as a tuple; fractions compare equal to whole numbers."""
    return values


def gains(
    problem: FluidProblem, value: Callable[[FluidProblem], Fraction | None]
) -> tuple[Fraction, ...]:
    """Return what one more request per second of each class adds to a value, as its slope."""
    before, slopes = value(problem), []
    for j, kind in enumerate(problem.classes):
        more = replace(kind, rate=kind.rate + _LITTLE)
        classes = (*problem.classes[:j], more, *problem.classes[j + 1 :])
        after = value(replace(problem, classes=classes))
        assert before is not None
        assert after is not None
        slopes.append((after - before) / _LITTLE)
    return tuple(slopes)
