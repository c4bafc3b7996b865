"""Build the command of a formulation: read a problem from a file, solve it, print the answer."""

import argparse
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from bfio.cli.command import DONE, NOTHING_FOUND, Command
from bfio.cli.exchange import add_exchange, exchange, is_exchange
from bfio.cli.options import add_common, add_time_limit
from bfio.cli.output import print_json, read_problem
from bfio.cli.so_far import View, begin
from bfio.programs import ProgramKind, kind_of
from formulations.errors import InputError

METHODS = "exact (default), cp-sat, highs, pyomo[:SOLVER], brute-force, lp (bound only)"


def problem_command(
    name: str,
    summary: str,
    description: str,
    *,
    kind: ProgramKind,
    file: str = "problem file (.json)",
    methods: str = METHODS,
    more_arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
    overrides: tuple[str, ...] = (),
    passed: tuple[str, ...] = (),
    details: Callable[[Any], Mapping[str, object]] = lambda problem: {},
    lines: Callable[[Any, Any], list[str]] = lambda problem, result: [result.summary()],
) -> Command:
    """Return the command of a formulation.

    Parameters
    ----------
    name, summary, description : str
        See `Command`.
    kind : ProgramKind
        Where problem, program and solver stand; without a program, no files for other solvers.
    file : str
        Content of the file, for the help text.
    methods : str
        All methods, for the help text.
    more_arguments : callable
        Adds further arguments.
    overrides : tuple of str
        Names of additional arguments that replace fields of the document.
    passed : tuple of str
        Names of additional arguments that ``solve`` takes as keywords.
    details : callable
        Returns further fields of the JSON answer, given the problem.
    lines : callable
        Returns the text lines of the answer, given problem and result.
    """

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help=file)
        parser.add_argument("--method", metavar="NAME", help=methods)
        more_arguments(parser)
        add_time_limit(parser)
        if kind.program:
            add_exchange(parser)
        add_common(parser)

    def run(args: argparse.Namespace) -> int:
        is_exchanged = bool(kind.program) and is_exchange(args)
        # Load the modules before the time limit starts.
        solved, _ = kind.load("solve"), kind.load("problem")

        def told(result: Any) -> tuple[dict[str, Any], Callable[[], list[str]], int]:
            document = result.to_mapping() | details(data)
            return document, lambda: lines(data, result), status_of(result)

        method = args.method or "exact"
        deadline = begin(args, method, View(args, told))
        given = {key: value for key in overrides if (value := getattr(args, key)) is not None}
        data = read_problem(args.file, lambda text: _parsed(text, kind, given))
        if is_exchanged:
            return exchange(args, kind.load("program")(data), name, details(data))
        how = {key: getattr(args, key) for key in ("seed", *passed)}
        result = solved(data, method=method, time_limit=deadline, **how)
        document, text, status = told(result)
        if args.json:
            print_json(document)
        else:
            print("\n".join(text()))
        return status

    return Command(name, summary, description, add_arguments, run)


def status_of(result: Any) -> int:
    """Return the exit status for a result."""
    from formulations.results import Termination

    settled = (Termination.INFEASIBLE, Termination.RELAXED)
    answered = result.objective is not None or result.termination in settled
    return DONE if answered else NOTHING_FOUND


def _parsed(text: str, kind: ProgramKind, given: Mapping[str, object]) -> Any:
    from formulations.problem_data import parse_json

    document = parse_json(text)
    if isinstance(document, dict):
        document = {**document, **given}
    try:
        return kind.load("problem").from_mapping(document)
    except InputError:
        other = kind
        with suppress(InputError):
            other = kind_of(document, "")
        if other is kind:
            raise
        what = f"has the fields of {other.load('program').words.title}"
        remedy = f"use bfio {other.command} FILE, or bfio.solve in Python"
        raise InputError("document", what, remedy) from None
