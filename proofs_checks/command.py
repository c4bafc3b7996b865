"""The command ``bfio check``: check the claims of the papers."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from bfio.cli import so_far
from bfio.cli.command import DONE, INTERRUPTED, Command
from bfio.cli.options import add_common
from bfio.cli.output import interruption, print_json, print_table, progress_bar
from formulations.errors import InputError

if TYPE_CHECKING:
    from proofs_checks.claim import Claim, Effort
    from proofs_checks.run import ClaimReport

#: Exit status if a check does not reproduce the recorded verdicts.
NOT_REPRODUCED = 1
_MOST_JOBS = 256

_DESCRIPTION = """\
Check the claims of the papers by machine: exact arithmetic and exhaustive search where that is
possible, estimates with intervals where it is not. Each claim has two verdicts, on the statement
as printed and as corrected: holds, refuted, supported (by estimates), not-checkable. What is
refuted is refuted by a counterexample that the run finds for itself and makes minimal.

  bfio check                           all claims, about a minute: the scoreboard of results
  bfio check --scoreboard              the same from what is on record, without checking
  bfio check balance.lemma1 --json     one, with all its evidence
  bfio check balance route             those of two papers
  bfio check '*theorem*' --verdict refuted --list
  bfio check --list                    ids, titles and modules, without checking
  bfio check my_claims.py              your own: CLAIMS, or my_claims.py:NAME, or module:NAME
  bfio check my_claims.py --record     and keep verdicts and counterexamples beside that file

Verdicts are compared with those on record, and stored counterexamples are verified again. Exit
status 1 if either fails; a claim that is refuted, as on record, is no failure. docs/claims.md is
the scoreboard, with a page per paper behind it.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "claims",
        nargs="*",
        metavar="CLAIM",
        help="ids, patterns such as '*theorem*', papers, or FILE.py of your own (default: all)",
    )
    parser.add_argument("--paper", metavar="P", help="only claims of this paper, e.g. balance")
    parser.add_argument(
        "--verdict",
        metavar="V",
        help="only claims whose printed statement has this recorded verdict: holds, refuted, "
        "supported or not-checkable",
    )
    parser.add_argument("--list", action="store_true", help="list claims and check none")
    parser.add_argument(
        "--scoreboard",
        action="store_true",
        help="show the scoreboard of the papers' numbered results, and check none",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="check your own claims and their mutations, and record the results next to "
        "their file",
    )
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument(
        "--effort", default="normal", metavar="E", help="quick, normal (default) or deep"
    )
    effort.add_argument("--deep", action="store_true", help="short for --effort deep")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default 2)")
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    from formulations.arrays import integer
    from formulations.problem_data import member
    from proofs_checks.claim import Effort

    effort = member(Effort, "deep" if args.deep else args.effort, "--effort")
    seed = integer(args.seed, "--seed", maximum=2**63 - 1)
    jobs = integer(args.jobs, "--jobs", minimum=1, maximum=_MOST_JOBS)
    claims = _chosen(args)
    if args.list:
        return _list(claims, args.json)
    if args.scoreboard:
        return _scoreboard(claims, args.json)
    if args.record:
        _record(claims)
    reports: list[ClaimReport] = []
    status, failure = DONE, None
    try:
        for report in _reports(claims, effort, seed, jobs):
            reports.append(report)
            so_far.keep_shown(lambda: _show(args, claims, reports, interrupted=True))
    except KeyboardInterrupt:
        if not reports:
            raise
        status = INTERRUPTED
    except InputError as error:
        if not reports:
            raise
        failure = error
    _show(args, claims, reports, interrupted=status == INTERRUPTED)
    if failure is not None:
        raise failure
    if status == DONE and not all(report.reproduced for report in reports):
        return NOT_REPRODUCED
    return status


def _chosen(args: argparse.Namespace) -> "tuple[Claim, ...]":
    """Return the claims that match all command-line arguments."""
    from formulations.problem_data import member
    from proofs_checks.evidence import Verdict
    from proofs_checks.registry import named
    from proofs_checks.store import recorded_verdicts

    claims = named(args.claims)
    if args.paper is not None:
        of_paper = {claim.id for claim in named([args.paper])}
        claims = tuple(claim for claim in claims if claim.id in of_paper)
    if args.verdict is not None:
        verdict = member(Verdict, args.verdict, "--verdict")
        on_record = {claim.id: recorded_verdicts(claim) for claim in claims}
        claims = tuple(c for c in claims if (on_record[c.id] or ("", ""))[0] == verdict)
    if not claims:
        raise InputError("bfio check", "no claim matches all arguments", "give fewer arguments")
    return claims


def _record(claims: "tuple[Claim, ...]") -> None:
    from formulations.named_objects import users_code
    from proofs_checks.record import record_claims

    for claim in claims:
        if not claim.named_as:
            what = f"{claim.id} is the id of a built-in claim"
            raise InputError("--record", what, "use python -m proofs_checks.record in a checkout")
    with users_code("--record", "a check ", remedy="fix it"):
        record_claims(claims)


def _reports(
    claims: "tuple[Claim, ...]", effort: "Effort", seed: int, jobs: int
) -> "Iterator[ClaimReport]":
    from proofs_checks.run import run_claims

    with progress_bar() as bar, closing(run_claims(claims, effort, seed, jobs)) as reports:
        task = bar.add_task("claims", total=len(claims))
        for report in reports:
            bar.advance(task)
            yield report


def _list(claims: "tuple[Claim, ...]", as_json: bool) -> int:
    from proofs_checks.registry import modules

    home = modules() if any(not claim.named_as for claim in claims) else {}
    rows = [(c.id, c.title, c.source, c.named_as or home[c.id]) for c in claims]
    if as_json:
        columns = ("id", "title", "source", "module")
        print_json({"claims": [dict(zip(columns, row, strict=True)) for row in rows]})
    else:
        short = [(*row, module.removeprefix("proofs_checks.papers.")) for *row, module in rows]
        print_table("", ("claim", "title", "source", "module"), short)
    return DONE


def _boards(claims: "tuple[Claim, ...]") -> list[dict[str, str]]:
    """Return from the records one scoreboard row per numbered result of these claims."""
    from proofs_checks.registry import claims as all_claims
    from proofs_checks.store import SCORE_COLUMNS, paper_of, score, scoreboard

    asked = {claim.id for claim in claims}
    by_id = {claim.id: claim for claim in all_claims()}
    return [
        {"paper": paper, **dict(zip(SCORE_COLUMNS, (r.name, *score(r, by_id)), strict=True))}
        for paper in dict.fromkeys(paper_of(claim) for claim in claims)
        for r in scoreboard(paper).results
        if asked & set(r.claims)
    ]


def _scoreboard(claims: "tuple[Claim, ...]", as_json: bool) -> int:
    from proofs_checks.page import CHAPTERS
    from proofs_checks.store import SCORE_COLUMNS

    rows = _boards(claims)
    if as_json:
        print_json({"scoreboard": rows})
        return DONE
    for paper in dict.fromkeys(row["paper"] for row in rows):
        table = [
            [row[column] for column in SCORE_COLUMNS] for row in rows if row["paper"] == paper
        ]
        print_table(CHAPTERS.get(paper, paper), SCORE_COLUMNS, table)
    return DONE


def _show(
    args: argparse.Namespace,
    claims: "tuple[Claim, ...]",
    reports: "list[ClaimReport]",
    *,
    interrupted: bool,
) -> None:
    from proofs_checks.run import report_document

    # After an interruption there are fewer reports than claims; they come in the same order.
    documents = [report_document(c, r) for c, r in zip(claims, reports, strict=False)]
    if args.json:
        from bfio.common.provenance import citable_versions

        print_json(
            {
                "claims": documents,
                "reproduced": all(d["reproduced"] for d in documents),
                "effort": "deep" if args.deep else args.effort,
                "seed": args.seed,
                "versions": citable_versions(),
            }
            | interruption(interrupted)
        )
        return
    everything = not (args.claims or args.paper or args.verdict)
    # The records describe this run only if the run reproduced all of them.
    if everything and all(document["reproduced"] for document in documents):
        _scoreboard(claims, as_json=False)
        print(f"{len(documents)} claims, each with the verdicts on record")
    else:
        print_table(
            "",
            ("claim", "title", "as printed", "as corrected", "evidence", "instances", "s", ""),
            [_row(document) for document in documents],
        )
    if len(documents) == 1:
        _explain(documents[0])
    for document in documents:
        if not document["reproduced"]:
            print(f"not reproduced: {document['id']}: {_trouble(document)}")


def _row(document: dict[str, Any]) -> tuple[str, ...]:
    tallies = (document["evidence"] or {}).get("tallies", [])
    applied = sum(tally["applied"] for tally in tallies)
    verdict, defect = document["as_printed"] or "–", document["defect"]
    return (
        document["id"],
        document["title"],
        f"{verdict}: {defect}" if defect else verdict,
        document["as_corrected"] or "–",
        document["basis"] or "–",
        f"{applied:,}" if tallies else "–",
        f"{document['seconds']:.1f}",
        "" if document["reproduced"] else "NOT REPRODUCED",
    )


def _explain(document: dict[str, Any]) -> None:
    """Print the statement and the evidence of a single claim."""
    from proofs_checks.page import evidence_lines

    print(f"{document['source']}\n{document['statement']}\n{document['formula']}")
    if document["reading"]:
        print(f"read as: {document['reading']}")
    if document["correction"]:
        defect = f" ({document['defect']})" if document["defect"] else ""
        print(f"correction{defect}: {document['correction']}")
    if document["evidence"] is not None:
        print("\n".join(evidence_lines(document["evidence"])))


def _trouble(document: dict[str, Any]) -> str:
    if document["error"]:
        return str(document["error"])
    if document["stored_counterexample"] == "broken":
        return "the stored counterexample does not refute the statement as its record describes"
    verdicts = (document["as_printed"], document["as_corrected"])
    return f"verdicts {_both(verdicts)}, on record {_both(document['recorded'])}"


def _both(verdicts: "Sequence[str | None]") -> str:
    return " and ".join(verdict or "none" for verdict in verdicts)


COMMAND = Command(
    name="check",
    summary="check the theorems of the papers by machine: verdicts, evidence, counterexamples",
    description=_DESCRIPTION,
    add_arguments=_add_arguments,
    run=_run,
)
