"""A solution from elsewhere, judged: by the rows of the program, then by its checker."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from formulations.errors import CapabilityError
from formulations.exchange.exact_program import ExactProgram, of_form
from formulations.exchange.point import broken_rows, point_of
from formulations.exchange.solution_file import SolutionFile
from formulations.formulation import Formulation
from formulations.results import ProgramResult, Termination
from formulations.standard_form import EXACT_LIMIT
from formulations.trust import COMBINATORIAL

#: Relative error that a file's own statement of its objective may have.
_CLAIM_ERROR = 1e-6


@dataclass(frozen=True)
class Judged:
    """What a solution from elsewhere is worth.

    Parameters
    ----------
    result : ProgramResult
        The command's own answer: optimal only if the objective meets a bound of ours, else
        feasible, or failed with the violations named and no solution.
    file_objective : Fraction
        The objective of the file's values in units of the model; it is above the result's where
        auxiliary variables are larger than they need to be.
    in_words : mapping
        Each violation in a sentence.
    notes : tuple of str
        What else is worth knowing of the file.
    """

    result: ProgramResult[Any]
    file_objective: Fraction
    in_words: Mapping[str, str]
    notes: tuple[str, ...]


def exact_program(program: Formulation[Any, Any, Any]) -> ExactProgram:
    """Return a formulation's program in integers, as files hold it.

    Raises
    ------
    CapabilityError
        If there is nothing to decide, or it is too large.
    """
    if not program.problem.num_requests:
        raise CapabilityError("requests", "there are none: nothing to decide", "give one or more")
    return of_form(program.standard_form, getattr(program.problem, "scale", 1))


def judge(program: Formulation[Any, Any, Any], file: SolutionFile) -> Judged:
    """Return what a solution file is worth for a program.

    Parameters
    ----------
    program : Formulation
        The program whose file was solved.
    file : SolutionFile
        What the solver found.

    Raises
    ------
    InputError
        If its names or values are not those of the program, see `point_of`.
    """
    exact = exact_program(program)
    point = point_of(exact, file)
    violated = broken_rows(exact, point)
    bound = program.lower_bound()
    if violated:
        # No solution is made up where the values describe none.
        result = program.answer(None, Termination.FAILED, bound, method="read")
    else:
        solution = program.solution_at(_floats(exact, point))
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


def _floats(exact: ExactProgram, point: list[Any]) -> Any:
    for name, value in zip(exact.column_names, point, strict=True):
        if abs(value) >= EXACT_LIMIT:
            raise CapabilityError(name, f"{value} is beyond 2^53", "use smaller numbers")
    return np.array(point, dtype=np.float64)


def _notes(file: SolutionFile, reached: int, value: Fraction, result: ProgramResult[Any]) -> Any:
    """Yield where the file's statement, its values and the recomputed objective differ."""
    try:
        claimed = None if file.claimed is None else float(file.claimed)
    except ValueError:
        claimed = None
    if claimed is not None and abs(claimed - reached) > _CLAIM_ERROR * max(1, abs(reached)):
        yield f"the file states the objective {file.claimed}, but its values give {reached}"
    if result.objective is not None and value != Fraction(result.objective, result.scale):
        yield (
            f"the file's values cost {_plain(value)}: auxiliary variables are larger than they "
            "need to be; the objective is recomputed"
        )


def _plain(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.9g}"
