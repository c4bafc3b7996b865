"""``bfio check``: documents, exit statuses, words."""

import importlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bfio.cli import main
from formulations.errors import InputError
from proofs_checks import claims, record, registry
from proofs_checks.claim import Check, Claim, Claims, Context, Effort, Mutation
from proofs_checks.command import COMMAND
from proofs_checks.evidence import Evidence, Examination, Tally, Verdict
from proofs_checks.page import pages
from proofs_checks.run import run_check, run_claim, run_claims
from proofs_checks.search import refute
from proofs_checks.store import stored_counterexample
from tests.places import ROOT
from tests.processes import python

_QUICK = ["--effort", "quick", "--jobs", "1"]


def test_the_document_of_a_claim(capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON document on stdout with what the design promises."""
    assert main(["check", "balance.lemma1", "--json", *_QUICK]) == 0
    document = json.loads(capsys.readouterr().out)
    (claim,) = document["claims"]
    assert claim["id"] == "balance.lemma1"
    assert (claim["as_printed"], claim["as_corrected"]) == ("refuted", "holds")
    assert claim["evidence"]["counterexample"]["data"] == {"groups": [[1, 1], [3, 3], [3, 3]]}
    assert claim["seconds"] > 0
    assert {"source", "statement", "formula", "hypotheses", "recorded"} <= set(claim)
    assert document["reproduced"] is True


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """A paper's claims in rows; a single claim with its evidence in words."""
    assert main(["check", "balance.eq2", "balance.imbalance-gap", *_QUICK]) == 0
    assert "balance.imbalance-gap" in capsys.readouterr().out
    assert main(["check", "balance.round-robin", *_QUICK]) == 0
    shown = capsys.readouterr().out
    assert "refuted" in shown
    assert "H/⌈H/G⌉ = 3/2 < 2" in shown


def test_claims_are_listed_without_being_checked(capsys: pytest.CaptureFixture[str]) -> None:
    """With ids, titles, sources, and the module where each stands."""
    assert main(["check", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["claims"]
    assert [entry["id"] for entry in listed] == [claim.id for claim in claims()]
    for entry in listed:
        module = importlib.import_module(entry["module"])
        assert entry["id"] in {claim.id for claim in module.CLAIMS}
    assert main(["check", "route", "--list"]) == 0
    assert "route.two-probes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["balance.lema1"], "did you mean balance.lemma1?"),
        (["zzz.qqq"], "bfio check --list"),
        (["balance.eq2", "--effort", "huge"], "quick, normal, deep"),
        (["balance.eq2", "--jobs", "0"], "--jobs"),
        (["balance.eq2", "--seed", "-1"], "--seed"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and what to do about it."""
    assert main(["check", *arguments]) == 2
    shown = capsys.readouterr().err
    assert re.fullmatch(r"error: [^\n]*\n", shown)
    assert words in shown


def _claim(claim_id: str, check: Check) -> Claim:
    (model,) = (claim for claim in claims() if claim.id == "balance.eq2")
    return replace(model, id=claim_id, check=check, mutations=(Mutation("m"),))


def _refuting(context: Context) -> Evidence:
    tally = Tally("w", "m", 1, 1, 1)
    return Evidence(tally.verdict(), tallies=(tally,))


def _failing(context: Context) -> Evidence:
    raise RuntimeError("broken\ncheck")


def _leaving(context: Context) -> Evidence:
    raise SystemExit(3)


def _empty(context: Context) -> Evidence:
    return None  # type: ignore[return-value]


def _interrupted(context: Context) -> Evidence:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (_refuting, "verdicts refuted and none, on record holds and none"),
        (_failing, f"RuntimeError: broken check at {__file__} line "),
        (_leaving, "SystemExit: 3"),
        (_empty, "the check returned NoneType instead of an outcome"),
    ],
)
def test_what_is_not_reproduced_exits_1(
    check: Callable[[Context], Evidence],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A check that contradicts the record, or breaks, is named."""
    monkeypatch.setattr(registry, "claims", lambda: (_claim("balance.eq2", check),))
    assert main(["check", "balance.eq2", *_QUICK]) == 1
    shown = capsys.readouterr().out
    assert "NOT REPRODUCED" in shown
    assert words in shown


def test_a_claim_without_a_record_is_compared_with_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user's own claim may be refuted: status 0."""
    monkeypatch.setattr(registry, "claims", lambda: (_claim("mine.first", _refuting),))
    assert main(["check", "mine", "--json", *_QUICK]) == 0
    (claim,) = json.loads(capsys.readouterr().out)["claims"]
    assert claim["recorded"] is None
    assert claim["as_printed"] == "refuted"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"groups": [[2, 2], [2, 2]]}, "balanced"),
        ({"groups": "abc"}, "no lists"),
        ({}, "no groups"),
        (None, "another reason"),
    ],
)
def test_a_broken_stored_counterexample_exits_1(
    data: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """What is stored is verified again, by the statement alone, to the word."""
    genuine = stored_counterexample(registry.named(["balance.lemma1"])[0])
    assert genuine is not None
    monkeypatch.setattr("proofs_checks.store.COUNTEREXAMPLES", tmp_path)
    text = json.dumps({"data": data or genuine["data"], "why": why, "found": ""})
    (tmp_path / "balance.lemma1.json").write_text(text)
    assert main(["check", "balance.lemma1", *_QUICK]) == 1
    assert "the stored counterexample does not refute" in capsys.readouterr().out


def test_a_counterexample_that_takes_for_ever_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged file may hold any number: 10^14 requests are not waited for, and it is named."""
    (claim,) = registry.named(["kv.theorem4.2-limit"])
    stored = stored_counterexample(claim)
    assert stored is not None
    stored["data"]["requests"] = 10**14
    (tmp_path / f"{claim.id}.json").write_text(json.dumps(stored), encoding="utf-8")
    monkeypatch.setattr("proofs_checks.store.COUNTEREXAMPLES", tmp_path)
    monkeypatch.setattr("proofs_checks.run._VERIFYING_S", 0.05)
    monkeypatch.setattr("proofs_checks.run.run_check", lambda *_: None)
    report = run_claim(claim, Effort.QUICK, 0)
    assert not report.reproduced
    assert report.error is not None
    assert f"{claim.id}.json: damaged (not verified within 0.05 s" in report.error


@pytest.mark.parametrize("data", ["endless", "huge"])
def test_a_counterexample_that_takes_for_ever(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: str
) -> None:
    """A verifier that a damaged file keeps busy is ended; the error names the file."""

    def verify(data: dict[str, Any]) -> str | None:
        while data["what"] == "endless":
            pass
        return str(bytearray(2**40))

    monkeypatch.setattr("proofs_checks.store.COUNTEREXAMPLES", tmp_path)
    monkeypatch.setattr("proofs_checks.run._VERIFYING_S", 0.1)
    claim = replace(_claim("mine.first", _refuting), verify=verify)
    document = {"data": {"what": data}, "why": "because", "found": {}}
    (tmp_path / "mine.first.json").write_text(json.dumps(document))
    error = run_claim(claim, Effort.QUICK, 0).error
    assert error is not None
    assert "mine.first.json: damaged (not verified within 0.1 s and 1024 MiB); restore" in error


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"{}", b'{"data": 3, "why": ""}', b"\xff\xfe", b'{"data": {}}']
)
@pytest.mark.parametrize("folder", ["COUNTEREXAMPLES", "RECORDED"])
def test_a_damaged_file_is_named_and_costs_no_other_claim(
    content: bytes, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Its claim is not reproduced; the others are."""
    place = tmp_path / folder.lower()
    place.mkdir()
    name = "balance.lemma1.json" if folder == "COUNTEREXAMPLES" else "balance.json"
    (place / name).write_bytes(content)
    monkeypatch.setattr(f"proofs_checks.store.{folder}", place)
    status = main(["check", "balance.lemma1", "own.work", "--json", *_QUICK])
    lemma, work = json.loads(capsys.readouterr().out)["claims"]
    assert work["error"] is None
    if folder == "RECORDED" and content == b"{}":
        assert (status, lemma["recorded"]) == (0, None)
        return
    assert (status, lemma["reproduced"]) == (1, False)
    assert f"{place.name}/{name}: damaged (" in lemma["error"]
    assert lemma["as_printed"] == "refuted"


def test_a_claim_module_that_cannot_be_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is named, with what it raises."""

    def broken(name: str) -> None:
        raise SyntaxError(f"no sense\nin {name}")

    monkeypatch.setattr(importlib, "import_module", broken)
    message = r"claims of proofs_checks\.papers\.(\S+): cannot be loaded \(SyntaxError: no sense"
    with pytest.raises(InputError, match=message):
        registry.claims()


def test_recording_refuses_what_is_unknown_or_misses_a_mutation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, status 2, and nothing is written."""
    monkeypatch.setattr("proofs_checks.store.RECORDED", tmp_path)
    assert record.main(["balance.eq"]) == 2
    assert re.fullmatch("error: claim balance.eq: unknown; .*\n", capsys.readouterr().err)
    (model,) = registry.named(["balance.eq2"])
    monkeypatch.setattr(registry, "claims", lambda: (_claim("balance.eq2", model.check),))
    assert record.main(["balance.eq2"]) == 2
    assert "the mutation 'm' gives the same verdicts" in capsys.readouterr().err

    def finds(context: Context) -> Examination[dict[str, int]]:
        return refute("odd", "1", [{"n": 1}], lambda data: "odd" if data["n"] % 2 else None)

    monkeypatch.setattr(registry, "claims", lambda: (_claim("balance.eq2", finds),))
    assert record.main(["balance.eq2"]) == 2
    assert "but the claim has no verifier; give Claim(verify=...)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_keeps_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in the second claim: status 130, and the first is shown."""
    both = (_claim("mine.first", _refuting), _claim("mine.second", _interrupted))
    monkeypatch.setattr(registry, "claims", lambda: both)
    assert main(["check", "--json", *_QUICK]) == 130
    shown = json.loads(capsys.readouterr().out)["claims"]
    assert [claim["id"] for claim in shown] == ["mine.first"]


@pytest.mark.deep
def test_several_processes_give_what_one_gives() -> None:
    """The same verdicts and evidence in the same order."""
    selection = registry.named(["route", "own.work", "balance.eq2"])
    alone = [run_claim(claim, Effort.QUICK, 3) for claim in selection]
    shared = list(run_claims(selection, Effort.QUICK, 3, jobs=2))
    assert [r.evidence for r in shared] == [r.evidence for r in alone]


def test_help_needs_no_library() -> None:
    """The command's module alone loads neither numpy nor a claim."""
    code = "import sys, proofs_checks.command; print('numpy' in sys.modules)"
    done = python("-c", code)
    assert done.stdout == "False\n"
    assert "check the theorems" in COMMAND.summary


def test_the_pages_are_current() -> None:
    """docs/claims.md and the pages behind it: python -m proofs_checks.record."""
    written = {"claims.md": (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")}
    for path in sorted((ROOT / "docs" / "claims").glob("*.md")):
        written[f"claims/{path.name}"] = path.read_text(encoding="utf-8")
    assert written == pages(claims())


def test_the_pages_show_every_claim_and_its_command() -> None:
    """And every link leads to a heading of its page."""
    for claim in claims():
        paper = claim.id.split(".")[0]
        written = (ROOT / "docs" / "claims" / f"{paper}.md").read_text(encoding="utf-8")
        assert f"\n### {claim.id}\n" in written
        assert f"`bfio check {claim.id}`" in written
    for name, text in pages(claims()).items():
        for file, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", text):
            target = (ROOT / "docs" / name).parent / file if file else ROOT / "docs" / name
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {h.lower().replace(".", "").replace(" ", "-") for h in headings}
            assert anchor in anchors, (name, file, anchor)


def test_the_example_of_the_readme_is_a_claim() -> None:
    """Its code defines one that its own check refutes and corrects, and its mutation differs."""
    text = (ROOT / "proofs_checks" / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    defined = names["CLAIMS"]
    assert isinstance(defined, Claims)
    claim: Claim = defined[0]
    report = run_claim(claim, Effort.QUICK, 0)
    assert report.evidence is not None
    assert report.evidence.verdicts == (Verdict.REFUTED, Verdict.HOLDS)
    assert report.evidence.counterexample is not None
    assert report.evidence.counterexample.data == {"a": -1, "b": 0}
    mutated = run_check(claim, Effort.QUICK, 0, claim.mutations[0])
    assert mutated.verdicts != report.evidence.verdicts
