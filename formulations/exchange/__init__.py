"""Programs as files that other solvers read, and their solutions back: docs/exchange.md."""

from formulations.exchange.exact_program import ExactProgram, of_form, of_linear
from formulations.exchange.head import head
from formulations.exchange.judge import Judged, exact_program, judge
from formulations.exchange.judge_linear import JudgedLinear, judge_linear
from formulations.exchange.names import file_name
from formulations.exchange.point import broken_rows, point_of
from formulations.exchange.solution_file import SolutionFile, parse_solution
from formulations.exchange.write import FORMATS, program_text

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
