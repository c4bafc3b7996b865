"""A solution of a continuous program from elsewhere, judged in fractions."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from formulations.exchange.exact_program import of_linear
from formulations.exchange.point import broken_rows, point_of
from formulations.exchange.solution_file import SolutionFile
from formulations.linear.exact_linear import ExactLinear
from formulations.linear.simplex import exact_vertex, is_optimal_pair
from formulations.words import Words

#: Excess, relative to the right-hand side (or 1), that floats may leave.
TOLERANCE = Fraction(1, 10**6)


@dataclass(frozen=True)
class JudgedLinear:
    """What a point from elsewhere is worth.

    Parameters
    ----------
    value : Fraction
        Value of the model at the point.
    optimum : Fraction, optional
        The optimum, proven by duality in fractions; None if the program has none.
    violations : mapping
        Rows and bounds that are violated by more than `TOLERANCE`, and by how much.
    largest_excess : Fraction
        Largest violation of all, in units of its row: floats hardly ever keep a row exactly.
    describes_optimum : bool
        Whether the vertex that the values describe, taken exactly, is an optimum.
    in_words : mapping
        Each violation in a sentence.
    """

    value: Fraction
    optimum: Fraction | None
    violations: Mapping[str, Fraction]
    largest_excess: Fraction
    describes_optimum: bool
    in_words: Mapping[str, str]

    @property
    def is_exact_optimum(self) -> bool:
        """Whether the point itself, as written, is feasible and an optimum."""
        return self.largest_excess == 0 and self.value == self.optimum


def judge_linear(
    linear: ExactLinear, words: Words, file: SolutionFile, *, minimised: bool = False
) -> JudgedLinear:
    """Return what a solution file is worth for a continuous program.

    Parameters
    ----------
    linear : ExactLinear
        The program in rationals.
    words : Words
        What it says.
    file : SolutionFile
        What the solver found.
    minimised : bool
        Whether the model minimises, see `of_linear`.

    Raises
    ------
    InputError
        If its names are not those of the program, see `point_of`.
    CapabilityError
        If the program is too large for exact arithmetic.
    """
    program = of_linear(linear, minimised=minimised)
    point = point_of(program, file)
    excess = broken_rows(program, point)
    sizes: dict[str, Fraction] = {
        name: max(Fraction(1), abs(side))
        for name, side in zip(program.row_names, linear.bound, strict=True)
    }
    violated = {name: by for name, by in excess.items() if by > TOLERANCE * sizes.get(name, 1)}
    vertex = exact_vertex(linear, np.array([float(x) for x in point]))
    proven = vertex.point is not None and is_optimal_pair(linear, vertex.point, vertex.prices)
    sign = -1 if minimised else 1
    optimum: Any = sign * linear.value(vertex.point) if proven and vertex.point else None
    return JudgedLinear(
        value=Fraction(program.multiplier * program.objective(point)),
        optimum=optimum,
        violations=violated,
        largest_excess=Fraction(max(excess.values(), default=0)),
        describes_optimum=proven and vertex.pivots == 0 and not violated,
        in_words={name: words.told(name, f"{float(by):.6g}") for name, by in violated.items()},
    )
