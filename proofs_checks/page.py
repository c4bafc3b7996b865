"""The page ``docs/claims.md``, written from the claims and the evidence on record."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from proofs_checks.claim import Claim, Defect
from proofs_checks.evidence import Verdict
from proofs_checks.store import recorded

#: Chapters by the first part of an id; others follow under their own name.
CHAPTERS = {
    "balance": "BF-IO: load balancing with short look-ahead",
    "route": "BalanceRoute: online routing by F-scores",
    "kv": "KV-cache scheduling: one worker with limited memory",
    "fluid": "Fluid limits: WAIT and Nested WAIT",
    "batching": "Throughput: engines with a token budget, networks of agents",
    "own": "Our own: what the papers use without saying, and what follows",
}

_HEAD = """\
# Claims of the papers, checked

This page is written by `python -m proofs_checks.record` from the objects that `bfio check` runs,
and a test keeps it current. It shows the evidence at quick effort, seed 0; `bfio check` looks
through more, `bfio check --deep` through much more.

Each claim has two verdicts, on the statement as printed and as corrected: **holds** (proven for
the listed instances by exact arithmetic or exhaustive search; a finite check is no proof of the
general statement), **refuted** (a minimal counterexample is shown; the run finds its own and makes
it small), **supported** (an estimate met a rule set beforehand), **not-checkable**. Every check
also fails on deliberately broken variants of what it checks; they are listed, and a test runs
them.

"Refuted" speaks of the printed words and says little about a theory, so what is wrong is told
apart: a **misprint** (the source itself shows what is meant), a **missing hypothesis**, a **wrong
formula** (with the right one the result stands), a **false result** (a numbered one; what the
correction says is another or a weaker one), or a **false sentence** (the same, of a proof, a
remark or an illustration). A **false inference** is nothing that is printed: what one might infer
from it, or a question of our own.
"""


def page(claims: Sequence[Claim]) -> str:
    """Return the whole page."""
    parts = [_HEAD, _counts(claims), _overview(claims)]
    for paper, group in groupby(claims, key=_paper):
        parts.append(f"## {CHAPTERS.get(paper, paper)}\n")
        entries = recorded(paper)
        parts += [_section(claim, entries.get(claim.id)) for claim in group]
    return "\n".join(parts)


def evidence_lines(evidence: Mapping[str, Any]) -> list[str]:
    """Return evidence, as `Evidence.to_mapping` gives it, as lines of text."""
    lines = [evidence["summary"]] if evidence["summary"] else []
    lines += [_tally(tally) for tally in evidence["tallies"]]
    lines += [_estimate(estimate) for estimate in evidence["estimates"]]
    if evidence["numbers"]:
        figures = ", ".join(f"{name} {_figure(v)}" for name, v in evidence["numbers"].items())
        lines.append(f"- figures: {figures}")
    if (example := evidence["counterexample"]) is not None:
        lines.append(f"- counterexample: `{json.dumps(example['data'], ensure_ascii=False)}`")
        lines.append(f"- why it is one: {example['why']}")
        lines.append(f"- how it was found: {example['found']}")
    return lines


def _paper(claim: Claim) -> str:
    return claim.id.split(".")[0]


def _counts(claims: Sequence[Claim]) -> str:
    """Return how many claims of each paper are what, as printed."""
    kinds = [Verdict.HOLDS, Verdict.SUPPORTED, *Defect, Verdict.NOT_CHECKABLE]
    rows = [f"| claims of | all | {' | '.join(kinds)} |", "|---" * (len(kinds) + 2) + "|"]
    for paper, group in groupby(claims, key=_paper):
        entries = recorded(paper)
        verdicts = Counter(
            claim.defect or entries.get(claim.id, {}).get("as_printed") for claim in group
        )
        counts = " | ".join(str(verdicts[kind]) for kind in kinds)
        rows.append(f"| {paper} | {verdicts.total()} | {counts} |")
    return "\n".join([*rows, ""])


def _overview(claims: Sequence[Claim]) -> str:
    rows = [
        "| claim | title | as printed | what is wrong | as corrected |",
        "|---|---|---|---|---|",
    ]
    for claim in claims:
        entry = recorded(_paper(claim)).get(claim.id, {})
        printed, corrected = entry.get("as_printed"), entry.get("as_corrected")
        rows.append(
            f"| [{claim.id}](#{_anchor(claim)}) | {claim.title} | {printed or '–'} "
            f"| {claim.defect or ''} | {corrected or '–'} |"
        )
    return "\n".join([*rows, ""])


def _anchor(claim: Claim) -> str:
    # As GitHub writes it: lower case, dots left out.
    return claim.id.replace(".", "")


def _section(claim: Claim, entry: Mapping[str, Any] | None) -> str:
    lines = [
        f"### {claim.id}",
        "",
        f"**{claim.title}.** {claim.source}. {claim.kind.capitalize()}.",
    ]
    lines += ["", f"> {claim.statement}", "", f"    {claim.formula}", ""]
    if claim.hypotheses:
        lines += ["Assumes: " + "; ".join(claim.hypotheses) + ".", ""]
    if claim.reading:
        lines += [f"Read as: {claim.reading}", ""]
    if entry is None:
        lines += ["**Verdict**: none on record.", ""]
    else:
        corrected = entry["as_corrected"]
        second = f"; as corrected: {corrected}" if corrected else ""
        wrong = f" ({claim.defect})" if claim.defect else ""
        lines += [f"**Verdict**: as printed: {entry['as_printed']}{wrong}{second}.", ""]
    if claim.correction:
        lines += [f"**Correction**: {claim.correction}", ""]
    if entry is not None:
        lines += ["**Evidence**: " + _joined(evidence_lines(entry["evidence"])), ""]
    if claim.mutations:
        lines += [
            "Fails, as it must, with: " + "; ".join(m.name for m in claim.mutations) + ".",
            "",
        ]
    return "\n".join([*lines, f"Command: `{claim.command}`", ""])


def _joined(lines: Sequence[str]) -> str:
    head, *rest = lines
    if head.startswith("- "):
        return "\n\n" + "\n".join(lines)
    return head + ("\n\n" + "\n".join(rest) if rest else "")


def _tally(tally: Mapping[str, Any]) -> str:
    outcome = "all hold" if not tally["failed"] else f"{tally['failed']:,} fail"
    skipped = tally["tried"] - tally["applied"]
    left_out = f" ({skipped:,} more do not meet the hypotheses)" if skipped else ""
    return (
        f"- {tally['what']}: {tally['applied']:,} instances, {outcome}{left_out}; {tally['made']}"
    )


def _estimate(estimate: Mapping[str, Any]) -> str:
    met = "met" if estimate["accepted"] else "not met"
    return (
        f"- {estimate['name']}: {_figure(estimate['value'])} "
        f"(95 %: {_figure(estimate['low'])} to {_figure(estimate['high'])}, "
        f"{estimate['samples']:,} samples); rule: {estimate['rule']}: {met}"
    )


def _figure(value: float | str) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else value
