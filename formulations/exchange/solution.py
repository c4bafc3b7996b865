"""Read solution files of Gurobi, CPLEX, SCIP, HiGHS and CBC or plain text, and verify them.

The format is detected by content, not by file name. Values are read as exact decimals. Claims in a
file are not trusted: `judge` verifies the values in exact arithmetic, by the rows of the program
and then by the checker.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any
from xml.parsers import expat

import numpy as np

from formulations.errors import CapabilityError, InputError, did_you_mean
from formulations.exchange.program_file import CONSTANT, ExactProgram, of_form, of_linear
from formulations.formulation import COMBINATORIAL
from formulations.problem_data import shown
from formulations.results import ProgramResult, Termination
from formulations.standard_form import EXACT_LIMIT
from formulations.statement import Statement

#: A number with a short exponent, so that no value has millions of digits.
_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2})?", re.ASCII)
_INFINITE = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
#: First line of a CBC solution file.
_CBC_HEAD = re.compile(r"(\w[\w ()]*?) +- objective value +(\S+)")
#: SCIP writes the cost of a variable after its value.
_SCIP_COST = re.compile(r"\s*\(obj:[^()]*\)$")


@dataclass(frozen=True)
class SolutionFile:
    """The content of a solution file.

    Parameters
    ----------
    format : str
        ``gurobi``, ``cplex``, ``scip``, ``highs-raw``, ``highs-pretty``, ``cbc`` or ``plain``.
    values : dict
        Value of each variable by its name in the file, as an exact decimal.
    claimed : str, optional
        The objective stated in the file.
    status : str, optional
        The solver's status of the solution.
    omits_zeros : bool
        Whether this format omits variables of value 0.
    """

    format: str
    values: dict[str, Fraction] = field(repr=False)
    claimed: str | None = None
    status: str | None = None
    omits_zeros: bool = False


def parse_solution(text: str) -> SolutionFile:
    """Parse a solution file of any supported solver.

    Parameters
    ----------
    text : str
        Content of the file.

    Raises
    ------
    InputError
        If the file has no solution, a variable occurs twice, or a value is not a number; the error
        names line and variable.
    """
    return _reader(text)(text)


def _reader(text: str) -> Callable[[str], SolutionFile]:
    lines = [line.strip() for line in text.splitlines()[:50]]
    if lines and lines[0].startswith("<"):
        return _cplex
    if "# Primal solution values" in lines or "Model status" in lines[:1]:
        return _highs_raw
    if lines[:1] == ["Columns"]:
        return _highs_pretty
    if lines and _CBC_HEAD.fullmatch(lines[0]):
        return _cbc
    # The SCIP shell writes a status line first; comments may precede it.
    if any(line.startswith(("objective value:", "solution status:")) for line in lines):
        return _scip
    if any(line.startswith(("# Solution for model", "# Objective value")) for line in lines):
        return _gurobi
    return _plain


def _scip(text: str) -> SolutionFile:
    pairs, found = [], {}
    for number, line in _content(text):
        if line.startswith("no solution available"):
            raise _nothing("no solution available")
        key, colon, rest = line.partition(":")
        if colon and key in ("objective value", "solution status"):
            found[key] = rest.strip()
        else:
            pairs.append((number, *_pair(number, _SCIP_COST.sub("", line))))
    return SolutionFile(
        "scip",
        # If all values are 0, SCIP writes the objective only.
        _values(pairs, may_be_empty="objective value" in found),
        found.get("objective value"),
        found.get("solution status"),
        omits_zeros=True,
    )


def _gurobi(text: str) -> SolutionFile:
    claimed = re.search(r"^# Objective value *= *(\S+)", text, re.MULTILINE)
    return SolutionFile("gurobi", _pairs(text), claimed.group(1) if claimed else None)


def _plain(text: str) -> SolutionFile:
    return SolutionFile("plain", _pairs(text))


def _highs_raw(text: str) -> SolutionFile:
    lines = text.splitlines()
    status = lines[1].strip() if lines[0].strip() == "Model status" else None
    begin = next((k for k, line in enumerate(lines) if line.startswith("# Primal")), len(lines))
    if begin + 1 >= len(lines) or lines[begin + 1].strip() == "None":
        raise _nothing(status)
    claimed, pairs = None, list[tuple[int, str, str]]()
    for number, line in enumerate(lines[begin + 2 :], begin + 3):
        if line.startswith(("# Rows", "# Dual", "# Basis")):
            break
        if line.startswith("Objective "):
            claimed = line.removeprefix("Objective ").strip() or None
        elif line.startswith("# Columns"):
            # Lines above this header describe the solution; they vary by version.
            pairs.clear()
        elif line.strip() and not line.startswith("#"):
            pairs.append((number, *_pair(number, line)))
    return SolutionFile("highs-raw", _values(pairs), claimed, status)


def _highs_pretty(text: str) -> SolutionFile:
    lines = text.splitlines()
    head = lines[1] if len(lines) > 1 else ""
    end = next((k for k, line in enumerate(lines) if line.startswith("Rows")), len(lines))
    stated = dict(re.findall(r"^(Model status|Objective value): *(\S.*?) *$", text, re.MULTILINE))
    pairs = []
    for number, line in enumerate(lines[2:end], 3):
        words = line.split()
        # Columns are aligned. Status and dual value may be blank, the primal value may not.
        value = _word_ending_at(line, head.find("Primal") + len("Primal"))
        if not words or value is None:
            raise InputError(
                f"line {number}", shown(line.strip()), "write a value for each column of the table"
            )
        pairs.append((number, words[-1], _unrounded(value, f"line {number}: {words[-1][:60]}")))
    return SolutionFile(
        "highs-pretty", _values(pairs), stated.get("Objective value"), stated.get("Model status")
    )


def _unrounded(value: str, where: str) -> str:
    """Return a number as it is; raise if it has an exponent, since it is then rounded."""
    if "e+" in value:
        raise InputError(
            where, f"{value} is rounded to 6 digits", "write the solution in the HiGHS raw style"
        )
    return value


def _word_ending_at(line: str, end: int) -> str | None:
    """Return the word of a line whose last character is at ``end - 1``, or None."""
    words = line[:end].split()
    return words[-1] if words and line[:end].rstrip() == line[:end] else None


def _cbc(text: str) -> SolutionFile:
    """Parse a CBC file: lines of index, name, value and reduced cost; stars mark violations."""
    (_, head), *lines = _content(text)
    stated = _CBC_HEAD.fullmatch(head)
    pairs = []
    for number, line in lines:
        words = line.removeprefix("**").split()
        if len(words) != 4:
            raise InputError(f"line {number}", shown(line), "give index, name, value and cost")
        pairs.append((number, words[1], words[2]))
    status, claimed = stated.groups() if stated else (None, None)
    values = _values(pairs, may_be_empty=status == "Optimal")
    return SolutionFile("cbc", values, claimed, status, omits_zeros=True)


def _cplex(text: str) -> SolutionFile:
    """Parse a CPLEX file (XML); declarations of types and entities are not allowed."""
    solutions, header = 0, {}
    pairs: list[tuple[int, str, str]] = []
    # The text is already decoded, so the declared encoding is ignored.
    parser = expat.ParserCreate("utf-8")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal solutions
        line = parser.CurrentLineNumber
        if tag == "CPLEXSolution":
            solutions += 1
        elif tag == "header":
            header.update(attributes)
        elif tag == "variable":
            if not {"name", "value"} <= attributes.keys():
                raise InputError(
                    f"line {line}", "a variable without name or value", "add both attributes"
                )
            pairs.append((line, attributes["name"], attributes["value"]))

    def refuse(*_: object) -> None:
        where = f"line {parser.CurrentLineNumber}"
        raise InputError(where, "a declaration of a type or entity", "remove <!DOCTYPE ...>")

    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        where, what = f"line {error.lineno}", expat.ErrorString(error.code)
        raise InputError(
            where, f"not valid XML ({what})", "check that the file is complete"
        ) from None
    if solutions > 1:
        raise InputError("file", f"{solutions} solutions", "write the incumbent only")
    return SolutionFile(
        "cplex", _values(pairs), header.get("objectiveValue"), header.get("solutionStatusString")
    )


def _pairs(text: str) -> dict[str, Fraction]:
    return _values((number, *_pair(number, line)) for number, line in _content(text))


def _content(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and text of the lines that are neither blank nor comments."""
    for number, line in enumerate(text.splitlines(), 1):
        if (stripped := line.strip()) and not stripped.startswith("#"):
            yield number, stripped


def _pair(number: int, line: str) -> tuple[str, str]:
    words = line.split()
    # Files of GLPK (HiGHS style 3) begin with "Problem: step".
    if len(words) != 2 or words[0].endswith(":"):
        raise InputError(
            f"line {number}",
            f"{shown(line)} is not a name and a value",
            "use a solution of Gurobi, CPLEX, SCIP, HiGHS (styles 0 and 1) or CBC, or lines of "
            "name and value",
        )
    return words[0], words[1]


def _values(
    pairs: Iterable[tuple[int, str, str]], *, may_be_empty: bool = False
) -> dict[str, Fraction]:
    values: dict[str, Fraction] = {}
    for number, name, text in pairs:
        if name in values:
            what = "the variable occurs twice"
            raise InputError(f"line {number}: {name[:60]}", what, "keep one of the two lines")
        values[name] = _exact(text, f"line {number}: {name[:60]}")
    if not values and not may_be_empty:
        raise _nothing(None)
    return values


def _exact(text: str, where: str) -> Fraction:
    if _NUMBER.fullmatch(text) is None:
        what = "is not finite" if _INFINITE.fullmatch(text) else "is not a number"
        raise InputError(where, f"{shown(text)} {what}", "write a decimal such as 1 or 0.25")
    return Fraction(text)


def _nothing(status: str | None) -> InputError:
    said = f" ({status})" if status else ""
    return InputError("file", f"contains no solution{said}", "let the solver find one first")


#: Tolerance for integer variables in a file, about that of the solvers.
ROUNDING = Fraction(1, 10**6)


def point_of(program: ExactProgram, file: SolutionFile) -> list[Any]:
    """Return the point of a solution file, length n: ints, or Fractions if continuous.

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
            remedy = f"{near}give the solution of this program, as written"
            raise InputError(name[:60], "not a variable of the program", remedy)
    missing = [name for name in program.column_names if name not in file.values]
    if missing and not file.omits_zeros:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            missing[0] + more, "no value in the file", "list every variable, also those of value 0"
        )
    if (one := file.values.get(CONSTANT, Fraction(1))) != 1 and abs(one - 1) > ROUNDING:
        raise InputError(CONSTANT, f"{float(one):g}", "it is fixed to 1: solve the file unchanged")
    point: list[Any] = []
    for name, is_integral in zip(program.column_names, program.integral, strict=True):
        value = file.values.get(name, Fraction(0))
        if is_integral and abs(value - round(value)) > ROUNDING:
            remedy = "solve with integrality enforced (docs/exchange.md)"
            raise InputError(name, f"{float(value):.9g} is not an integer", remedy)
        point.append(round(value) if is_integral else value)
    return point


def broken_rows(program: ExactProgram, point: Sequence[Any]) -> dict[str, Any]:
    """Return each violated row and bound of a point by its name in the file, and the amount.

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
    """The assessment of another solver's point for a continuous program, in exact arithmetic.

    Parameters
    ----------
    value : Fraction
        Value of the model at the point.
    optimum : Fraction, optional
        The optimum, proven by duality in fractions; None if the program has none.
    violations : mapping
        Rows and bounds that are violated by more than `TOLERANCE`, and the amounts.
    largest_excess : Fraction
        Largest violation, in units of its row; floats rarely satisfy a row exactly.
    describes_optimum : bool
        Whether the vertex derived from the values is an optimum in exact arithmetic.
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
        """Whether the point as written in the file is feasible and optimal, without rounding."""
        return self.largest_excess == 0 and self.value == self.optimum


def judge_linear(program: Statement[Any], file: SolutionFile) -> JudgedLinear:
    """Verify a solution file of a program in fractions.

    Parameters
    ----------
    program : Statement
        The `fractional` program that was written to the file.
    file : SolutionFile
        The solver's solution.

    Raises
    ------
    InputError
        If the variable names differ from those of the program, see `point_of`.
    CapabilityError
        If the program is too large for exact arithmetic.
    """
    exact = exact_program(program)
    point = point_of(exact, file)
    excess = broken_rows(exact, point)
    sizes: dict[str, Fraction] = {
        name: max(Fraction(1), abs(side))
        for name, side in zip(exact.row_names, program.linear.bound, strict=True)
    }
    violated = {name: by for name, by in excess.items() if by > TOLERANCE * sizes.get(name, 1)}
    optimum, is_vertex = program.optimum_near(point)
    return JudgedLinear(
        value=Fraction(exact.multiplier * exact.objective(point)),
        optimum=optimum,
        violations=violated,
        largest_excess=Fraction(max(excess.values(), default=0)),
        describes_optimum=is_vertex and not violated,
        in_words={
            name: program.words.told(name, f"{float(by):.6g}") for name, by in violated.items()
        },
    )


#: Tolerated relative error of the objective that a file states.
_CLAIM_ERROR = 1e-6


@dataclass(frozen=True)
class Judged:
    """The assessment of another solver's solution for an integer program.

    Parameters
    ----------
    result : ProgramResult or PausingResult
        The checked result: optimal if the objective equals a bound derived here, else feasible; if
        the values are infeasible, failed, with the violations and without a solution.
    file_objective : Fraction
        The objective of the file's values in units of the model; it exceeds the objective of the
        result if auxiliary variables are larger than necessary.
    in_words : mapping
        Each violation in a sentence.
    notes : tuple of str
        Further remarks on the file.
    """

    result: Any
    file_objective: Fraction
    in_words: Mapping[str, str]
    notes: tuple[str, ...]


def refuse_settled(program: Statement[Any]) -> None:
    """Refuse a problem without a decision, which has no program to state.

    Raises
    ------
    CapabilityError
        If there is nothing to decide, e.g. no requests.
    """
    # A form with requests can be stated even if none of them may start.
    has_requests = getattr(program.problem, "num_requests", 0) > 0
    if not has_requests and (answer := program.settled("write")) is not None:
        what = f"nothing to decide: {answer.status}"
        raise CapabilityError("problem", what, "give a problem with a choice")


def exact_program(program: Statement[Any]) -> ExactProgram:
    """Return a program in integers, as written to files.

    Raises
    ------
    CapabilityError
        If there is nothing to decide, or the program is too large.
    """
    refuse_settled(program)
    if program.fractional:
        return of_linear(program.linear, minimised=not program.maximised)
    return of_form(program.standard_form, program.units)


def judge(program: Any, file: SolutionFile) -> Judged:
    """Verify a solution file of an integer program.

    Parameters
    ----------
    program : Formulation or PausingProgram
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
    if not all(exact.integral):
        # Continuous values are rounded; the checker judges the integers exactly.
        violated = {name: by for name, by in violated.items() if by > TOLERANCE}
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


def _notes(file: SolutionFile, reached: int, value: Fraction, result: Any) -> Any:
    """Yield notes on differences of three objectives: stated, of the file's values, recomputed."""
    try:
        claimed = None if file.claimed is None else float(file.claimed)
    except ValueError:
        claimed = None
    if claimed is not None and abs(claimed - reached) > _CLAIM_ERROR * max(1, abs(reached)):
        yield f"the file states the objective {file.claimed}, but its values give {reached}"
    # The other results come from programs with continuous variables, whose values are rounded.
    exact = isinstance(result, ProgramResult) and result.objective is not None
    if exact and value != Fraction(result.objective, result.scale):
        cost = str(value) if value.denominator == 1 else f"{float(value):.9g}"
        yield (
            f"the file's values cost {cost}: auxiliary variables are larger than they "
            "need to be; the objective is recomputed"
        )
