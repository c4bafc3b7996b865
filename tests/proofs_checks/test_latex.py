"""Formulas in plain text as LaTeX."""

import re

import pytest
from docutils.utils.math import latex2mathml

from proofs_checks import claims
from proofs_checks.page import latex


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("a ≤ b", r"a \le  b"),
        ("s_max·t_{i,j}", r"s_{\mathrm{max}}\cdot t_{i,j}"),
        ("n_jk", "n_{jk}"),
        ("d0 + d1·x", r"d_{0} + d_{1}\cdot x"),
        ("√(B log G)", r"\sqrt{B \,\log \, G}"),
        ("√λ·x", r"\sqrt{\lambda }\cdot x"),
        ("Thr^(T,π)", r"\mathrm{Thr}^{(T,\pi )}"),
        ("{X_n}", r"\{X_{n}\}"),
        ("x²", "x^{2}"),
        ("W̃_j", r"{\tilde{W}}_{j}"),
        ("M* = n_j*", "M^{*} = n_{j}^{*}"),
        ("for all mfu in [0, 1]", r"\text{for all mfu in } [0, 1]"),
        ("γBp", r"\gamma Bp"),
        ("10,000", "10{,}000"),
        ("a  ⇒  b", r"a\quad \Rightarrow \quad b"),
    ],
)
def test_by_hand(plain: str, expected: str) -> None:
    """Each rule once."""
    assert latex(plain) == expected


def test_every_formula_of_a_claim() -> None:
    """Braces match, no symbol is left that LaTeX does not know, and pages can draw it."""
    for claim in claims():
        made = latex(claim.formula)
        bare = re.sub(r"\\[{}]", "", made)
        assert bare.count("{") == bare.count("}"), claim.id
        outside = re.sub(r"\\text\{[^{}]*\}", "", made)
        assert outside.isascii(), (claim.id, outside)
        assert latex2mathml.tex2mathml(made, as_block=True), claim.id
