"""Read solution files of Gurobi, CPLEX, SCIP, HiGHS and CBC, and plain lines of name and value.

The format is detected by content, not by file name. Values are read as exact decimals. Claims in a
file are not trusted: `formulations.exchange.judge` and the checkers verify the values.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from xml.parsers import expat

from formulations.documents import shown
from formulations.errors import InputError

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
        Its content.

    Raises
    ------
    InputError
        If there is no solution, a variable occurs twice, or a value is not a number; the error
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
            raise InputError(f"line {number}", shown(line.strip()), "give a value for each column")
        pairs.append((number, words[-1], _unrounded(value, f"line {number}: {words[-1][:60]}")))
    return SolutionFile(
        "highs-pretty", _values(pairs), stated.get("Objective value"), stated.get("Model status")
    )


def _unrounded(value: str, where: str) -> str:
    """Refuse a number in exponent form, since this style rounds to six digits."""
    if "e+" in value:
        raise InputError(where, f"{value} is rounded", "write the solution in the raw style")
    return value


def _word_ending_at(line: str, end: int) -> str | None:
    """Return the word in a right-aligned column that ends here, or None."""
    words = line[:end].split()
    return words[-1] if words and line[:end].rstrip() == line[:end] else None


def _cbc(text: str) -> SolutionFile:
    """Parse lines of index, name, value and reduced cost; a star marks infeasible values."""
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
    """Parse the XML; declarations of types and entities are refused."""
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
                raise InputError(f"line {line}", "a variable without name or value", "add them")
            pairs.append((line, attributes["name"], attributes["value"]))

    def refuse(*_: object) -> None:
        where = f"line {parser.CurrentLineNumber}"
        raise InputError(where, "declares a type or entity", "leave out <!DOCTYPE ...>")

    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        where, what = f"line {error.lineno}", expat.ErrorString(error.code)
        raise InputError(where, f"no XML ({what})", "check that the file is complete") from None
    if solutions > 1:
        raise InputError("file", f"{solutions} solutions", "write one of them, as incumbent")
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
            f"{shown(line)} is no name and value",
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
            raise InputError(f"line {number}: {name[:60]}", "occurs twice", "keep one of them")
        values[name] = _exact(text, f"line {number}: {name[:60]}")
    if not values and not may_be_empty:
        raise _nothing(None)
    return values


def _exact(text: str, where: str) -> Fraction:
    if _NUMBER.fullmatch(text) is None:
        what = "is not finite" if _INFINITE.fullmatch(text) else "is no number"
        raise InputError(where, f"{shown(text)} {what}", "write a decimal such as 1 or 0.25")
    return Fraction(text)


def _nothing(status: str | None) -> InputError:
    said = f" ({status})" if status else ""
    return InputError("file", f"holds no solution{said}", "let the solver find one first")
