"""The comments at the head of a file: what it is, and how to bring a solution back."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from formulations.exchange.exact_program import ExactProgram
from formulations.exchange.write import CONSTANT
from formulations.standard_form import EXACT_LIMIT
from formulations.words import Words

_WIDTH = 100


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
    """Return the comments of a program's file.

    Parameters
    ----------
    program : ExactProgram
        What is written.
    words : Words
        What it says.
    digest : str
        Of the problem's data.
    version : str
        Of the toolkit, with its commit.
    back : str
        The command that reads a solution.
    criterion : str
        Which of several objectives it is.
    groups : sequence of str
        What each kind of the program stands for.
    prices : sequence of str
        What its dual prices mean, if it is continuous.
    """
    lines = [
        f"{words.title}, written by {version}",
        f"source: {words.source}",
        f"instance: {digest} (SHA-256 of its data, first 16 digits)",
        f"minimised: {words.objective}{f', here {criterion}' if criterion else ''}",
        f"value of the model = {program.multiplier} * objective of this file",
        *_about_constant(program),
        *_about_numbers(program),
        "variables (indices from 0; a name x[3,1] of the statement is x(3,1) here):",
        *(f"  {meaning}" for meaning in _present(program, words)),
        *(f"  kind {c} = {members}" for c, members in enumerate(groups)),
        *prices,
        f"bring a solution back: {back}",
    ]
    return [part for line in lines for part in _wrapped(line)]


def _about_constant(program: ExactProgram) -> Iterator[str]:
    if program.constant:
        yield f"  its constant {program.constant} is carried by '{CONSTANT}', fixed to 1"


def _about_numbers(program: ExactProgram) -> Iterator[str]:
    yield "all numbers are whole and exact"
    if program.largest >= EXACT_LIMIT:
        yield (
            f"  (up to {program.largest:.3e}: solvers that read float64 round those beyond 2^53)"
        )
    for name, factor in zip(program.row_names, program.row_factors, strict=True):
        if factor != 1:
            yield f"  row {name} is multiplied by {factor}"


def _present(program: ExactProgram, words: Words) -> list[str]:
    families = {name.partition("(")[0] for name in program.column_names}
    return [meaning for family, meaning in words.variables.items() if family in families]


def _wrapped(line: str) -> list[str]:
    indent = len(line) - len(line.lstrip()) + 2
    return wrap(line, _WIDTH, subsequent_indent=" " * indent) or [""]
