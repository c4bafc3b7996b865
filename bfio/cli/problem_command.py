"""Commands of formulations: read a problem from a file, solve or export it, print the answer."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfio.cli.command import DONE, NOTHING_FOUND, Command
from bfio.cli.options import add_by_usage, add_common, add_time_limit
from bfio.cli.output import print_answer, read_problem, read_text
from bfio.cli.so_far import View, begin
from bfio.common.options import flag
from bfio.programs import ProgramKind, kind_of
from formulations.errors import InputError, naming
from formulations.words import counted

if TYPE_CHECKING:
    from formulations.exchange import SolutionFile
    from formulations.fluid import FluidObjective, FluidProblem, LimitedProgram
    from formulations.statement import Statement


def add_exchange(parser: argparse.ArgumentParser) -> None:
    """Add ``--write``, ``--overwrite`` and ``--read-solution``."""
    group = parser.add_argument_group("other solvers (docs/exchange.md)")
    either = group.add_mutually_exclusive_group()
    table = {
        "--write FILE": "write the program (.lp or .mps) instead of solving it",
        "--read-solution FILE": "check a solution of another solver: files of Gurobi, CPLEX, "
        "SCIP, HiGHS, CBC, or lines NAME VALUE",
    }
    add_by_usage(either, table)
    add_by_usage(group, {"--overwrite": "replace an existing FILE of --write"})


def is_exchange(args: argparse.Namespace) -> bool:
    """Return whether a program is to be written or a solution read; reject options without effect.

    Raises
    ------
    InputError
        If such an option is given.
    """
    asked = args.write is not None or args.read_solution is not None
    if args.overwrite and args.write is None:
        raise InputError("--overwrite", "has no effect without --write", "add --write FILE")
    for name in ("method", "time_limit", "work_limit", "second") if asked else ():
        if getattr(args, name, None) is not None:
            what = "has no effect with --write or --read-solution"
            raise InputError(flag(name), what, "omit it")
    return asked


def exchange(
    args: argparse.Namespace,
    program: "Statement[Any]",
    command: str,
    details: Mapping[str, object] | None = None,
    *,
    options: str = "",
    name: str = "",
) -> int:
    """Write a program, or check a solution of it; return the exit status.

    Parameters
    ----------
    args : argparse.Namespace
        With ``file``, ``json`` and the arguments of `add_exchange`.
    program : Statement
        The program.
    command : str
        The command that reads the solution.
    details : mapping, optional
        Further fields of the JSON answer on a solution.
    options : str
        Further arguments that identify the program, if a file has several.
    name : str
        Name of a linear program in the JSON answer; by default the command.
    """
    from bfio.programs import write_statement

    if args.read_solution is not None:
        if program.fractional:
            return _read_linear(args, program, name or command)
        return _read(args, program, command, details or {})
    back = f"bfio {command} {Path(args.file).name}{options} --read-solution SOLUTION"
    answer = write_statement(program, args.write, back, overwrite=args.overwrite)
    nouns = {"columns": "column", "rows": "row", "entries": "entry"}
    sizes = ", ".join(counted(answer[key], noun) for key, noun in nouns.items())
    text = (
        f"{answer['program']}: {sizes}, written to {answer['written']}\n"
        f"value of the model = {answer['multiplier']} * objective of the file\n"
        f"bring a solution back: {back}"
    )
    return print_answer(args, answer, lambda: print(text))


def read_solution(name: str) -> "SolutionFile":
    """Parse a solution file; errors name the file."""
    from formulations.exchange import parse_solution

    text = read_text(name)
    with naming(name):
        return parse_solution(text)


def _read(
    args: argparse.Namespace,
    program: "Statement[Any]",
    command: str,
    details: Mapping[str, object],
) -> int:
    from formulations.exchange.solution import judge
    from formulations.results import own_solver

    name, file = args.read_solution, read_solution(args.read_solution)
    with naming(name):
        judged = judge(program, file)
    result = judged.result
    status = "infeasible"
    if result.objective is not None and not judged.in_words:
        status = "optimal" if result.is_optimal else "feasible, unproven"
    answer: dict[str, Any] = result.to_mapping() | dict(details)
    answer |= {
        "status": status,
        "solver": own_solver(checked=True),
        "read": said_by(name, file) | {"objective": str(judged.file_objective)},
        "violated": list(judged.in_words.values()),
        "notes": list(judged.notes),
    }
    if status == "infeasible":
        lines = violated_lines(answer["violated"])
    else:
        scale = getattr(result, "scale", 1)
        scaled = "" if scale == 1 else f", both scaled by {scale}"
        why = "not proven, because no known bound equals the objective"
        if result.proof:
            why = f"proven by {result.proof}"
        lines = [
            f"objective {result.objective}, bound {result.bound}{scaled}",
            f"checked in integers; {why}",
            result.solution_text(),
        ]
    lines += [f"note: {note}" for note in answer["notes"]]
    if status == "feasible, unproven":
        lines.append(f"bfio {command} {args.file} looks for a proof")
    return _answered(args, file, answer, lines)


def _answered(
    args: argparse.Namespace, file: "SolutionFile", answer: dict[str, Any], lines: list[str]
) -> int:
    """Print the verdict on a solution file as JSON or text; return the exit status."""
    head = f"{args.read_solution} ({file.format}): {answer['status']}"
    print_answer(args, answer, lambda: print(head, *lines, sep="\n"))
    return NOTHING_FOUND if answer["status"] == "infeasible" else DONE


def said_by(name: str, file: "SolutionFile") -> dict[str, object]:
    """Return objective and status claimed by a solution file; they are reported, not trusted."""
    return {
        "file": name,
        "format": file.format,
        "claimed_objective": file.claimed,
        "claimed_status": file.status,
    }


#: Largest number of violations shown as text.
_MOST = 10


def violated_lines(told: Sequence[str]) -> list[str]:
    """Return the violated constraints as text lines, at most `_MOST`; the JSON has all."""
    more = [f"{len(told) - _MOST} more, see --json"] if len(told) > _MOST else []
    return [f"violated: {sentence}" for sentence in told[:_MOST]] + more


def _read_linear(args: argparse.Namespace, program: "Statement[Any]", name: str) -> int:
    from bfio.common.text import number
    from formulations.exchange.solution import judge_linear
    from formulations.fluid.solver import DUALITY
    from formulations.results import own_solver
    from formulations.scalars import plain_number

    file = read_solution(args.read_solution)
    with naming(args.read_solution):
        judged = judge_linear(program, file)
    status = "feasible" if judged.largest_excess == 0 else "feasible within 1e-6"
    if judged.violations:
        status = "infeasible"
    elif judged.is_exact_optimum:
        status = "optimal"
    answer: dict[str, Any] = {
        "program": name,
        "status": status,
        "value": plain_number(judged.value),
        "optimum": plain_number(judged.optimum),
        "describes_optimum": judged.describes_optimum,
        "largest_excess": float(judged.largest_excess),
        "violated": list(judged.in_words.values()),
        "exact": {
            "value": str(judged.value),
            "optimum": None if judged.optimum is None else str(judged.optimum),
        },
        "solver": own_solver(checked=True),
        "proof": None if judged.optimum is None else DUALITY,
        "read": said_by(args.read_solution, file),
    }
    lines = violated_lines(answer["violated"])
    if answer["optimum"] is None:
        lines.append(f"value {number(answer['value'])}; the program has no solution")
    else:
        lines.append(
            f"value {number(answer['value'])}, optimum {number(answer['optimum'])} "
            f"= {judged.optimum}, proven by {DUALITY}"
        )
        if judged.describes_optimum:
            lines.append("the values describe a vertex that is, in exact arithmetic, an optimum")
    return _answered(args, file, answer, lines)


def exchange_fluid(
    args: argparse.Namespace,
    problem: "FluidProblem",
    kind: "ProgramKind",
    objective: "FluidObjective",
    limited: "LimitedProgram | None" = None,
) -> int:
    """Write a program of a fluid problem, or check a solution of it; return the exit status."""
    options = kind.options
    options += "" if objective.value == "stages" else f" --objective {objective.value}"
    if limited is not None:
        options += "".join(f" {flag(key)} {text}" for key, text in given_limits(args).items())
        return exchange(args, limited, "fluid", options=options, name=kind.name)
    made = kind.load("made")(problem) if kind.made else problem
    chosen = {"objective": objective} if kind.name == "throughput" else {}
    program = kind.load("program")(made, **chosen)
    return exchange(args, program, "fluid", options=options, name=kind.name)


def add_service_limits(parser: argparse.ArgumentParser) -> None:
    """Add ``--latency`` and ``--ttft``."""
    table = {
        "--latency S": "limit on the mean latency of every admitted class [s]",
        "--ttft S": "limit on its mean time to first token [s]",
    }
    add_by_usage(parser, table)


def given_limits(args: argparse.Namespace) -> dict[str, str]:
    """Return the given limits of `add_service_limits` by name."""
    return {key: text for key in ("latency", "ttft") if (text := getattr(args, key)) is not None}


def limited_program(
    args: argparse.Namespace, problem: Any, kind: "ProgramKind", **objective: "FluidObjective"
) -> "LimitedProgram | None":
    """Return the throughput program under the given limits; None without limits.

    Raises
    ------
    InputError
        If the program of the file is another one, or it has several workers.
    """
    from formulations.fluid import LimitedProgram, ServiceLimits

    limits: dict[str, Any] = given_limits(args)
    if limits and kind.name != "throughput":
        what = f"program {kind.name or kind.command} has no such limit"
        raise InputError(flag(next(iter(limits))), what, "omit it")
    if not limits:
        return None
    with naming(args.file, "workers"):
        return LimitedProgram(problem, ServiceLimits(**limits), **objective)


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
        add_by_usage(parser, {"file FILE": file, "--method NAME": methods})
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
        print_answer(args, document, lambda: print(*text(), sep="\n"))
        return status

    return Command(name, summary, description, add_arguments, run)


def status_of(result: Any) -> int:
    """Return the exit status for a result."""
    from formulations.results import Termination

    settled = (Termination.INFEASIBLE, Termination.RELAXED)
    answered = result.objective is not None or result.termination in settled
    answered = answered and not result.violations
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
