"""``bfio show``: a problem's program with its sizes, and the answer of every method."""

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bfio.cli.command import DONE, Command
from bfio.cli.options import add_common, add_time_limit
from bfio.cli.output import print_json, print_table, progress_bar, read_problem
from bfio.common.text import number
from formulations.errors import CapabilityError

if TYPE_CHECKING:
    from bfio.programs import ProgramKind
    from formulations.formulation import Formulation

#: Seconds for each method by default.
_SECONDS = 10.0
#: Most nonzeros of a program whose constraints are described.
_MOST_STATED = 50_000
_DESCRIPTION = """\
Show the integer program of a problem, with its sizes, and what every method answers: objective,
bound, status and time, side by side. FILE is any file of bfio solve, hindsight, makespan, pause or
fluid ("-" reads stdin).

  bfio show step.json
  bfio show requests.json --methods exact,cp-sat,lp --time-limit 60

status: "optimal, proven" if a bound derived in integers equals the objective; "solved, bound in
floats" if only a floating-point solver claims the optimum; "stopped, gap x %" if a limit came
first; "bound only" for lp, the linear relaxation.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="problem (.json)")
    parser.add_argument(
        "--methods", metavar="A,B", help="the methods to run (default: all that take the problem)"
    )
    add_time_limit(parser)
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    from bfio.programs import kind_of
    from formulations.problem_data import parse_json

    document = read_problem(args.file, parse_json)
    kind = kind_of(document, args.file)
    problem = kind.load("problem").from_mapping(document)
    program = kind.load("shown" if kind.shown else "program")(problem)
    seconds = _SECONDS if args.time_limit is None else args.time_limit
    chosen = args.methods.split(",") if args.methods else None
    answers = list(_answers(kind, problem, chosen, seconds, args.seed))
    sizes = _sizes(program)
    if args.json:
        print_json(
            {
                "kind": kind.command,
                "title": program.words.title,
                "source": program.words.source,
                "variables": dict(sizes[0]),
                "constraints": dict(sizes[1]),
                "answers": [answer for answer, _ in answers],
            }
        )
        return DONE
    print(f"{program.words.title}\n{program.words.source}\n")
    # Values are shown as people count them, so a negative that is minimised is maximised here.
    goal = program.words.objective.removeprefix("the negative of ")
    sense = "minimise" if goal == program.words.objective else "maximise"
    print(f"{sense}  {goal}")
    for text in _described(program, *sizes):
        print(text)
    head = ["method", "objective", "bound", "status", "time\n[ms]"]
    print_table("\nAnswers", head, [row for _, row in answers])
    print(f"best: {_solution(answers)}")
    return DONE


def _answers(
    kind: "ProgramKind", problem: Any, chosen: list[str] | None, seconds: float, seed: int
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Yield the document and the table row of each method's answer."""
    solve = kind.load("solve")
    methods = kind.methods if chosen is None else chosen
    with progress_bar() as bar:
        task = bar.add_task("methods", total=len(methods))
        for method in methods:
            try:
                result = solve(problem, method=method, time_limit=seconds, seed=seed)
            except CapabilityError as error:
                yield {"method": method, "error": str(error)}, [method, "–", "–", error.what, "–"]
            else:
                values = (_objective(result), result.bound)
                shown = ["–" if value is None else _text(value) for value in values]
                time = number(1e3 * result.seconds)
                yield (
                    result.to_mapping() | {"status": result.status},
                    [method, *shown, result.status, time],
                )
            bar.advance(task)


def _objective(result: Any) -> Any:
    """Return the objective of a result, or the value of a fluid program."""
    return getattr(result, "value", None) if hasattr(result, "value") else result.objective


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else number(float(value))


def _sizes(program: "Formulation[Any, Any, Any]") -> tuple[Counter[str], Counter[str]]:
    """Return the numbers of variables and of constraints by family; empty if not written."""
    if program.settled("exact") is not None:
        return Counter(), Counter()
    try:
        form = program.standard_form
    except CapabilityError:
        return Counter(), Counter()
    names = (form.column_names, form.row_names)
    variables, constraints = (Counter(n.partition("[")[0] for n in family) for family in names)
    return variables, constraints


def _described(
    program: "Formulation[Any, Any, Any]", variables: Counter[str], constraints: Counter[str]
) -> Iterator[str]:
    """Yield a line for each family of variables and constraints."""
    if not variables:
        yield "The program is not written: nothing is left to choose, or it is too large."
        return
    yield f"variables ({sum(variables.values()):,})"
    for name, count in variables.items():
        yield f"  {count:>9,}  {program.words.variables.get(name, name)}"
    # The statement is slow to make; large programs are listed by name alone.
    is_small = program.standard_form.matrix.nnz <= _MOST_STATED
    yield f"constraints ({sum(constraints.values()):,})"
    for name, count in constraints.items():
        stated = program.model.component(name).doc or "" if is_small else ""
        yield f"  {count:>9,}  {name:<15} {stated}".rstrip()


def _solution(answers: list[tuple[dict[str, Any], list[str]]]) -> str:
    """Return the best solution found, and the methods that found one as good."""
    found = [(answer, row[1]) for answer, row in answers if row[1] != "–"]
    found = [(answer, shown) for answer, shown in found if not answer["violations"]]
    if not found:
        return "no solution found"
    # Fluid answers, whose value is maximised, are all optimal.
    best = min(found, key=lambda each: each[0].get("objective", 0))[1]
    names = ", ".join(answer["method"] for answer, shown in found if shown == best)
    return f"objective {best} by {names}"


COMMAND = Command(
    "show",
    "the integer program of a problem file, and every method's answer side by side",
    _DESCRIPTION,
    _add_arguments,
    _run,
)
