"""Write a program as an LP or MPS file, with integer coefficients and comments.

Brackets are operators in LP files (see CPLEX's documentation of the format), so ``x[3,1]`` of the
statement is written as ``x(3,1)``.

An `ExactProgram` holds the exact content of a file, and the factors that convert a solution back:

    minimise    cost · x + constant
    subject to  row_lower <= A x <= row_upper,   lower <= x <= upper

The value of the model is ``multiplier`` times this objective, and row r here is ``row_factors[r]``
times the row of the statement, because files and solvers keep only whole numbers exactly.

The files are not written by HiGHS or Pyomo, which round numbers to float64, rename rows, or write
no comments. The constant of the objective is written as the fixed variable ``constant``, since
readers disagree on constant terms and on the sign of an objective's right-hand side in MPS. Equal
programs and comments give equal bytes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from textwrap import wrap
from typing import Any

import numpy as np

from formulations.arrays import FloatArray, IntArray
from formulations.errors import CapabilityError
from formulations.linear import ExactLinear
from formulations.standard_form import EXACT_LIMIT, StandardForm
from formulations.words import Words

#: A word, not beginning with e (read as an exponent), and whole numbers in parentheses.
_LEGAL = re.compile(r"[A-DF-Za-df-z_]\w*(\(\d+(,\d+)*\))?", re.ASCII)
_LONGEST = 255
#: Reserved words of LP files, in any case, for CPLEX, Gurobi, SCIP, HiGHS, GLPK and CBC.
_RESERVED = frozenset(
    re.findall(
        r"\S+",
        """
        max maximise maximize maximum min minimise minimize minimum subject such st bound bounds
        bin binary binaries gen general generals int integer integers free inf infinity sec semi
        semis sos sos1 sos2 range ranges rhs name rows columns objsense end
        """,
    )
)


def file_name(name: str) -> str:
    """Return the name of a row or column in the form written to files.

    Raises
    ------
    ValueError
        If some solver would reject the name.
    """
    written = name.replace("[", "(").replace("]", ")")
    if (
        len(written) > _LONGEST
        or _LEGAL.fullmatch(written) is None
        or written.lower() in _RESERVED
    ):
        raise ValueError(f"{name!r} cannot be written in LP and MPS files")
    return written


#: Largest number of entries written; solvers could not read a larger file in reasonable time.
MAX_ENTRIES = 10_000_000
Side = int | None


@dataclass(frozen=True)
class ExactProgram:
    """An integer or linear program with whole numbers, as written to a file.

    Parameters
    ----------
    column_names, row_names : tuple of str
        Names as written to files, see `file_name`.
    cost : tuple of int
        Length n.
    constant : int
        Added to the objective.
    starts, places, entries : arrays
        The matrix by rows: row r has ``entries[k]`` in column ``places[k]`` for k from
        ``starts[r]`` up to ``starts[r + 1]``.
    row_lower, row_upper, lower, upper : tuple of (int or None)
        Sides of the m rows and bounds of the n columns; None where there is no bound.
    integral : tuple of bool
        Length n.
    multiplier : Fraction
        Factor from the objective of the file to the value of the model.
    row_factors : tuple of Fraction
        Length m: factor of each row of the statement.
    """

    column_names: tuple[str, ...]
    row_names: tuple[str, ...]
    cost: tuple[int, ...]
    constant: int
    starts: IntArray
    places: IntArray
    entries: Any
    row_lower: tuple[Side, ...]
    row_upper: tuple[Side, ...]
    lower: tuple[Side, ...]
    upper: tuple[Side, ...]
    integral: tuple[bool, ...]
    multiplier: Fraction
    row_factors: tuple[Fraction, ...]

    @property
    def num_entries(self) -> int:
        """Number of entries of the matrix."""
        return len(self.places)

    @property
    def largest(self) -> int:
        """Largest absolute value of any number in the file."""
        sides = [*self.row_lower, *self.row_upper, *self.lower, *self.upper]
        numbers: list[int] = [*self.cost, self.constant, *self.entries.tolist()]
        return max(map(abs, [*numbers, *(side for side in sides if side is not None)]))

    def terms(self, row: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs (column index, coefficient) of a row."""
        part = slice(self.starts[row], self.starts[row + 1])
        yield from zip(self.places[part].tolist(), self.entries[part].tolist(), strict=True)

    def objective(self, point: Sequence[Any]) -> Any:
        """Return the objective of the program in the file at a point, length n."""
        return self.constant + sum(c * x for c, x in zip(self.cost, point, strict=True) if c)


def of_form(form: StandardForm, scale: int = 1) -> ExactProgram:
    """Convert the standard form of an integer program to integers.

    Parameters
    ----------
    form : StandardForm
        All its numbers are whole.
    scale : int
        Units of the form's objective per unit of the model's objective.

    Raises
    ------
    CapabilityError
        If the constant may have been rounded, or there are too many entries.
    """
    _check_size(form.matrix.nnz)
    if abs(form.offset) >= EXACT_LIMIT:
        what = f"{form.offset:.3e} is beyond 2^53, where float64 rounds integers"
        raise CapabilityError("constant of the objective", what, "use smaller or coarser numbers")
    cost, constant, common = _in_lowest_terms(_whole(form.objective), int(form.offset))
    return ExactProgram(
        column_names=tuple(file_name(name) for name in form.column_names),
        row_names=tuple(file_name(name) for name in form.row_names),
        cost=cost,
        constant=constant,
        starts=np.asarray(form.matrix.indptr),
        places=np.asarray(form.matrix.indices),
        entries=_checked_whole(form.matrix.data).astype(np.int64),
        row_lower=_sides(form.row_lower),
        row_upper=_sides(form.row_upper),
        lower=_sides(form.lower),
        upper=_sides(form.upper),
        integral=tuple(form.integral.tolist()),
        multiplier=Fraction(common, scale),
        row_factors=(Fraction(1),) * form.num_rows,
    )


def of_linear(linear: ExactLinear, *, minimised: bool = False) -> ExactProgram:
    """Scale each row and the objective of a program in rationals to integers.

    Parameters
    ----------
    linear : ExactLinear
        The program, which maximises ``c · x``; files minimise.
    minimised : bool
        Whether the model minimises, so that its value is ``-c · x``.
    """
    _check_size(sum(len(row) for row in linear.matrix))
    unit = lcm(*(c.denominator for c in linear.cost))
    cost, constant, common = _in_lowest_terms([int(-c * unit) for c in linear.cost], 0)
    rows = [_scaled(row, bound) for row, bound in zip(linear.matrix, linear.bound, strict=True)]
    counts = [len(row) for row, _, _ in rows]
    entries = np.empty(sum(counts), dtype=object)
    entries[:] = [a for row, _, _ in rows for a in row.values()]
    n = len(linear.columns)
    return ExactProgram(
        column_names=tuple(file_name(name) for name in linear.columns),
        row_names=tuple(file_name(name) for name in linear.rows),
        cost=cost,
        constant=constant,
        starts=np.array([0, *np.cumsum(counts)], dtype=np.int64),
        places=np.array([j for row, _, _ in rows for j in row], dtype=np.int64),
        entries=entries,
        row_lower=(None,) * len(rows),
        row_upper=tuple(bound for _, bound, _ in rows),
        lower=(0,) * n,
        upper=(None,) * n,
        integral=linear.integral or (False,) * n,
        multiplier=Fraction(common if minimised else -common, unit),
        row_factors=tuple(factor for _, _, factor in rows),
    )


def _check_size(entries: int) -> None:
    if entries > MAX_ENTRIES:
        raise CapabilityError(
            "program", f"{entries:,} entries", f"use {MAX_ENTRIES:,} at most: a smaller problem"
        )


def _in_lowest_terms(cost: list[int], constant: int) -> tuple[tuple[int, ...], int, int]:
    """Divide costs and constant by their greatest common divisor; return all three.

    Large common factors have led floating-point solvers to wrong optima.
    """
    common = gcd(constant, *cost) or 1
    return tuple(c // common for c in cost), constant // common, common


def _scaled(row: Any, bound: Fraction) -> tuple[dict[int, int], int, Fraction]:
    """Scale a row and its bound to integers; return both and the factor, as small as possible."""
    numbers = [*row.values(), bound]
    unit = lcm(*(a.denominator for a in numbers))
    common = gcd(*(int(a * unit) for a in numbers)) or 1
    factor = Fraction(unit, common)
    return {j: int(a * factor) for j, a in row.items()}, int(bound * factor), factor


def _checked_whole(values: FloatArray) -> FloatArray:
    if (values % 1 != 0).any():
        raise CapabilityError(
            "program", "it has fractional coefficients", "state it in whole numbers"
        )
    return values


def _whole(values: FloatArray) -> list[int]:
    return [int(value) for value in _checked_whole(values).tolist()]


def _sides(values: FloatArray) -> tuple[Side, ...]:
    finite = np.isfinite(values).tolist()
    numbers = np.where(np.isfinite(values), values, 0)
    return tuple(
        value if is_there else None
        for value, is_there in zip(_whole(numbers), finite, strict=True)
    )


#: Variable for the constant of the objective, fixed to 1.
CONSTANT = "constant"
OBJECTIVE = "obj"
#: Longest line [characters]; some readers cut lines at 255.
_WIDTH = 120


def program_text(program: ExactProgram, format_: str, comments: Iterable[str]) -> Iterator[str]:
    """Yield the lines of an LP or MPS file.

    Parameters
    ----------
    program : ExactProgram
        The program.
    format_ : str
        One of `FORMATS`.
    comments : iterable of str
        Comment lines at the top.
    """
    yield from FORMATS[format_](program, comments)


def _lp_lines(program: ExactProgram, comments: Iterable[str]) -> Iterator[str]:
    names = program.column_names
    for comment in comments:
        yield f"\\ {comment}".rstrip()
    yield "Minimize"
    used = program.places.tolist()
    absent = set(range(len(names))) - set(used)
    costs = [(c, names[j]) for j, c in enumerate(program.cost) if c or j in absent]
    # Some readers reject an objective without terms.
    has_constant = bool(program.constant) or not costs
    if has_constant:
        costs.append((program.constant, CONSTANT))
    yield from _filled(f" {OBJECTIVE}:", map(_term, costs))
    yield "Subject To"
    for r, name in enumerate(program.row_names):
        terms = (_term((a, names[j])) for j, a in program.terms(r))
        kind, side = _row_kind(program, r)
        yield from _filled(f" {name}:", [*terms, f"{_SIGNS[kind]} {side}"])
    bounds = [line for j in range(len(names)) if (line := _lp_bound(program, j))]
    if has_constant:
        bounds.append(f" {CONSTANT} = 1")
    yield from ["Bounds", *bounds] if bounds else []
    binary = [name for j, name in enumerate(names) if _is_binary(program, j)]
    other = [n for j, n in enumerate(names) if program.integral[j] and not _is_binary(program, j)]
    for section, members in (("Binaries", binary), ("Generals", other)):
        if members:
            yield section
            yield from _filled("", members)
    yield "End"


def _term(term: tuple[int, str]) -> str:
    number, name = term
    sign = "-" if number < 0 else "+"
    return f"{sign} {name}" if abs(number) == 1 else f"{sign} {abs(number)} {name}"


#: Signs of the LP format by the row types of the MPS format.
_SIGNS = {"L": "<=", "G": ">=", "E": "="}


def _row_kind(program: ExactProgram, r: int) -> tuple[str, int]:
    """Return the MPS type of a row (L, G or E) and its right-hand side."""
    lower, upper = program.row_lower[r], program.row_upper[r]
    if upper is not None and lower in (None, upper):
        return ("L" if lower is None else "E"), upper
    # None of our programs has a row with two different sides, or with none.
    if upper is not None or lower is None:
        raise ValueError(f"row {program.row_names[r]} has two sides or none")
    return "G", lower


def _is_binary(program: ExactProgram, j: int) -> bool:
    return program.integral[j] and program.lower[j] == 0 and program.upper[j] == 1


def _lp_bound(program: ExactProgram, j: int) -> str | None:
    lower, upper, name = program.lower[j], program.upper[j], program.column_names[j]
    if _is_binary(program, j) or (lower == 0 and upper is None):
        return None
    if lower is None and upper is None:
        return f" {name} free"
    if lower == upper:
        return f" {name} = {lower}"
    if upper is None:
        return f" {name} >= {lower}"
    return f" {'-inf' if lower is None else lower} <= {name} <= {upper}"


def _filled(head: str, words: Iterable[str]) -> Iterator[str]:
    """Yield a heading followed by words, wrapped to lines of limited length."""
    line = head
    for word in words:
        if line.strip() and len(line) + len(word) >= _WIDTH:
            yield line
            line = "  "
        line = f"{line} {word}"
    yield line


def _mps_lines(program: ExactProgram, comments: Iterable[str]) -> Iterator[str]:
    for comment in comments:
        yield f"* {comment}".rstrip()
    yield "NAME bfio"
    yield "ROWS"
    yield f" N {OBJECTIVE}"
    kinds = [_row_kind(program, r) for r in range(len(program.row_names))]
    for name, (kind, _) in zip(program.row_names, kinds, strict=True):
        yield f" {kind} {name}"
    yield "COLUMNS"
    yield from _mps_columns(program)
    yield "RHS"
    for name, (_, number) in zip(program.row_names, kinds, strict=True):
        if number:
            yield f" RHS {name} {number}"
    yield "BOUNDS"
    for j in range(len(program.column_names)):
        yield from _mps_bounds(program, j)
    if program.constant:
        yield f" FX BOUND {CONSTANT} 1"
    yield "ENDATA"


def _mps_columns(program: ExactProgram) -> Iterator[str]:
    rows = np.repeat(np.arange(len(program.row_names)), np.diff(program.starts))
    order = np.argsort(program.places, kind="stable")
    ends = np.bincount(program.places, minlength=len(program.column_names)).cumsum().tolist()
    among_integers = False
    for j, (name, begin, end) in enumerate(
        zip(program.column_names, [0, *ends], ends, strict=False)
    ):
        among = order[begin:end]
        column = list(zip(rows[among].tolist(), program.entries[among].tolist(), strict=True))
        if program.integral[j] is not among_integers:
            among_integers = not among_integers
            yield f" MARKER 'MARKER' '{'INTORG' if among_integers else 'INTEND'}'"
        if program.cost[j] or not column:
            yield f" {name} {OBJECTIVE} {program.cost[j]}"
        for r, a in column:
            yield f" {name} {program.row_names[r]} {a}"
    if among_integers:
        yield " MARKER 'MARKER' 'INTEND'"
    if program.constant:
        yield f" {CONSTANT} {OBJECTIVE} {program.constant}"


def _mps_bounds(program: ExactProgram, j: int) -> Iterator[str]:
    lower, upper, name = program.lower[j], program.upper[j], program.column_names[j]
    if lower == upper is not None:
        yield f" FX BOUND {name} {lower}"
        return
    # Some readers treat integers without bounds as binary, so all integer bounds are written.
    if lower is None:
        yield f" {'FR' if upper is None else 'MI'} BOUND {name}"
    elif lower or program.integral[j]:
        yield f" LO BOUND {name} {lower}"
    if upper is not None:
        yield f" UP BOUND {name} {upper}"
    elif program.integral[j]:
        yield f" PL BOUND {name}"


#: Writer of each format, by file name extension.
FORMATS: dict[str, Callable[[ExactProgram, Iterable[str]], Iterator[str]]] = {
    "lp": _lp_lines,
    "mps": _mps_lines,
}


_HEAD_WIDTH = 100


def head(
    program: ExactProgram,
    words: Words,
    *,
    digest: str,
    version: str,
    back: str,
    criterion: str = "",
    groups: Sequence[str] = (),
    prices: Sequence[str] = (),
) -> list[str]:
    """Return the comment lines at the top of a file, which describe the program.

    Parameters
    ----------
    program : ExactProgram
        The program.
    words : Words
        Descriptions of the program.
    digest : str
        Hash of the problem data.
    version : str
        Version of the toolkit, with its commit.
    back : str
        The command that reads a solution.
    criterion : str
        Name of the objective, if there are several.
    groups : sequence of str
        One text per request kind, which lists its requests.
    prices : sequence of str
        Meaning of the dual prices of a continuous program.
    """
    constant, numbers = [], ["all numbers are whole and exact"]
    if program.constant:
        what = f"its constant {program.constant} is carried by '{CONSTANT}', fixed to 1"
        constant.append(f"  {what}")
    if (most := program.largest) >= EXACT_LIMIT:
        numbers.append(f"  (up to {most:.3e}: solvers that read float64 round those beyond 2^53)")
    for name, factor in zip(program.row_names, program.row_factors, strict=True):
        if factor != 1:
            numbers.append(f"  row {name} is multiplied by {factor}")
    families = {name.partition("(")[0] for name in program.column_names}
    lines = [
        f"{words.title}, written by {version}",
        f"source: {words.source}",
        f"instance: {digest} (SHA-256 of its data, first 16 digits)",
        f"minimised: {words.objective}{f', here {criterion}' if criterion else ''}",
        f"value of the model = {program.multiplier} * objective of this file",
        *constant,
        *numbers,
        "variables (indices from 0; a name x[3,1] of the statement is x(3,1) here):",
        *(f"  {told}" for family, told in words.variables.items() if family in families),
        *(f"  kind {c} = {members}" for c, members in enumerate(groups)),
        *prices,
        f"verify a solution: {back}",
    ]
    wrapped = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wrapped += wrap(line, _HEAD_WIDTH, subsequent_indent=indent) or [""]
    return wrapped
