"""The scoreboard: claims and verdicts of each result; and the formulas of the pages."""

import json
import re

import pytest
from docutils.utils.math import latex2mathml

from bfio.cli import main
from proofs_checks import claims
from proofs_checks.claim import Claim, Defect, Kind, Scope
from proofs_checks.evidence import Basis, Evidence, Tally, Verdict, basis_of
from proofs_checks.page import latex
from proofs_checks.store import (
    NumberedResult,
    ProofStatus,
    Survival,
    basis,
    recorded_verdicts,
    scoreboard,
    survival,
)
from tests.places import ROOT

ALL = {claim.id: claim for claim in claims()}
PAPERS = sorted({name.split(".")[0] for name in ALL})
RESULTS = [(paper, result) for paper in PAPERS for result in scoreboard(paper).results]


def test_every_numbered_result_is_a_row_once() -> None:
    """Claims of scope numbered result, and only they, make up the rows; names are not repeated."""
    rows = [name for _, result in RESULTS for name in result.claims]
    assert sorted(rows) == sorted(c.id for c in ALL.values() if c.scope is Scope.RESULT)
    assert len({(paper, result.name) for paper, result in RESULTS}) == len(RESULTS)


def test_every_step_belongs_to_a_result() -> None:
    """A proof step is listed with the result that it is a step of, and exists."""
    steps = {name for _, result in RESULTS for name in result.steps}
    assert steps <= set(ALL)
    assert {c.id for c in ALL.values() if c.scope is Scope.STEP} <= steps


@pytest.mark.parametrize(("paper", "result"), RESULTS, ids=lambda x: getattr(x, "name", x))
def test_what_is_said_of_a_proof_follows_from_its_steps(
    paper: str, result: NumberedResult
) -> None:
    """A false result has no proof that stands; one that is called correct has no grave step."""
    del paper
    false = any(ALL[name].defect is Defect.RESULT for name in result.claims)
    assert (result.proof is ProofStatus.FAILS) >= false
    assert (survival(result, ALL) is Survival.NO) == false
    if result.proof is ProofStatus.READ:
        grave = set(Defect) - {Defect.MISPRINT, Defect.INFERENCE}
        assert not [name for name in (*result.claims, *result.steps) if ALL[name].defect in grave]
    refuted = [name for name in result.claims if ALL[name].defect is not None]
    assert result.change or not refuted


def test_causes_explain_refuted_claims_of_their_paper() -> None:
    """Each root cause names at least one claim, all refuted as printed, and none twice."""
    for paper in PAPERS:
        named = [name for cause in scoreboard(paper).causes for name in cause.claims]
        assert len(set(named)) == len(named)
        for name in named:
            assert name.startswith(f"{paper}.")
            assert (recorded_verdicts(ALL[name]) or ("",))[0] == Verdict.REFUTED, name


def test_a_proof_that_is_named_is_printed() -> None:
    """And every printed proof is some claim's."""
    printed = {path.stem for path in (ROOT / "proofs_checks" / "proofs").glob("*.md")}
    assert {claim.proof for claim in ALL.values() if claim.proof} == printed


def _evidence(*made: str, failed: int = 0) -> Evidence:
    verdict = Verdict.REFUTED if failed else Verdict.HOLDS
    first, *rest = made
    tallies = (Tally("it holds", first, 3, 3, failed), *(Tally("so", m, 2, 2, 0) for m in rest))
    return Evidence(verdict, tallies=tallies)


@pytest.mark.parametrize(
    ("evidence", "proof", "expected"),
    [
        (_evidence("all pairs below 5"), None, Basis.EXHAUSTIVE),
        (_evidence("every pair below 5", "random pairs"), None, Basis.SAMPLED),
        (_evidence("random pairs", "all pairs below 5", failed=1), None, Basis.EXHAUSTIVE),
        (_evidence("random pairs"), "lemma", Basis.PROVED),
        (_evidence("all pairs", failed=1), "lemma", None),
        (Evidence(Verdict.NOT_CHECKABLE), None, None),
    ],
)
def test_what_a_statement_rests_on(
    evidence: Evidence, proof: str | None, expected: Basis | None
) -> None:
    """Only what did not fail counts: a refuted statement rests on nothing."""
    assert basis_of(evidence.to_mapping(), proof) is expected


def test_a_result_is_as_strong_as_its_weakest_part() -> None:
    """One part sampled, one exhaustive: sampled; false: nothing."""
    parts = {name: basis(NumberedResult("R", ProofStatus.READ, (name,)), ALL) for name in ALL}
    exhaustive = next(name for name, found in parts.items() if found is Basis.EXHAUSTIVE)
    sampled = next(name for name, found in parts.items() if found is Basis.SAMPLED)
    both = NumberedResult("R", ProofStatus.READ, (exhaustive, sampled))
    assert basis(both, ALL) is Basis.SAMPLED
    assert basis(NumberedResult("R", ProofStatus.FAILS, ("kv.theorem4.2",)), ALL) is None


def test_a_false_result_is_a_numbered_one() -> None:
    """Of a remark or a step the word is false sentence."""
    with pytest.raises(ValueError, match=r"write Defect\.SENTENCE"):
        Claim(
            id="kv.remark", source="s", title="t", statement="s", formula="f", hypotheses=(),
            kind=Kind.OUTSIDE, scope=Scope.REMARK, defect=Defect.RESULT,
            check=lambda context: Evidence(Verdict.NOT_CHECKABLE),
        )  # fmt: skip


def test_the_command_shows_the_scoreboard(capsys: pytest.CaptureFixture[str]) -> None:
    """From the record, in rows and as JSON, of all papers or one."""
    assert main(["check", "--scoreboard", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["scoreboard"]
    assert len(rows) == len(RESULTS)
    assert main(["check", "kv", "--scoreboard"]) == 0
    shown = capsys.readouterr().out
    assert "Theorem 4.2" in shown
    assert "false result" in shown
    assert "Proposition 5" not in shown


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
