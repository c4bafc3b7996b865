"""Every case by name."""

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache

from benchmarks.case import Case
from benchmarks.decisions.cases import decision_cases
from benchmarks.engine.cases import engine_cases
from benchmarks.step_solvers.cases import step_cases
from formulations.errors import InputError


@cache
def cases() -> dict[str, Case]:
    """Return all cases, in the order ``list`` prints them."""
    return {case.name: case for case in (*step_cases(), *engine_cases(), *decision_cases())}


def find_cases(patterns: Sequence[str]) -> list[Case]:
    """Return the cases that names or shell patterns (``steps-*``) choose, each once.

    Raises
    ------
    InputError
        If a pattern chooses none.
    """
    chosen: dict[str, Case] = {}
    for pattern in patterns:
        matching = {n: case for n, case in cases().items() if fnmatchcase(n, pattern)}
        if not matching:
            close = difflib.get_close_matches(pattern, cases(), n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise InputError(pattern, "no such case", f"{hint}see python -m benchmarks list")
        chosen |= matching
    return list(chosen.values())
