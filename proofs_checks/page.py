"""Write the pages of the claims: the scoreboard ``docs/claims.md`` and one page per paper.

Claims contain formulas in plain text, which terminals show. The pages show these formulas as
LaTeX: words become text, names of several letters are upright, products of letters italic.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from formulations.words import counted
from proofs_checks.claim import Claim, Scope
from proofs_checks.evidence import basis_of
from proofs_checks.registry import modules
from proofs_checks.store import (
    SCORE_COLUMNS,
    paper_of,
    recorded,
    score,
    scoreboard,
)

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
    rows = [
        [f"[{r.name}](claims/{paper}.md#{_anchor(r.claims[0])})", *score(r, by_id)]
        for r in scoreboard(paper).results
    ]
    scopes = Counter(claim.scope for claim in claims)
    counts = ", ".join(_number(scopes[scope], scope) for scope in Scope if scopes[scope])
    told = f"[All {len(claims)} claims](claims/{paper}.md): {counts}."
    head = f"## {CHAPTERS.get(paper, paper)}\n"
    return "\n".join([head, *(_table(SCORE_COLUMNS, rows) if rows else ()), told, ""])


def _number(count: int, scope: Scope) -> str:
    if scope is Scope.OURS:
        return f"{count} of our own"
    return counted(count, scope)


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
    applied = counted(tally["applied"], "instance")
    return f"- {tally['what']}: {applied}, {outcome}{left_out}; {tally['made']}"


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


_OPERATORS = {
    "max": r"\max", "min": r"\min", "sup": r"\sup", "inf": r"\inf", "exp": r"\exp", "ln": r"\,\ln",
    "log": r"\,\log", "lim": r"\lim", "limsup": r"\limsup", "argmin": r"\mathrm{arg\,min}\,",
    "argmax": r"\mathrm{arg\,max}\,", "Pr": r"\Pr", "Var": r"\mathrm{Var}\,",
}  # fmt: skip
#: Pairs of capitals that are a product; other pairs are a name.
_PRODUCTS = {"GB", "CF", "EH", "EY"}
#: Pairs of small letters that are a word; other pairs are a product or two indices.
_SHORT_WORDS = {"as", "at", "by", "if", "in", "is", "it", "no", "of", "on", "or", "so", "to"}
_SYMBOLS = {
    "−": "-", "–": r"\text{–}", "·": r"\cdot ", "×": r"\times ", "≤": r"\le ", "≥": r"\ge ",
    "≠": r"\ne ", "≈": r"\approx ", "≪": r"\ll ", "≫": r"\gg ", "~": r"\sim ", "Σ": r"\sum ",
    "Π": r"\prod ", "⇒": r"\Rightarrow ", "⇔": r"\Leftrightarrow ", "→": r"\to ",
    "←": r"\leftarrow ", "∈": r"\in ", "∉": r"\notin ", "⊆": r"\subseteq ", "⊂": r"\subset ",
    "∪": r"\cup ", "∩": r"\cap ", "∅": r"\emptyset ", "∞": r"\infty ", "∀": r"\forall ",
    "∃": r"\exists ", "⌈": r"\lceil ", "⌉": r"\rceil ", "⌊": r"\lfloor ", "⌋": r"\rfloor ",
    "¬": r"\neg ", "ℓ": r"\ell ", "𝒟": r"\mathcal{D}", "′": "'", "…": r"\ldots ", "%": r"\,\%",
    "\\": r"\backslash ",
    "{": r"\{", "}": r"\}", "#": r"\#", "&": r"\&", "$": r"\$",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "ε": r"\varepsilon ",
    "ζ": r"\zeta ", "η": r"\eta ", "θ": r"\theta ", "κ": r"\kappa ", "λ": r"\lambda ",
    "μ": r"\mu ", "ν": r"\nu ", "ξ": r"\xi ", "π": r"\pi ", "ρ": r"\rho ", "σ": r"\sigma ",
    "τ": r"\tau ", "φ": r"\varphi ", "ω": r"\omega ", "Γ": r"\Gamma ", "Δ": r"\Delta ",
    "Λ": r"\Lambda ", "Φ": r"\Phi ", "Ω": r"\Omega ",
}  # fmt: skip
_RAISED = {"²": "2", "³": "3", "⁴": "4", "⁹": "9", "⁻": "-", "⁺": "+"}
_ACCENTS = {"\u0303": r"\tilde", "\u0302": r"\hat", "\u0304": r"\bar"}
_COMPOSED = {"ô": r"{\hat{o}}", "Ȳ": r"{\bar{Y}}"}
_CLOSING = {"(": ")", "{": "}"}

_TOKEN = re.compile(
    r"(?P<wide>,  |;  |:  |  )"
    r"|(?P<dots>\.\.\.)"
    r"|(?P<such> *s\.t\. *)"
    r"|(?P<number>\d+(?:[.,]\d+)*)"
    r"|(?P<name>[A-Za-z]*[A-Z]+(?:-[A-Z]+)+)"
    r"|(?P<indexed>[A-Za-z]\d+(?![\w]))"
    r"|(?P<word>[A-Za-z]{2,})"
    r"|(?P<accented>.[\u0302-\u0304])"
    r"|(?P<script>[_^](?:[A-Za-z0-9]{2,}|.[\u0302-\u0304]|.))"
    r"|(?P<star>(?<=[\w})'])\*)"
    r"|(?P<any>.)",
    re.DOTALL,
)


def latex(formula: str) -> str:
    """Translate a plain-text formula to LaTeX.

    Parameters
    ----------
    formula : str
        As in `proofs_checks.claim.Claim.formula`: Unicode symbols, ``_`` and ``^`` before an
        index of letters or a group in braces or parentheses.
    """
    parts, place = [], 0
    while place < len(formula):
        part, place = _next(formula, place)
        parts.append(part)
    return _merged("".join(parts))


def _next(formula: str, place: int) -> tuple[str, int]:
    """Return the next token of a formula as LaTeX, and the position after the token."""
    match = _TOKEN.match(formula, place)
    assert match is not None
    assert match.lastgroup is not None
    text, end = match[0], match.end()
    if match.lastgroup == "script" and text[1] in _CLOSING:
        end = _closing(formula, match.start() + 1)
        inner = formula[match.start() + 2 : end - 1]
        group = latex(inner) if text[1] == "{" else f"({latex(inner)})"
        return f"{text[0]}{{{group}}}", end
    if text == "√":
        if formula[end : end + 1] == "(":
            closing = _closing(formula, end)
            return rf"\sqrt{{{latex(formula[end + 1 : closing - 1])}}}", closing
        under, end = _next(formula, end)
        return rf"\sqrt{{{under}}}", end
    return _part(match.lastgroup, text), end


def _part(group: str, text: str) -> str:
    match group:
        case "wide":
            return text.strip() + r"\quad "
        case "dots":
            return r"\ldots "
        case "number":
            return text.replace(",", "{,}")
        case "name":
            return rf"\text{{{text}}}"
        case "indexed":
            return f"{text[0]}_{{{text[1:]}}}"
        case "word":
            return _word(text)
        case "accented":
            # Extra braces keep LaTeX from setting an index below the operator.
            return f"{{{_ACCENTS[text[1]]}{{{text[0]}}}}}"
        case "such":
            return r"\quad\text{s.t.}\quad "
        case "script":
            return f"{text[0]}{{{_index(text[1:])}}}"
        case "star":
            return "^{*}"
    return _symbol(text)


def _index(text: str) -> str:
    """Return the index after ``_`` or ``^``: words upright, letters and digits unchanged."""
    if len(text) == 2 and text[1] in _ACCENTS:
        return f"{_ACCENTS[text[1]]}{{{text[0]}}}"
    if len(text) == 1:
        return _symbol(text)
    if text in _OPERATORS or len(text) > 2 or (text.isupper() and text.isalpha()):
        return rf"\mathrm{{{text}}}"
    return text


def _word(text: str) -> str:
    if text in _OPERATORS:
        return f"{_OPERATORS[text]} "
    if len(text) == 2 and (text in _PRODUCTS or (not text.isupper() and text not in _SHORT_WORDS)):
        return text
    if any(letter.isupper() for letter in text):
        return rf"\mathrm{{{text}}}"
    return rf"\text{{{text}}}"


def _symbol(text: str) -> str:
    if text in _RAISED:
        return f"^{{{_RAISED[text]}}}"
    if text == "₊":
        return "_{+}"
    return _COMPOSED.get(text) or _SYMBOLS.get(text, text)


def _closing(formula: str, opening: int) -> int:
    """Return the position after the bracket that matches the bracket at ``opening``."""
    one, other = formula[opening], _CLOSING[formula[opening]]
    depth = 0
    for place in range(opening, len(formula)):
        depth += (formula[place] == one) - (formula[place] == other)
        if depth == 0:
            return place + 1
    return len(formula)


def _merged(text: str) -> str:
    """Return LaTeX with consecutive words in one text group, spaces kept."""
    text = re.sub(r"(?<= )a (?=\\text\{)", r"\\text{a} ", text)
    while (
        joined := re.sub(r"\\text\{([^{}]*)\} *\\text\{([^{}]*)\}", r"\\text{\1 \2}", text)
    ) != text:
        text = joined
    text = re.sub(r"(?<=[\w})\]',;]) *\\text\{", r"\\text{ ", text)
    text = re.sub(r"(\\mathrm\{\w+\}) (?=\d|\\mathrm)", r"\1\\ ", text)
    text = re.sub(r"(\\(?:log|ln) )(?= *\w)", r"\1\\,", text)
    return re.sub(r"\\text\{([^{}]*)\}(?= *[\w\\(|\[])", r"\\text{\1 }", text)
