"""Render mathematics as MathML, which browsers draw without a script."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

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
    """Register MathML as the renderer of mathematics."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.config.html_math_renderer = "mathml"  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
