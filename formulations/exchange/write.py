"""LP and MPS files of a program: comments, then every number in full.

Written here, not by a library: those at hand (HiGHS, Pyomo) write float64, rename rows, or write
no comments. The constant of the objective is the fixed variable ``constant``: that means the same
to all readers, while a constant term, or the sign of an objective's right-hand side in MPS, does
not. The bytes depend on program and comments only.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from formulations.exchange.exact_program import ExactProgram

#: The variable that carries the objective's constant: it is fixed to 1.
CONSTANT = "constant"
OBJECTIVE = "obj"
#: Longest line; some readers cut at 255 characters.
_WIDTH = 120


def program_text(program: ExactProgram, format_: str, comments: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a file.

    Parameters
    ----------
    program : ExactProgram
        The program.
    format_ : str
        One of `FORMATS`.
    comments : iterable of str
        Lines for its head.
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
    # An objective without terms is not read by all.
    has_constant = bool(program.constant) or not costs
    if has_constant:
        costs.append((program.constant, CONSTANT))
    yield from _filled(f" {OBJECTIVE}:", map(_term, costs))
    yield "Subject To"
    for r, name in enumerate(program.row_names):
        terms = (_term((a, names[j])) for j, a in program.terms(r))
        yield from _filled(f" {name}:", [*terms, _side(program, r)])
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


def _side(program: ExactProgram, r: int) -> str:
    kind, number = _row_kind(program, r)
    return f"{dict(L='<=', G='>=', E='=')[kind]} {number}"


def _row_kind(program: ExactProgram, r: int) -> tuple[str, int]:
    """Return L, G or E, and the right-hand side."""
    lower, upper = program.row_lower[r], program.row_upper[r]
    if upper is not None and lower in (None, upper):
        return ("L" if lower is None else "E"), upper
    # No program here has a row with two different sides, or none.
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
    """Yield a head and words on lines of limited length."""
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
    # Integers without bounds are binary to some readers, so all of theirs are written.
    if lower is None:
        yield f" {'FR' if upper is None else 'MI'} BOUND {name}"
    elif lower or program.integral[j]:
        yield f" LO BOUND {name} {lower}"
    if upper is not None:
        yield f" UP BOUND {name} {upper}"
    elif program.integral[j]:
        yield f" PL BOUND {name}"


#: Formats by the end of a file's name.
FORMATS: dict[str, Callable[[ExactProgram, Iterable[str]], Iterator[str]]] = {
    "lp": _lp_lines,
    "mps": _mps_lines,
}
