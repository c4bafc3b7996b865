"""Write programs as files for other solvers, and read their solutions: docs/exchange.md."""

from formulations.exchange.judge import (
    Judged,
    JudgedLinear,
    broken_rows,
    exact_program,
    judge,
    judge_linear,
    point_of,
)
from formulations.exchange.program_file import (
    FORMATS,
    ExactProgram,
    file_name,
    head,
    of_form,
    of_linear,
    program_text,
)
from formulations.exchange.solution_file import SolutionFile, parse_solution

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
