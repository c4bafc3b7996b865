"""``bfio library``: list, write and verify frozen instances with best known solutions."""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from bfio.cli import so_far
from bfio.cli.command import DONE, NOTHING_FOUND, Command
from bfio.cli.options import add_action, add_by_usage, add_json
from bfio.cli.output import interruption, print_answer, print_json, print_table
from formulations.errors import InputError, check_known, naming
from formulations.words import counted

if TYPE_CHECKING:
    from bfio.library import Entry, SolutionVerdict, Verdict

STATUSES = ("closed", "claimed", "open")
#: Columns of `listing`.
LISTED = ("name", "status", "best known", "proven bound", "gap", "found by", "certificate, by")


def counts(chosen: "list[Entry]") -> str:
    """Return the numbers of closed, claimed and open entries as one line."""
    number = {status: sum(e.status.value == status for e in chosen) for status in STATUSES}
    return (
        f"{counted(len(chosen), 'entry')}: {number['closed']} closed, {number['claimed']} claimed "
        f"but not certified, {number['open']} open"
    )


def listing(chosen: "list[Entry]") -> list[list[str]]:
    """Return the lines of a table of entries, with the columns `LISTED`."""
    from bfio.library.kind import value_text
    from formulations.scalars import percent

    rows = []
    for e in chosen:
        best = e.best
        if best is None:
            rows.append([e.name, e.status.value, *["–"] * 5])
            continue
        values = [value_text(value, e.scale) for value in (best.objective, best.bound)]
        by = f"{best.certificate}, {best.proven_by.method}"
        cells = [*values, percent(best.gap), best.found_by.method, by]
        rows.append([e.name, e.status.value, *cells])
    return rows


def summary(e: "Entry") -> dict[str, Any]:
    """Return an entry as JSON, without problem, solution and certificate."""
    from bfio.library import sources

    known = None if e.best is None else e.best.to_mapping()
    if known is not None:
        del known["solution"]
    source = sources()[e.source]
    return {
        "name": e.name,
        "kind": e.kind_name,
        "command": e.kind.command,
        "family": e.family,
        "about": e.about,
        "source": {"title": source.title, "licence": source.licence},
        "digest": e.digest,
        "status": e.status.value,
        "unit": e.kind.unit_of(e.problem),
        "scale": e.scale,
        "gap": None if e.best is None else e.best.gap,
        "best_known": known,
    }


def verified(verdicts: "list[Verdict]", seconds: float) -> dict[str, Any]:
    """Return the results of verification as JSON."""
    from bfio.library import VERSION

    return {
        "version": VERSION,
        "sound": all(verdict.is_sound for verdict in verdicts),
        "certified": sum(verdict.is_certified for verdict in verdicts),
        "seconds": seconds,
        "entries": [
            {
                "name": verdict.name,
                "status": verdict.status.value,
                "sound": verdict.is_sound,
                "faults": list(verdict.faults),
                "seconds": verdict.seconds,
            }
            for verdict in verdicts
        ],
    }


def verified_lines(chosen: "list[Entry]", verdicts: "list[Verdict]", seconds: float) -> list[str]:
    """Return the verification results as text lines; uncertified claims are listed separately."""
    faults = [
        f"NOT VERIFIED {verdict.name}: {fault}" for verdict in verdicts for fault in verdict.faults
    ]
    claims: dict[str, int] = {}
    for e in chosen:
        if e.status.value == "claimed" and e.best is not None and e.best.claimed_by is not None:
            claims[e.best.claimed_by.method] = claims.get(e.best.claimed_by.method, 0) + 1
    told = [f"claimed by {method}, not certified: {n}" for method, n in sorted(claims.items())]
    certified = sum(verdict.is_certified for verdict in verdicts)
    slowest = max(verdicts, key=lambda verdict: verdict.seconds)
    return [
        *faults,
        counts(chosen),
        *told,
        f"{sum(v.is_sound for v in verdicts)} of {len(verdicts)} sound; "
        f"{certified} bounds derived again from the problem data in {seconds:.1f} s "
        f"(longest {slowest.seconds:.1f} s, {slowest.name})",
    ]


def judged(verdict: "SolutionVerdict") -> dict[str, Any]:
    """Return the verdict on a submitted solution as a JSON document."""
    from bfio.library.kind import written_value

    def told(value: Any) -> Any:
        return None if value is None else written_value(value)

    return {
        "name": verdict.name,
        "feasible": verdict.objective is not None,
        "objective": told(verdict.objective),
        "best_known": told(verdict.best_known),
        "better": verdict.is_better,
        "optimal": verdict.closes,
        "violations": {name: told(by) for name, by in verdict.violations.items()},
    }


def judged_lines(e: "Entry", verdict: "SolutionVerdict") -> list[str]:
    """Return the verdict on a submitted solution as text lines."""
    from bfio.cli.problem_command import violated_lines
    from bfio.library.kind import value_text

    if verdict.objective is None:
        told = [f"{name} by {by}" for name, by in verdict.violations.items()]
        return [f"{e.name}: infeasible", *violated_lines(told)]
    objective = value_text(verdict.objective, e.scale)
    best = value_text(verdict.best_known, e.scale)
    unit = e.kind.unit_of(e.problem)
    lines = [f"{e.name}: feasible, objective {objective} {unit}, best known {best}"]
    if verdict.closes:
        lines.append("optimal: its objective equals the certified bound")
    if verdict.is_better:
        lines.append("better than the best known: docs/library.md says how to submit it")
    elif not verdict.closes:
        lines.append("not better than the best known")
    return lines


#: Exit status if an entry fails verification.
NOT_VERIFIED = 1
_SUMMARY = "list and verify frozen instances with best known solutions and certificates"
_DESCRIPTION = """\
Frozen problem instances for comparing methods. Each entry has the best known solution, a proven
bound with its certificate, and the methods that found both. NAME may be a pattern such as
'step-32x72-*'.

  bfio library list                               list the entries and their status
  bfio library list 'step-*-h20-active' --status open
  bfio library get NAME problem.json              the problem, as its command reads it
  bfio library get NAME problem.mps               or .lp, for other solvers (docs/exchange.md)
  bfio library get NAME | bfio solve -            to stdout without a file
  bfio library get NAME --json                    with best known solution and certificate
  bfio library verify                             check all entries: digests, solutions, bounds
  bfio library check-solution NAME answer.json    feasible? better than the best known?

closed: a certificate proves that no solution is better; verify checks the certificate against the
problem alone, without a solver. claimed: a method reports optimality without a certificate. open:
neither; a better solution or bound would be new. check-solution takes the answer of a command with
--json, or the solution file of another solver for the MPS or LP file; docs/library.md describes
how to submit a better one.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, title="actions")
    add_one = partial(add_action, actions)
    listed = add_one("list", _list, "list kind, status, objective and bound of each entry")
    got = add_one("get", _get, "write the problem of an entry as JSON, MPS or LP")
    add_by_usage(got, {"name NAME": "name of an entry (see bfio library list)"})
    text = "output file: .json, .mps or .lp (default: JSON on stdout)"
    add_by_usage(got, {"file FILE": text}, nargs="?")
    add_by_usage(got, {"--overwrite": "replace an existing FILE"})
    verified = add_one("verify", _verify, "check digests, solutions and bounds of entries again")
    for action in (listed, verified):
        names = {"names NAME": "names or patterns of entries (default all)"}
        add_by_usage(action, names, nargs="*")
        table = {
            "--kind KIND": "only entries of this kind, e.g. step",
            "--status S": "only entries with this status: closed, claimed or open",
        }
        add_by_usage(action, table)
    checked = add_one("check-solution", _check_solution, "check your solution of an entry")
    table = {
        "name NAME": "name of an entry",
        "file FILE": "answer of a command (.json), or solution file of another solver",
    }
    add_by_usage(checked, table)
    for action in (listed, got, verified, checked):
        add_json(action)


def _chosen(args: argparse.Namespace) -> "list[Entry]":
    """Return the entries that match names, kind and status.

    Raises
    ------
    InputError
        If none matches, or a kind, status or name is unknown.
    """
    from fnmatch import fnmatchcase

    from bfio.library import KINDS, entries, entry

    for option, known in (("kind", tuple(KINDS)), ("status", STATUSES)):
        value = getattr(args, option)
        if value is not None:
            check_known(f"--{option}", value, known)
    for name in args.names:
        if not set(name) & set("*?["):
            entry(name)
    found = [
        e
        for e in entries()
        if (not args.names or any(fnmatchcase(e.name, name) for name in args.names))
        and args.kind in (None, e.kind_name)
        and args.status in (None, e.status.value)
    ]
    if not found:
        raise InputError("library", "no entry matches", "see bfio library list")
    return found


def _list(args: argparse.Namespace) -> int:
    from bfio.library import VERSION

    chosen = _chosen(args)
    title = f"Library of instances, version {VERSION}"
    document = {"version": VERSION, "entries": [summary(e) for e in chosen]}
    show = partial(print_table, title, LISTED, listing(chosen), counts(chosen))
    return print_answer(args, document, show)


def _get(args: argparse.Namespace) -> int:
    import json
    from pathlib import Path

    from bfio.cli.problem_command import exchange, exchange_fluid
    from bfio.common.files import write_file
    from bfio.library import entry
    from bfio.programs import FLUID_KINDS, chosen_kind

    e = entry(args.name)
    if args.file is None:
        if args.overwrite:
            raise InputError("--overwrite", "no FILE is written", "name a FILE")
        known = None if e.best is None else e.best.to_mapping()
        parts = {"problem": e.document, "best_known": known, "certificate": e.certificate}
        print_json({**summary(e), **parts} if args.json else e.document)
        return DONE
    path = Path(args.file)
    suffix = path.suffix.lower()
    if suffix in (".mps", ".lp"):
        options = argparse.Namespace(
            write=args.file,
            read_solution=None,
            file=f"{e.name}.json",
            overwrite=args.overwrite,
            json=args.json,
        )
        if e.kind.fluid_program:
            kind = chosen_kind(FLUID_KINDS, e.kind.fluid_program, e.name)
            return exchange_fluid(options, e.problem, kind, e.kind.fluid_objective)
        program = e.kind.program(e.problem)
        if program is None:
            what = f"kind {e.kind_name} has no program"
            raise InputError(e.name, what, "write a .json file")
        return exchange(options, program, e.kind.command.removeprefix("bfio "))
    if suffix != ".json":
        raise InputError(args.file, "has no known suffix", "use .json, .mps or .lp")
    content = f"{json.dumps(e.document)}\n".encode()
    write_file(path, content, overwrite=args.overwrite)
    command, dashes, more = e.kind.command.partition(" --")
    told = f"{e.about}; written to {path} ({len(content):,} bytes)"
    following = f"{command} {args.file}{dashes}{more}"
    document = {"written": str(path), "digest": e.digest, "command": e.kind.command}
    return print_answer(args, document, lambda: print(told, following, sep="\n"))


def _verify(args: argparse.Namespace) -> int:
    import time

    from bfio.cli.output import progress_bar
    from bfio.library import verify

    chosen = _chosen(args)
    began = time.perf_counter()
    verdicts: list[Verdict] = []

    def show(*, interrupted: bool) -> None:
        seconds = time.perf_counter() - began
        print_answer(
            args,
            lambda: verified(verdicts, seconds) | interruption(interrupted),
            lambda: print(*verified_lines(chosen[: len(verdicts)], verdicts, seconds), sep="\n"),
        )

    with progress_bar() as bar:
        task = bar.add_task("verify", total=len(chosen))
        for e in chosen:
            verdicts.append(verify(e))
            so_far.keep_shown(lambda: show(interrupted=True), at_once=True)
            bar.advance(task)
    show(interrupted=False)
    return DONE if all(verdict.is_sound for verdict in verdicts) else NOT_VERIFIED


def _check_solution(args: argparse.Namespace) -> int:
    from bfio.cli.output import read_text
    from bfio.library import check_solution_text, entry

    e = entry(args.name)
    text = read_text(args.file)
    with naming(args.file):
        verdict = check_solution_text(e, text)
    print_answer(args, judged(verdict), lambda: print(*judged_lines(e, verdict), sep="\n"))
    return NOTHING_FOUND if verdict.objective is None else DONE


COMMAND = Command(
    "library", _SUMMARY, _DESCRIPTION, _add_arguments, lambda args: int(args.act(args))
)
