"""What the site adds to Sphinx: the page tree, docstrings as written, and formulas as MathML.

The page tree is built from the tables of ``docs/index.md``. Program statements in docstrings stay
unchanged, and types have short names. Browsers draw MathML without a script.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.nodes import make_refnode
from sphinx.writers.html5 import HTML5Translator

_INDEX = "docs/index"
#: Pages with a folder of others behind them, which lie there as these patterns say.
_FOLDERS = {"benchmarks/README": "studies/*/README", "proofs_checks/README": "proofs/*"}
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| \[[^\]]*\]\(([^)#]+)\) \|", re.MULTILINE)


def sections(index: Path) -> list[tuple[str, list[str]]]:
    """Return the headings of the index, each with the pages listed in its tables.

    Parameters
    ----------
    index : Path
        ``docs/index.md``.

    Returns
    -------
    list of (str, list of str)
        Pages are named from the root of the checkout, without suffix.
    """
    _, *parts = _SECTION.split(index.read_text(encoding="utf-8"))
    root = index.parents[1]
    return [
        (heading, [_page(index.parent / link, root) for link in _ROW.findall(text)])
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    ]


def _page(path: Path, root: Path) -> str:
    return str(PurePosixPath(path.resolve().relative_to(root)).with_suffix(""))


def _tree(entries: list[str], caption: str = "", *, by_name: bool = False) -> str:
    named = [f":caption: {caption}"] if caption else []
    options = [":hidden:", ":titlesonly:", *named, *([":glob:"] if by_name else [])]
    return "\n".join(["\n```{toctree}", *options, "", *entries, "```\n"])


def _add_trees(app: Sphinx, page: str, source: list[str]) -> None:
    if page == app.config.root_doc:
        index = Path(app.srcdir) / f"{_INDEX}.md"
        trees = [_tree([f"/{_INDEX}"])]
        trees += [
            _tree([f"/{entry}" for entry in entries if entry != page], heading)
            for heading, entries in sections(index)
        ]
        source[0] += "".join(trees)
    elif page in _FOLDERS and any((Path(app.srcdir) / page).parent.glob(f"{_FOLDERS[page]}.md")):
        source[0] += _tree([_FOLDERS[page]], by_name=True)


def _level_captions(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object
) -> None:
    """Set the heading level of sidebar captions, which screen readers require."""
    del app, page, template, tree
    sidebar = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = sidebar.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )


#: A module that opens with its mathematics, aligned by hand.
_STATEMENT = re.compile(r"\.(program|[a-z]+_program)$")
_NAMED = ("class", "exception", "data", "type", "function")
_ARRAYS = {
    "int64": "IntArray",
    "float64": "FloatArray",
    "bool": "BoolArray",
}
_ARRAY = re.compile(
    r"~?(?:numpy\.)?ndarray\[tuple\[~?(?:typing\.)?(?:Any|int), \.\.\.\], "
    r"~?(?:numpy\.)?dtype\[~?(?:numpy\.)?(\w+)\]\]"
)


def _as_written(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep aligned text of a module's docstring unchanged."""
    del app, obj, options
    if what != "module":
        return
    if _STATEMENT.search(name) and any(lines[1:]):
        lines[1:] = ["", "::", "", *(f"    {line}" for line in lines[1:]), ""]
        return
    for place in reversed(range(2, len(lines))):
        begins = lines[place].startswith("    ") and not lines[place - 1]
        before = next((line for line in reversed(lines[:place]) if line), "")
        if begins and not before.startswith("    ") and not before.endswith("::"):
            lines[place:place] = ["::", ""]


def _short(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Replace array types by their names in `formulations.arrays`."""
    del app, what, name, obj, options
    return _renamed(signature), _renamed(returned)


def _renamed(text: str | None) -> str | None:
    return text and _ARRAY.sub(lambda found: _ARRAYS.get(found[1], found[0]), text)


def _by_last_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.Node
) -> nodes.reference | None:
    """Resolve a class by its last name, because lazily read annotations give no full name."""
    if node.get("refdomain") != "py":
        return None
    domain = env.domains.python_domain
    last = "." + node["reftarget"].rpartition(".")[2]
    found = {
        (entry.docname, entry.node_id)
        for name, entry in domain.objects.items()
        if name.endswith(last) and entry.objtype in _NAMED
    }
    if len(found) != 1:
        return None
    ((page, place),) = found
    return make_refnode(app.builder, node["refdoc"], page, place, [text], last[1:])


_logger = logging.getLogger(__name__)

#: What code hosts draw and the translator does not know, in its own words. Brackets grow anyway.
_DIALECT = (
    (re.compile(r"\\dots(?![a-z])"), r"\\ldots"),
    (re.compile(r"\\[bB]igg?[lrm]?(?![a-z])"), ""),
    (re.compile(r"\\tag\{([^{}]*)\}"), r"\\qquad (\\text{\1})"),
)


def _mathml(node: nodes.math | nodes.math_block, *, as_block: bool) -> str:
    """Return a formula as MathML; a formula that fails is a warning with its place."""
    formula = node.astext()
    for known_elsewhere, known_here in _DIALECT:
        formula = known_elsewhere.sub(known_here, formula)
    try:
        return str(tex2mathml(formula, as_block=as_block))
    except MathError as error:
        _logger.warning("formula: %s", error, location=node)
        return ""


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    # Wide formulas scroll by themselves, and with the keyboard.
    mathml = _mathml(node, as_block=True)
    translator.body.append(f'<div class="formula" tabindex="0" role="group">{mathml}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the page trees, the handlers of autodoc events, and the renderer of formulas."""
    app.connect("source-read", _add_trees)
    app.connect("html-page-context", _level_captions, priority=900)
    # Before numpydoc, which adds to the lines.
    app.connect("autodoc-process-docstring", _as_written, priority=100)
    app.connect("autodoc-process-signature", _short)
    app.connect("missing-reference", _by_last_name)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.config.html_math_renderer = "mathml"  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
