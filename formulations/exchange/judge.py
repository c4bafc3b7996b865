"""Verify a solution of another solver in exact arithmetic: by the rows, then by the checker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from formulations.errors import CapabilityError, InputError, did_you_mean
from formulations.exchange.program_file import CONSTANT, ExactProgram, of_form, of_linear
from formulations.exchange.solution_file import SolutionFile
from formulations.formulation import COMBINATORIAL, Formulation
from formulations.linear import ExactLinear, exact_vertex, is_optimal_pair
from formulations.results import ProgramResult, Termination
from formulations.standard_form import EXACT_LIMIT
from formulations.words import Words

#: Tolerance for integer variables in a file, about that of the solvers.
ROUNDING = Fraction(1, 10**6)


def point_of(program: ExactProgram, file: SolutionFile) -> list[Any]:
    """Return the value of each column: an int for an integer variable, else a Fraction.

    Raises
    ------
    InputError
        If a variable is unknown or missing, an integer variable is not integral within 10^-6, or
        the variable of the objective's constant is not 1.
    """
    known = {*program.column_names, CONSTANT}
    for name in file.values:
        if name not in known:
            near = did_you_mean(name[:60], program.column_names) if len(known) < 10_000 else ""
            remedy = f"{near}give the solution of this program, as --write wrote it"
            raise InputError(name[:60], "no variable of the program", remedy)
    missing = [name for name in program.column_names if name not in file.values]
    if missing and not file.omits_zeros:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            missing[0] + more, "not in the file", "list every variable, those that are 0 too"
        )
    if (one := file.values.get(CONSTANT, Fraction(1))) != 1 and abs(one - 1) > ROUNDING:
        raise InputError(CONSTANT, f"{float(one):g}", "it is fixed to 1: solve the file unchanged")
    point: list[Any] = []
    for name, is_integral in zip(program.column_names, program.integral, strict=True):
        value = file.values.get(name, Fraction(0))
        if is_integral and abs(value - round(value)) > ROUNDING:
            remedy = "solve with integrality enforced (docs/exchange.md)"
            raise InputError(name, f"{float(value):.9g} is not whole", remedy)
        point.append(round(value) if is_integral else value)
    return point


def broken_rows(program: ExactProgram, point: Sequence[Any]) -> dict[str, Any]:
    """Return every row and bound that a point violates, by its name in the file, and the amount.

    Amounts are in units of the statement. A bound is listed under the name of its variable.
    """
    broken = {}
    for r, name in enumerate(program.row_names):
        reached = sum(a * point[j] for j, a in program.terms(r))
        if (excess := _excess(reached, program.row_lower[r], program.row_upper[r])) > 0:
            factor = program.row_factors[r]
            broken[name] = excess if factor == 1 else excess / factor
    for j, name in enumerate(program.column_names):
        if (excess := _excess(point[j], program.lower[j], program.upper[j])) > 0:
            broken[name] = excess
    return broken


def _excess(value: Any, lower: int | None, upper: int | None) -> Any:
    below = 0 if lower is None else lower - value
    above = 0 if upper is None else value - upper
    return max(below, above, 0)


#: Tolerated excess of floats, relative to the right-hand side (or 1).
TOLERANCE = Fraction(1, 10**6)


@dataclass(frozen=True)
class JudgedLinear:
    """The verified quality of a point of another solver, for a continuous program.

    Parameters
    ----------
    value : Fraction
        Value of the model at the point.
    optimum : Fraction, optional
        The optimum, proven by duality in fractions; None if the program has none.
    violations : mapping
        Rows and bounds that are violated by more than `TOLERANCE`, and the amount.
    largest_excess : Fraction
        Largest violation, in units of its row; floats rarely satisfy a row exactly.
    describes_optimum : bool
        Whether the exact vertex that the values describe is an optimum.
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
    """Verify a solution file of a continuous program.

    Parameters
    ----------
    linear : ExactLinear
        The program in rationals.
    words : Words
        Descriptions of the program.
    file : SolutionFile
        The solver's solution.
    minimised : bool
        Whether the model minimises, see `of_linear`.

    Raises
    ------
    InputError
        If the variable names differ from those of the program, see `point_of`.
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


#: Tolerated relative error of the objective that a file states.
_CLAIM_ERROR = 1e-6


@dataclass(frozen=True)
class Judged:
    """The verified quality of a solution of another solver, for an integer program.

    Parameters
    ----------
    result : ProgramResult
        Our own result: optimal only if the objective equals our bound, else feasible; failed, with
        violations and without a solution, if the values are infeasible.
    file_objective : Fraction
        The objective of the file's values in units of the model; it exceeds the objective of the
        result if auxiliary variables are larger than necessary.
    in_words : mapping
        Each violation in a sentence.
    notes : tuple of str
        Further remarks on the file.
    """

    result: ProgramResult[Any]
    file_objective: Fraction
    in_words: Mapping[str, str]
    notes: tuple[str, ...]


def exact_program(program: Formulation[Any, Any, Any]) -> ExactProgram:
    """Return the program of a formulation in integers, as written to files.

    Raises
    ------
    CapabilityError
        If there is nothing to decide, or the program is too large.
    """
    if not program.problem.num_requests:
        raise CapabilityError("requests", "there are none: nothing to decide", "give one or more")
    return of_form(program.standard_form, getattr(program.problem, "scale", 1))


def judge(program: Formulation[Any, Any, Any], file: SolutionFile) -> Judged:
    """Verify a solution file of an integer program.

    Parameters
    ----------
    program : Formulation
        The program that was written to the file.
    file : SolutionFile
        The solver's solution.

    Raises
    ------
    InputError
        If names or values do not match the program, see `point_of`.
    """
    exact = exact_program(program)
    point = point_of(exact, file)
    violated = broken_rows(exact, point)
    bound = program.lower_bound()
    if violated:
        # Values that violate a row give no solution.
        result = program.answer(None, Termination.FAILED, bound, method="read")
    else:
        for name, value in zip(exact.column_names, point, strict=True):
            if abs(value) >= EXACT_LIMIT:
                raise CapabilityError(name, f"{value} is beyond 2^53", "use smaller numbers")
        solution = program.solution_at(np.array(point, dtype=np.float64))
        result = program.answer(
            solution, Termination.FEASIBLE, bound, method="read", proof=COMBINATORIAL
        )
        violated = dict(result.violations)
    value = exact.multiplier * exact.objective(point)
    return Judged(
        result=replace(result, violations=violated),
        file_objective=value,
        in_words={
            name: program.words.told(name, by, program.groups()) for name, by in violated.items()
        },
        notes=tuple(_notes(file, exact.objective(point), value, result)),
    )


def _notes(file: SolutionFile, reached: int, value: Fraction, result: ProgramResult[Any]) -> Any:
    """Yield a note if the stated objective, the values and the recomputed objective differ."""
    try:
        claimed = None if file.claimed is None else float(file.claimed)
    except ValueError:
        claimed = None
    if claimed is not None and abs(claimed - reached) > _CLAIM_ERROR * max(1, abs(reached)):
        yield f"the file states the objective {file.claimed}, but its values give {reached}"
    if result.objective is not None and value != Fraction(result.objective, result.scale):
        cost = str(value) if value.denominator == 1 else f"{float(value):.9g}"
        yield (
            f"the file's values cost {cost}: auxiliary variables are larger than they "
            "need to be; the objective is recomputed"
        )
