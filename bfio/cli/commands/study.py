"""``bfio study``: run resumable parameter sweeps and report on their rows."""

import argparse
import shlex
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfio.cli.command import DONE, INTERRUPTED, NOTHING_FOUND, Command
from bfio.cli.options import add_action, add_by_usage, add_json
from bfio.cli.output import interruption, print_answer, print_json, progress_display
from formulations.errors import InputError
from formulations.named_objects import found_from
from formulations.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from bfio.studies.results import Results
    from bfio.studies.row import Row
    from bfio.studies.study import Study

#: Time between two progress lines if there is no terminal [s].
_LINE_SECONDS = 30.0


class StudyProgress:
    """Shows the progress of a study.

    Parameters
    ----------
    stopping : callable
        Returns whether the user has asked to stop.
    """

    def __init__(self, stopping: "Callable[[], bool]") -> None:
        from rich.console import Console
        from rich.progress import TextColumn

        self._stopping = stopping
        self._console = Console(stderr=True)
        self._counts: Counter[str] = Counter()
        self._total = self._done = 0
        self._has_said = False
        self._next_line = time.monotonic() + _LINE_SECONDS
        counts = TextColumn("{task.fields[counts]}", markup=False)
        self._bar = progress_display(self._console, counts)

    def __enter__(self) -> "Self":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def stops(self) -> bool:
        """Return whether the user has asked to stop, and print a message at the first time."""
        if self._stopping() and not self._has_said:
            self._has_said = True
            self.say(
                "rows being computed have one second to end; the others can be computed later"
            )
        return self._stopping()

    def start(self, results: "Results") -> None:
        """Show the rows that are stored already."""
        from bfio.studies.results import SEED_CHANGES_NOTHING

        self._total, self._done = len(results.tasks), len(results.rows)
        self._task = self._bar.add_task(
            results.study.name, total=results.missing, counts=f"{self._done} already stored"
        )
        for row in results.rows.values():
            self._count(row)
        if results.repeated:
            self.say(
                f"note: {results.repeated} of {self._total} rows differ from another row only "
                f"in the seed; {SEED_CHANGES_NOTHING}"
            )
        self._say(
            f"{results.study.name}: {self._done} of {counted(self._total, 'row')} already stored"
        )

    def add(self, row: "Row") -> None:
        """Count one more row."""
        self._count(row)
        self._done += 1
        self._bar.update(self._task, advance=1, counts=self._words())
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_SECONDS
            self._say(f"{self._done}/{self._total} rows; {self._words()}")

    def _count(self, row: "Row") -> None:
        self._counts["without result"] += not row.is_done
        self._counts["unproven"] += row.unproven > 0

    def _words(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in self._counts.items())

    def say(self, line: str) -> None:
        """Print a line above the progress bar, or alone if there is no bar."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _say(self, line: str) -> None:
        if not self._console.is_terminal:
            self.say(line)


#: Default folder of stores and reports.
_FOLDER = Path("out") / "studies"
_FORMATS = (
    "html: page and all files; markdown, latex (booktabs) or csv: only its tables, printed or "
    "written to --output (in a README only between <!-- table NAME --> and <!-- end -->)"
)
_KINDS = "list the kinds of rows, or the values of one kind"
#: Largest number of rows without a result that are shown.
_MAX_SHOWN = 5

_SUMMARY = "run resumable parameter sweeps, and report their results"
_DESCRIPTION = """\
Run a study. A study file defines the kind of its rows, which determines what a row computes, and
the grid of their arguments.

  bfio study run study.toml              compute the missing rows
  bfio study status study.toml           show the progress, also during a run
  bfio study report study.toml           one HTML page, tables, figures (PNG, SVG), CSV, Parquet
  bfio study export study.toml           CSV and Parquet only
  bfio study kinds [KIND]                list the kinds of rows, or the values of one kind

Each row is stored as soon as it is computed, so a new run computes only the missing rows.
A row that fails, hangs, crashes or runs out of memory does not affect other rows; it is stored and
counted with its status. Every action accepts --json and --seed. docs/studies.md describes study
files.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    chooser = parser.add_subparsers(metavar="ACTION", required=True, title="actions")
    for name, act, summary in (
        ("run", _run, "compute the missing rows"),
        ("status", _status, "show how many rows are computed, failed and missing"),
        ("report", _report, "write the report: HTML, figures, tables"),
        ("export", _export, "write the rows as CSV and Parquet"),
    ):
        how: dict[str, Any] = {"description": summary, "allow_abbrev": False}
        action = add_action(chooser, name, act, summary, **how)
        add = partial(add_by_usage, action)
        place = f"{_FOLDER}/NAME.sqlite"
        rows = {
            "file FILE": "study file (TOML), or module:NAME",
            "--store PATH": f"file in which rows are stored (default {place})",
            "--smoke": "use the small grid of the study",
        }
        add(rows)
        add_json(action)
        add({"--seed N": "add N to every argument named seed (default 0)"}, type=int, default=0)
        if name == "run":
            text = "number of processes, one thread each (default: one per core)"
            action.add_argument(
                "--jobs", "--workers", type=int, dest="jobs", metavar="N", help=text
            )
            add({"--cluster ADDRESS": "compute on a Dask cluster, e.g. tcp://host:8786"})
            add({"--retry": "compute rows again that have no result"})
            add({"--logs": "show the output of rows and solver logs"})
        if name in ("report", "export"):
            add({"--output PATH": "output folder (default STORE-report, beside the store)"})
        if name == "report":
            forms = ("html", "markdown", "latex", "csv")
            action.add_argument("--format", choices=forms, default="html", help=_FORMATS)
            text = "with markdown or latex: read this output of --format csv instead of the store"
            add({"--from FILE": text}, dest="records")
    how = {"description": _KINDS, "allow_abbrev": False}
    action = add_action(chooser, "kinds", _kinds, _KINDS, **how)
    add_by_usage(action, {"kind KIND": "a kind of rows, or module:NAME"}, nargs="?")
    text = "write the tables of values between the marks of this file"
    add_by_usage(action, {"--output FILE": text})
    add_json(action)


def _act(args: argparse.Namespace) -> int:
    """Run the chosen action; modules of the user are found in the folder of the study file."""
    file = getattr(args, "file", "")
    with found_from(Path(file).parent if file.endswith(".toml") else Path()):
        status: int = args.act(args)
        return status


def _run(args: argparse.Namespace) -> int:
    from bfio.cli.so_far import orderly_interrupt
    from bfio.studies.runner import StudyRunOptions, run_study

    chosen = StudyRunOptions(args.jobs, args.cluster, args.retry, args.logs)
    study, store = _study(args), _store(args)
    with orderly_interrupt() as asked, StudyProgress(asked) as progress:
        try:
            results = run_study(
                study,
                store,
                chosen,
                on_start=progress.start,
                on_row=progress.add,
                stop=progress.stops,
            )
        except KeyboardInterrupt:
            progress.say(f"computed rows are stored in {store}; continue with: {_command(args)}")
            if not store.exists():
                raise
            results = _stored(args)
        interrupted = asked() and results.missing > 0
    _show(args, results, interrupted=interrupted)
    if interrupted:
        return INTERRUPTED
    return DONE if results.done or not results.tasks else NOTHING_FOUND


def _status(args: argparse.Namespace) -> int:
    _show(args, _stored(args))
    return DONE


def _export(args: argparse.Namespace) -> int:
    from bfio.studies.report.files import write_export

    return _written(args, _stored(args), write_export)


def _report(args: argparse.Namespace) -> int:
    if args.records is not None and args.format not in ("markdown", "latex"):
        remedy = "add one of them, or omit --from"
        raise InputError("--from", "needs --format markdown or latex", remedy)
    if args.format != "html":
        return _report_text(args)
    from bfio.studies.report.page import write_report

    return _written(args, _reported(args), write_report)


def _report_text(args: argparse.Namespace) -> int:
    """Print the tables of a study as Markdown, LaTeX or CSV, or write them to a file."""
    from bfio.studies.report import markdown
    from bfio.studies.report.files import write_text

    output = Path(args.output) if args.output else None
    texts = None
    if args.format == "csv":
        text = markdown.records_csv(_reported(args))
    else:
        if args.records is None:
            records = markdown.parsed_records(markdown.records_csv(_reported(args)))
        else:
            records = markdown.read_records(Path(args.records))
        tables = markdown.text_tables(_study(args), records)
        text = "\n".join(table.latex() for table in tables.values())
        if args.format == "markdown":
            texts = {name: table.markdown() for name, table in tables.items()}
            text = markdown.whole(texts)
    if output is not None and texts is not None:
        markdown.write_markdown(texts, output)
    elif output is not None:
        write_text(output, text)
    told = text if output is None else f"{output}\n"
    document = {"study": _study(args).name, "format": args.format, "text": text}
    return print_answer(args, document, lambda: print(told, end=""))


def _kinds(args: argparse.Namespace) -> int:
    from bfio.studies import kinds

    if args.output:
        from bfio.studies.report.markdown import write_markdown

        write_markdown(kinds.tables(), Path(args.output))
    chosen = [kinds.find(name) for name in ([args.kind] if args.kind else kinds.names())]
    if args.json:
        print_json({kind.name: [vars(value) for value in kind.values] for kind in chosen})
    elif args.kind:
        print(f"{chosen[0].name}: {chosen[0].summary}\n\n{chosen[0].table()}", end="")
    else:
        for kind in chosen:
            print(f"{kind.name:<20}{kind.summary}")
    return DONE


def _written(
    args: argparse.Namespace,
    results: "Results",
    write: "Callable[[Results, Path], list[Path]]",
) -> int:
    seed = f"-seed-{args.seed}" if args.seed else ""
    default = results.store.with_name(f"{results.store.stem}{seed}-report")
    folder = Path(args.output) if args.output else default
    files = write(results, folder)
    document = _document(results) | {"files": files}
    return print_answer(args, document, lambda: print(*files, sep="\n"))


def _study(args: argparse.Namespace) -> "Study":
    from bfio.studies.study_file import find_study

    study = find_study(args.file)
    return (study.small() if args.smoke else study).with_seed(args.seed)


def _store(args: argparse.Namespace) -> Path:
    if args.store:
        return Path(args.store)
    size = "-smoke" if args.smoke else ""
    return _FOLDER / f"{_study(args).name}{size}.sqlite"


def _stored(args: argparse.Namespace) -> "Results":
    from bfio.studies.runner import stored_results

    return stored_results(_study(args), _store(args), _command(args))


def _reported(args: argparse.Namespace) -> "Results":
    """Return the stored results, warning about missing rows; an error if there is none."""
    from bfio.studies.results import check_some_done

    results = _stored(args)
    check_some_done(results)
    if results.missing:
        lacking = f"{results.missing} of {counted(len(results.tasks), 'row')} not computed"
        print(f"{lacking}; compute them with: {_command(args)}", file=sys.stderr)
    return results


def _command(args: argparse.Namespace, action: str = "run") -> str:
    """Return the shell command that applies an action, by default run, to the same rows."""
    words = ["bfio", "study", action, args.file]
    words += ["--store", args.store] if args.store else []
    words += ["--smoke"] if args.smoke else []
    words += ["--seed", str(args.seed)] if args.seed else []
    return shlex.join(words)


def _document(results: "Results") -> dict[str, Any]:
    """Return the JSON document of the progress of a study."""
    from bfio.studies.results import study_settings

    counts = {status.value: count for status, count in results.counts().items()}
    failures = [row for row in results.rows.values() if not row.is_done]
    return {
        "study": results.study.name,
        "question": results.study.question,
        "store": str(results.store),
        "settings": study_settings(results),
        "code": results.tasks[0].code if results.tasks else None,
        "planned": len(results.tasks),
        "rows": counts,
        "missing": results.missing,
        "other_rows": results.other_rows,
        "rows_with_unproven_optima": results.unproven_rows,
        "rows_stopped_by_clock": results.stopped_by_clock,
        "without_result": [
            {
                "key": row.task.key,
                "arguments": dict(row.task.arguments),
                "status": row.status.value,
                "error": row.error,
            }
            for row in failures
        ],
    }


def _show(args: argparse.Namespace, results: "Results", *, interrupted: bool = False) -> None:
    from bfio.studies.report.files import printable, shortened

    document = _document(results) | interruption(interrupted)
    if args.json:
        print_json(document)
        return
    counts = [f"{name} {count}" for name, count in document["rows"].items() if count]
    print(f"{results.study.name}: {results.study.question}")
    print(f"settings: {document['settings']}")
    told = ", ".join([*counts, f"missing {results.missing}"])
    print(f"{counted(len(results.tasks), 'row')}: {told}")
    print(f"rows with unproven optima: {results.unproven_rows}; store: {results.store}")
    failures = document["without_result"]
    for failure in failures[:_MAX_SHOWN]:
        error = shortened(printable(failure["error"]))
        print(f"{failure['status']}: {error}  {failure['arguments']}")
    if len(failures) > _MAX_SHOWN:
        print(f"and {len(failures) - _MAX_SHOWN} more without a result")
    if results.other_rows:
        others = counted(results.other_rows, "row")
        print(f"the store also has {others} of other code, data or arguments")
    if failures and not results.done and not results.missing:
        print("no row has a result: see the errors above; --json prints all of them")
    following = _command(args)
    if not results.missing:
        following = _command(args, "report") if results.done else f"{following} --retry"
    print(f"next: {following}")


COMMAND = Command("study", _SUMMARY, _DESCRIPTION, _add_arguments, _act)
