"""The values of a solution file as a point of the program, judged in exact numbers."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from formulations.errors import InputError, did_you_mean
from formulations.exchange.exact_program import ExactProgram
from formulations.exchange.solution_file import SolutionFile
from formulations.exchange.write import CONSTANT

#: How far from a whole number an integer variable may be written; solvers allow about as much.
ROUNDING = Fraction(1, 10**6)


def point_of(program: ExactProgram, file: SolutionFile) -> list[Any]:
    """Return the value of each column: an int where it is integral, else a Fraction.

    Raises
    ------
    InputError
        If a variable is unknown or missing, an integer one no whole number within 10^-6, or the
        constant of the objective not 1.
    """
    _check_names(program, file)
    if (one := file.values.get(CONSTANT, Fraction(1))) != 1 and abs(one - 1) > ROUNDING:
        raise InputError(CONSTANT, f"{float(one):g}", "it is fixed to 1: solve the file unchanged")
    return [
        _value(name, file.values.get(name, Fraction(0)), is_integral)
        for name, is_integral in zip(program.column_names, program.integral, strict=True)
    ]


def _check_names(program: ExactProgram, file: SolutionFile) -> None:
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


def _value(name: str, value: Fraction, is_integral: bool) -> int | Fraction:
    if not is_integral:
        return value
    whole = round(value)
    if abs(value - whole) > ROUNDING:
        raise InputError(
            name,
            f"{float(value):.9g} is not whole",
            "solve with integrality enforced (docs/exchange.md)",
        )
    return whole


def broken_rows(program: ExactProgram, point: Sequence[Any]) -> dict[str, Any]:
    """Return every row and bound that a point breaks, by its name in the file, and by how much.

    Amounts are in units of the statement. A bound goes by the name of its variable.
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
