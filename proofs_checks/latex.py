"""Translate the plain-text formulas of claims to LaTeX for the pages.

Authors write formulas in plain text, and terminals show that form. In LaTeX, words become text,
names of several letters are upright, and products of letters stay italic.
"""

import re

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
    """Return the next token as LaTeX, and the position after it."""
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
    """Return the position after the bracket that closes the one at ``opening``."""
    one, other = formula[opening], _CLOSING[formula[opening]]
    depth = 0
    for place in range(opening, len(formula)):
        depth += (formula[place] == one) - (formula[place] == other)
        if depth == 0:
            return place + 1
    return len(formula)


def _merged(text: str) -> str:
    """Join consecutive words, and keep the spaces around them."""
    text = re.sub(r"(?<= )a (?=\\text\{)", r"\\text{a} ", text)
    while (
        joined := re.sub(r"\\text\{([^{}]*)\} *\\text\{([^{}]*)\}", r"\\text{\1 \2}", text)
    ) != text:
        text = joined
    text = re.sub(r"(?<=[\w})\]',;]) *\\text\{", r"\\text{ ", text)
    text = re.sub(r"(\\mathrm\{\w+\}) (?=\d|\\mathrm)", r"\1\\ ", text)
    text = re.sub(r"(\\(?:log|ln) )(?= *\w)", r"\1\\,", text)
    return re.sub(r"\\text\{([^{}]*)\}(?= *[\w\\(|\[])", r"\\text{\1 }", text)
