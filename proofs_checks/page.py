"""Write the pages of the claims: the scoreboard ``docs/claims.md`` and one page per paper."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from proofs_checks.claim import Claim, Scope
from proofs_checks.evidence import basis_of
from proofs_checks.latex import latex
from proofs_checks.registry import modules
from proofs_checks.results import SCORE_COLUMNS, NumberedResult, score, scoreboard
from proofs_checks.store import paper_of, recorded

#: Chapter titles by the first part of an id; other papers follow under their own name.
CHAPTERS = {
    "balance": "BF-IO: load balancing with short look-ahead",
    "route": "BalanceRoute: online routing by F-scores",
    "kv": "KV-cache scheduling: one worker with limited memory",
    "fluid": "Fluid limits: WAIT and Nested WAIT",
    "batching": "Throughput: engines with a token budget, networks of agents",
    "own": "Our own: what the papers use without saying, and what follows",
}

_WRITTEN = """\
This page is written by `python -m proofs_checks.record` from the objects that `bfio check` runs,
and a test keeps it current.
"""

_HEAD = f"""\
# Claims of the papers, checked

{_WRITTEN}
One row for each numbered result: what is said of the printed words, whether the result survives,
what the surviving form rests on here, what became of its printed proof, and what an author would
change. Formulas, steps of proofs, remarks and experiments have claims too; they are on the pages
of the papers, each with its evidence, and a link from its result.

**As printed**: *holds*, *refuted* (with what is wrong), *supported* (an estimate met a rule set
beforehand), *not-checkable*. "Refuted" speaks of the printed words and says little about a theory,
so what is wrong is told apart: a *misprint* (the source itself shows what is meant), a *missing
hypothesis*, a *wrong formula* (with the right one the result stands), a *false result* (a
numbered one; what the correction says is another or a weaker one), a *false sentence* (the same,
of a proof, a remark or an illustration), a *false inference* (nothing that is printed: what one
might infer from it, or a question of our own). Every paper is read with one charity:
[proofs_checks](../proofs_checks/README.md#rules).

**Evidence**: *proved* (a proof is printed in
[proofs_checks](../proofs_checks/README.md#proofs), and instances confirm it), *exhaustive* (every
instance up to the size that the evidence states), *sampled* (instances drawn or chosen, or an
estimate). Only the first is a proof of the general statement.

**Proof**, the printed one, read step by step: *read and correct*; *mended here* (a step fails, and
a claim's correction or a proof of ours replaces it); *open* (a gap that is not closed here, or no
proof at all); *fails*, with its result.
"""

_PAPER_HEAD = f"""\
{_WRITTEN}
It shows the evidence that `bfio check` finds with seed 0; `bfio check --deep` looks through much
more. What the words mean: [claims](../claims.md). Each claim comes with its command; every check
also fails on deliberately broken variants of what it checks, which are listed, and a test runs
them.
"""


def pages(claims: Sequence[Claim]) -> dict[str, str]:
    """Return the text of each page, by its path under ``docs``."""
    by_paper = {paper: tuple(group) for paper, group in groupby(claims, key=paper_of)}
    order = [*(p for p in CHAPTERS if p in by_paper), *(p for p in by_paper if p not in CHAPTERS)]
    front = [_HEAD, *(_board(paper, by_paper[paper]) for paper in order)]
    found = {"claims.md": "\n".join(front)}
    for paper in order:
        found[f"claims/{paper}.md"] = _paper_page(paper, by_paper[paper])
    return found


def evidence_lines(evidence: Mapping[str, Any]) -> list[str]:
    """Format evidence (a mapping from `Evidence.to_mapping`) as lines of text."""
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


def _board(paper: str, claims: Sequence[Claim]) -> str:
    """Return the chapter of one paper on the scoreboard page."""
    by_id = {claim.id: claim for claim in claims}
    results = scoreboard(paper).results
    rows = [_score_row(paper, result, by_id) for result in results]
    scopes = Counter(claim.scope for claim in claims)
    counts = ", ".join(_number(scopes[scope], scope) for scope in Scope if scopes[scope])
    told = f"[All {len(claims)} claims](claims/{paper}.md): {counts}."
    head = f"## {CHAPTERS.get(paper, paper)}\n"
    return "\n".join([head, *(_table(SCORE_COLUMNS, rows) if rows else ()), told, ""])


def _number(count: int, scope: Scope) -> str:
    if scope is Scope.OURS:
        return f"{count} of our own"
    return f"{count} {scope}{'' if count == 1 else 's'}"


def _score_row(paper: str, result: NumberedResult, by_id: dict[str, Claim]) -> list[str]:
    link = f"[{result.name}](claims/{paper}.md#{_anchor(result.claims[0])})"
    return [link, *score(result, by_id)]


def _paper_page(paper: str, claims: Sequence[Claim]) -> str:
    board = scoreboard(paper)
    parts = [f"# {CHAPTERS.get(paper, paper)}\n", _PAPER_HEAD]
    if board.results:
        rows = [
            (r.name, _links(r.claims), _links(r.steps) or "–", r.proof, r.change or "–")
            for r in board.results
        ]
        columns = ("result", "claims", "steps and what they rest on", "proof", "what to change")
        parts += ["## Numbered results\n", "\n".join([*_table(columns, rows), ""])]
    if board.causes:
        causes = [f"- {cause.text} {_links(cause.claims)}" for cause in board.causes]
        parts += ["## Errors that several claims share\n", "\n".join([*causes, ""])]
    home, entries = modules(), recorded(paper)
    parts += ["## All claims\n", _overview(claims, entries)]
    parts += [_section(claim, entries.get(claim.id), home[claim.id]) for claim in claims]
    return "\n".join(parts)


def _links(names: Sequence[str]) -> str:
    return ", ".join(f"[{name.split('.', 1)[1]}](#{_anchor(name)})" for name in names)


def _overview(claims: Sequence[Claim], entries: Mapping[str, Any]) -> str:
    columns = ("claim", "title", "is a", "as printed", "what is wrong", "as corrected", "evidence")
    rows = []
    for claim in claims:
        entry = entries.get(claim.id, {})
        basis = basis_of(entry["evidence"], claim.proof) if entry else None
        rows.append(
            (
                f"[{claim.id}](#{_anchor(claim.id)})",
                claim.title,
                claim.scope,
                entry.get("as_printed") or "–",
                claim.defect or "–",
                entry.get("as_corrected") or "–",
                basis or "–",
            )
        )
    return "\n".join([*_table(columns, rows), ""])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _anchor(name: str) -> str:
    # GitHub's anchors are in lower case, without dots.
    return name.replace(".", "")


def _section(claim: Claim, entry: Mapping[str, Any] | None, module: str) -> str:
    lines = [
        f"### {claim.id}",
        "",
        f"**{claim.title}.** {claim.source}. {claim.scope.capitalize()}; {claim.decided_by}.",
    ]
    lines += ["", f"> {claim.statement}", "", "```math", latex(claim.formula), "```", ""]
    if claim.hypotheses:
        lines += ["Assumes: " + "; ".join(claim.hypotheses) + ".", ""]
    if claim.reading:
        lines += [f"Read as: {claim.reading}", ""]
    lines += [_verdict(claim, entry), ""]
    if claim.correction:
        lines += [f"**Correction**: {claim.correction}", ""]
    if entry is not None:
        lines += ["**Evidence**: " + _joined(evidence_lines(entry["evidence"])), ""]
    if claim.mutations:
        lines += [
            "Fails, as it must, with: " + "; ".join(m.name for m in claim.mutations) + ".",
            "",
        ]
    source = f"../../{module.replace('.', '/')}.py"
    proof = f" Proof: [{claim.proof}](../../proofs_checks/proofs/{claim.proof}.md)."
    lines.append(
        f"Command: `{claim.command}`. Check: [{module.rsplit('.', 1)[1]}.py]({source})."
        + (proof if claim.proof else "")
    )
    return "\n".join([*lines, ""])


def _verdict(claim: Claim, entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "**Verdict**: none on record."
    corrected = entry["as_corrected"]
    second = f"; as corrected: {corrected}" if corrected else ""
    wrong = f" ({claim.defect})" if claim.defect else ""
    basis = basis_of(entry["evidence"], claim.proof)
    rests = f", {basis}" if basis else ""
    return f"**Verdict**: as printed: {entry['as_printed']}{wrong}{second}{rests}."


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
