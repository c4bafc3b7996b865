"""``python -m benchmarks``: run and report studies of speed, one row at a time on one core.

A benchmark is a study file in this folder. Rows, keys, stores and reports are those of
`bfio.studies`. This command selects the rows to measure.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compare_table import DATA, measure_table
from benchmarks.library.command import add_library
from benchmarks.readme import write_all
from benchmarks.results_command import add_results
from benchmarks.trace_cuts import CUTS, make_cuts
from bfio.cli.command import BAD_INPUT, DONE, INTERRUPTED, OneLineParser, say
from bfio.cli.commands.study import StudyProgress
from bfio.cli.options import add_action, add_by_usage
from bfio.common.provenance import ROOT
from bfio.studies.report.markdown import markdown_tables, parsed_records, records_csv, whole
from bfio.studies.report.page import write_report
from bfio.studies.results import Results
from bfio.studies.row import Row, Value
from bfio.studies.runner import StudyRunOptions, run_study, stored_results
from bfio.studies.study import Grid, Study
from bfio.studies.study_file import read_study
from formulations.arrays import integer
from formulations.errors import InputError, did_you_mean
from formulations.words import counted

#: Exit status if rows failed or contradict each other.
ROWS_FAILED = 1
FILES = Path(__file__).parent
#: Largest number of runs for the warm steps. More steps come from the same runs.
_RUNS = 10
_DESCRIPTION = "Measure speeds as rows of studies, and report them; see benchmarks/README.md."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    try:
        args = _parser().parse_args(argv)
        status: int = args.act(args)
    except InputError as error:
        return _say(f"error: {error}", BAD_INPUT)
    except OSError as error:
        return _say(f"error: {error.filename or 'output'}: {error.strerror or error}", BAD_INPUT)
    except KeyboardInterrupt:
        return _say(
            "interrupted; finished rows are kept, and the same command resumes", INTERRUPTED
        )
    return status


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="python -m benchmarks", description=_DESCRIPTION)
    chooser = parser.add_subparsers(metavar="COMMAND", required=True)
    add = partial(add_action, chooser)
    add("list", _list, "list all benchmarks with their questions")
    add("readme", _readme, "regenerate the tables of all READMEs from the committed results")
    compared = add("compare", _compare, "measure the comparison table of the README again")
    traces = {"--data DIR": "folder of trace files (default %(default)s)"}
    add_by_usage(compared, traces, type=Path, default=DATA)
    add_results(chooser)
    add_library(
        chooser.add_parser("library", help="build and improve the library of instances"), DATA
    )
    cuts = add("cuts", _cuts, "make trace cuts from published trace files")
    source = {"--from DIR": "folder of the published files (docs/trace-cuts.md)"}
    add_by_usage(cuts, source, dest="source", type=Path, required=True)
    target = {"--to DIR": "folder of the cuts (default %(default)s)"}
    add_by_usage(cuts, target, type=Path, default=DATA)
    text = "measure rows that are not stored yet"
    _add_choice(add("run", _run, text, description=text))
    text = "report the stored rows: tables on stdout, an HTML page in the folder"
    _add_choice(add("report", _report, text, description=text))
    return parser


def _add_choice(parser: argparse.ArgumentParser) -> None:
    add = partial(add_by_usage, parser)
    add({"names NAME": "benchmarks by name or pattern, e.g. 'steps*'"}, nargs="+")
    add({"--smoke": "measure the small size of each benchmark"})
    out = {"--out DIR": "folder in which rows are stored (default %(default)s)"}
    add(out, type=Path, default=ROOT / "out" / "benchmarks")
    text = "only rows with TEXT in an argument (repeatable)"
    add({"--only TEXT": text}, action="append", default=[])
    add({"--instances N": "warm steps per group; above 10 rounded up to tens"}, type=int)
    add({"--time-limit SECONDS": "time limit of one solve [s]"}, type=float)
    add({"--methods A,B": "methods or policies to measure"})
    add({"--seed N": "add N to all seeds"}, type=int, default=0)
    add({"--data DIR": "folder of trace files"}, type=Path)


def _list(args: argparse.Namespace) -> int:
    names = _names()
    for name in names:
        print(f"{name:{max(map(len, names))}}  {read_study(FILES / f'{name}.toml').question}")
    return DONE


def _readme(args: argparse.Namespace) -> int:
    write_all()
    return DONE


def _compare(args: argparse.Namespace) -> int:
    print(measure_table(args.data))
    write_all()
    return DONE


def _cuts(args: argparse.Namespace) -> int:
    failures = make_cuts(args.source, args.to, CUTS)
    for failure in failures:
        _say(f"error: {failure}", BAD_INPUT)
    return BAD_INPUT if failures else DONE


def _run(args: argparse.Namespace) -> int:
    failed = 0
    for study in _studies(args):
        with StudyProgress(lambda: False) as progress:
            results = run_study(
                study,
                args.out / f"{study.name}.sqlite",
                StudyRunOptions(jobs=1, retry=True),
                on_start=progress.start,
                on_row=progress.add,
            )
        failed += len(results.tasks) - len(results.done)
        failed += sum(_say(line, 1) for line in contradictions(results.done))
    return (
        _say(f"{counted(failed, 'row')} failed: see the report", ROWS_FAILED) if failed else DONE
    )


def _report(args: argparse.Namespace) -> int:
    for study in _studies(args):
        store = args.out / f"{study.name}.sqlite"
        results = stored_results(study, store, "python -m benchmarks run")
        write_report(results, args.out / study.name)
        print(f"# {study.name}\n\n{_counts(results)}\n")
        print(whole(markdown_tables(study, parsed_records(records_csv(results)))))
    return DONE


def _counts(results: Results) -> str:
    """Return the row counts by status, and the count of refuted claims, as text."""
    counts = [f"{number} {status}" for status, number in results.counts().items() if number]
    counts += [f"{len(refuted_claims(results.done))} claims of optimality refuted"]
    told = ", ".join([*counts, f"{results.missing} missing"])
    return f"{counted(len(results.tasks), 'row')}: {told}"


def _names() -> list[str]:
    return sorted(path.stem for path in FILES.glob("*.toml"))


def _studies(args: argparse.Namespace) -> list[Study]:
    """Return the benchmarks chosen by the arguments, each reduced to the chosen rows.

    Raises
    ------
    InputError
        If a pattern matches no benchmark, or no row is left.
    """
    names: dict[str, None] = {}
    for pattern in args.names:
        matching = [name for name in _names() if fnmatchcase(name, pattern)]
        if not matching:
            remedy = f"{did_you_mean(pattern, _names())}see python -m benchmarks list"
            raise InputError(pattern, "benchmark does not exist", remedy)
        names |= dict.fromkeys(matching)
    return [chosen_rows(read_study(FILES / f"{name}.toml"), args) for name in names]


def chosen_rows(study: Study, args: argparse.Namespace) -> Study:
    """Return the study reduced to the rows chosen by the arguments.

    Raises
    ------
    InputError
        If there are none, or an option is out of range.
    """
    if args.time_limit is not None and not 0 < args.time_limit < float("inf"):
        raise InputError("--time-limit", f"{args.time_limit} s is not > 0", "give a time > 0")
    sized = (study.small() if args.smoke else study).with_seed(integer(args.seed, "--seed"))
    axes = _chosen_axes(args)
    grids = [Grid({n: axes.get(n, v) for n, v in grid.axes.items()}) for grid in sized.grids]
    fixed = dict(sized.fixed)
    if args.time_limit is not None and "time_limit" in fixed:
        fixed["time_limit"] = args.time_limit
    rows = replace(sized, grids=grids, fixed=fixed, is_small=True).rows()
    rows = [row for row in rows if all(_holds(row, text) for text in args.only)]
    if not rows:
        what = f"no row of {study.name} contains all these texts"
        raise InputError("--only", what, "omit the option, or use other texts")
    return sized.part(rows, folder=args.data or study.folder)


def _chosen_axes(args: argparse.Namespace) -> dict[str, list[Value]]:
    """Return the axes that arguments replace, by name."""
    axes: dict[str, list[Value]] = {}
    if args.methods is not None:
        methods = [name for name in args.methods.split(",") if name]
        axes |= {"method": methods, "policy": methods}
    if args.instances is not None:
        count = integer(args.instances, "--instances", minimum=1)
        runs, warm = min(count, _RUNS), -(-count // _RUNS)
        axes["seed"] = [args.seed + run for run in range(runs)]
        axes["moment"] = ["cold", *(f"warm-{k}" for k in range(1, warm + 1))]
    return axes


def _holds(row: dict[str, Value], text: str) -> bool:
    return any(text in str(value) for value in row.values())


def contradictions(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each proven bound above the checked answer of another method.

    Different proven optima of one problem count too.
    """
    for problem, same in _by_problem(rows):
        for prover in same:
            bound = prover.values["bound"]
            for other in same:
                if bound is not None and _attains_less(other, bound):
                    yield (
                        f"problem {problem}: {prover.task.arguments['method']} proves at least "
                        f"{bound}, {other.task.arguments['method']} attains "
                        f"{other.values['objective']}"
                    )


def refuted_claims(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with a claimed optimum that is worse than another row's checked answer."""
    return [
        row
        for _, same in _by_problem(rows)
        for row in same
        if row.values["claims_optimum"]
        and any(_attains_less(other, row.values["objective"]) for other in same)
    ]


def _by_problem(rows: Sequence[Row]) -> Iterator[tuple[Value, list[Row]]]:
    groups: dict[Value, list[Row]] = {}
    for row in rows:
        if "problem" in row.values:
            groups.setdefault(row.values["problem"], []).append(row)
    yield from groups.items()


def _attains_less(row: Row, bound: Any) -> bool:
    objective: Any = row.values["objective"]
    return objective is not None and bound is not None and objective < bound


def _say(line: str, status: int) -> int:
    say(line)
    return status
