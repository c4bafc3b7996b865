"""Write integer and linear programs as LP or MPS files, and verify solutions of other solvers."""

from formulations.exchange.program_file import (
    FORMATS,
    ExactProgram,
    file_name,
    head,
    of_form,
    of_linear,
    program_text,
)
from formulations.exchange.solution import (
    Judged,
    JudgedLinear,
    SolutionFile,
    broken_rows,
    exact_program,
    judge,
    judge_linear,
    parse_solution,
    point_of,
)

__all__ = [
    "FORMATS",
    "ExactProgram",
    "Judged",
    "JudgedLinear",
    "SolutionFile",
    "broken_rows",
    "exact_program",
    "file_name",
    "head",
    "judge",
    "judge_linear",
    "of_form",
    "of_linear",
    "parse_solution",
    "point_of",
    "program_text",
]
