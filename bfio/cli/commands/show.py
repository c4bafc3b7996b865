"""``bfio show``: a problem's program with its sizes, and the answer of every method."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from bfio.cli import so_far
from bfio.cli.command import DONE, Command
from bfio.cli.options import add_by_usage, add_common, add_time_limit
from bfio.cli.output import (
    interruption,
    print_json,
    print_table,
    progress_bar,
    read_problem,
)
from bfio.cli.problem_command import add_service_limits, limited_program
from bfio.common.text import number
from formulations.errors import CapabilityError, naming

if TYPE_CHECKING:
    from formulations.statement import Statement

#: Seconds for each method by default.
_SECONDS = 10.0
#: Most nonzeros of a program whose constraints are described.
_MOST_STATED = 200_000
_DESCRIPTION = """\
Show the program of a problem, with its sizes, and what every method answers: value, bound, status,
time and proof, side by side. FILE is any file of bfio solve, hindsight, makespan, pause, fluid,
capacity or batch --state, or a second program of a step ("-" reads stdin).

  bfio show step.json
  bfio show requests.json --methods exact,cp-sat,lp --time-limit 60
  bfio show load.json --program margin
  bfio show load.json --latency 3

status: "optimal, proven" if a bound derived in integers or fractions equals the value; "solved,
bound in floats" if only a floating-point solver claims the optimum; "stopped, gap x %" if a limit
came first; "feasible, gap x %" if the method ended without a proof; "bound only" for lp, the
linear relaxation.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    table = {
        "file FILE": "problem (.json)",
        "--methods A,B": "the methods to run (default: all that take the problem)",
        "--program NAME": "of a fluid file: throughput (default), margin, equilibrium, wait, "
        "nested, segments",
    }
    add_by_usage(parser, table)
    add_service_limits(parser)
    add_time_limit(parser, default=f"{_SECONDS:g}")
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    from bfio.programs import kind_of
    from formulations.problem_data import parse_json

    document = read_problem(args.file, parse_json)
    kind = kind_of(document, args.file, args.program)
    with naming(args.file):
        problem = kind.read(document)
        program = kind.load("program")(problem)
    methods: Sequence[str] = kind.methods
    solve: Callable[..., Any] = partial(kind.solved, problem)
    if (limited := limited_program(args, problem, kind)) is not None:
        program, methods, solve = limited, ("exact",), limited.solved
    seconds = _SECONDS if args.time_limit is None else args.time_limit
    chosen = args.methods.split(",") if args.methods else methods
    answers: list[tuple[dict[str, Any], list[str]]] = []

    def show(sizes: _Sizes | None, why: str = "") -> None:
        """Print the answers, with the sizes of the program unless interrupted."""
        if args.json:
            written = {}
            if sizes is not None:
                written = {"variables": dict(sizes[0]), "constraints": dict(sizes[1])}
            print_json(
                {
                    "kind": kind.command,
                    "title": program.words.title,
                    "source": program.words.source,
                    **written,
                    "answers": [answer for answer, _ in answers],
                }
                | interruption(sizes is None)
            )
            return
        print(f"{program.words.title}\n{program.words.source}\n")
        # Show the value itself: "maximise x" if the program minimises the negative of x.
        goal = program.words.objective
        if program.maximised:
            goal = goal.removeprefix("the negative of ")
        criterion = getattr(problem, "objective", None) or getattr(program, "objective", None)
        here = "" if criterion is None else f", here {criterion}"
        print(f"{'maximise' if program.maximised else 'minimise'}  {goal}{here}")
        if why:
            print(f"The program is not written: {why}.")
        elif sizes is not None:
            print(*_described(program, *sizes), sep="\n")
        head = ["method", "value", "bound", "status", "time\n[ms]"]
        print_table("\nAnswers", head, [row for _, row in answers])
        for proof, proven_by in _proofs(answers).items():
            print(f"proof of {', '.join(proven_by)}: {proof}")
        print(f"best: {_solution(answers, maximised=program.maximised)}")

    for answer in _answers(chosen, lambda method: solve(method, seconds, args.seed)):
        answers.append(answer)
        so_far.keep_shown(lambda: show(None), at_once=True)
    show(*_sizes(program))
    return DONE


def _answers(
    methods: Sequence[str], solve: Callable[[str], Any]
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Yield the document and the table row of each method's answer."""
    from bfio.programs import value_of

    with progress_bar() as bar:
        task = bar.add_task("methods", total=len(methods))
        for method in methods:
            try:
                result = solve(method)
            except CapabilityError as error:
                refused = f"refused: {error.what}; {error.remedy}"
                yield {"method": method, "error": str(error)}, [method, "–", "–", refused, "–"]
            else:
                scale = getattr(result, "scale", 1)
                shown = [_text(value, scale) for value in (value_of(result), result.bound)]
                row = [method, *shown, result.status, number(1e3 * result.seconds)]
                yield result.to_mapping() | {"method": method, "status": result.status}, row
            bar.advance(task)


def _proofs(answers: list[tuple[dict[str, Any], list[str]]]) -> dict[str, list[str]]:
    """Return the names of the methods for each distinct text of proof."""
    proofs: dict[str, list[str]] = {}
    for answer, _ in answers:
        if proof := answer.get("proof"):
            proofs.setdefault(proof, []).append(answer["method"])
    return proofs


def _text(value: Any, scale: int) -> str:
    """Return a value in the unit of the problem: integers in full, others with 9 digits."""
    if value is None:
        return "–"
    exact = Fraction(value) / scale
    return f"{exact.numerator:,}" if exact.denominator == 1 else number(float(exact), 9)


_Sizes = tuple[Counter[str], Counter[str]]
_NONE: _Sizes = (Counter(), Counter())


def _sizes(program: "Statement[Any]") -> tuple[_Sizes, str]:
    """Return the numbers of variables and constraints by family, and why there are none, or ""."""
    if program.settled("exact") is not None:
        return _NONE, "nothing is left to choose"
    try:
        form = program.standard_form
    except CapabilityError as error:
        return _NONE, error.what
    names = (form.column_names, form.row_names)
    variables, constraints = (Counter(n.partition("[")[0] for n in family) for family in names)
    return (variables, constraints), ""


def _described(
    program: "Statement[Any]", variables: Counter[str], constraints: Counter[str]
) -> Iterator[str]:
    """Yield a line for each family of variables and constraints."""
    yield f"variables ({sum(variables.values()):,})"
    for name, count in variables.items():
        yield f"  {count:>9,}  {program.words.variables.get(name, name)}"
    # Building the Pyomo model is slow, so constraints of large programs have no description.
    is_small = program.standard_form.matrix.nnz <= _MOST_STATED
    yield f"constraints ({sum(constraints.values()):,})"
    for name, count in constraints.items():
        stated = program.model.component(name).doc or "" if is_small else ""
        yield f"  {count:>9,}  {name:<15} {stated}".rstrip()


def _solution(answers: list[tuple[dict[str, Any], list[str]]], *, maximised: bool) -> str:
    """Return the best value of all methods, and the methods that found it, as text."""
    found = [(answer, row[1]) for answer, row in answers if row[1] != "–"]
    found = [(answer, shown) for answer, shown in found if not answer["violations"]]
    if not found:
        return "no solution found"
    sign = -1 if maximised else 1
    best = min(found, key=lambda each: sign * each[0].get("objective", each[0].get("value", 0)))[1]
    names = ", ".join(answer["method"] for answer, shown in found if shown == best)
    return f"{best} by {names}"


COMMAND = Command(
    "show",
    "the integer program of a problem file, and every method's answer side by side",
    _DESCRIPTION,
    _add_arguments,
    _run,
)
