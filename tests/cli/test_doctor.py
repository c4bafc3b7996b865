"""``bfio doctor``, and the selection of claims by ``bfio check``."""

import json

import pytest

from bfio.cli.commands import doctor
from bfio.cli.main import main


def test_every_part_works(capsys: pytest.CaptureFixture[str]) -> None:
    """Each solver that is installed proves the known optimum; both engines pass the replay."""
    assert main(["doctor", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    states = {finding["part"]: finding["state"] for finding in answer["findings"]}
    for part in ("solve --method exact", "solve --method cp-sat", "engine compiled", "kernels"):
        assert states[part] == "ok"
    assert "solve --method pyomo:gurobi_direct" in states
    assert answer["version"].startswith("bfio ")
    assert answer["machine"]["cores"] >= 1


def test_a_broken_part_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what it says, and an exit status of its own."""
    monkeypatch.setattr(doctor, "_OPTIMUM", 2)
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "BROKEN" in shown
    assert "expected optimum 2, got 1" in shown


def _ids(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["check", "--list", "--json", *arguments]) == 0
    return [claim["id"] for claim in json.loads(capsys.readouterr().out)["claims"]]


def test_claims_by_pattern_paper_and_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """All of the conditions hold for what is listed."""
    theorems = _ids(capsys, "*theorem*")
    assert theorems
    assert all("theorem" in claim for claim in theorems)
    refuted = _ids(capsys, "--verdict", "refuted")
    assert 0 < len(refuted) < len(_ids(capsys))
    both = _ids(capsys, "*theorem*", "--verdict", "refuted", "--paper", "fluid")
    assert set(both) == {c for c in theorems if c in refuted and c.startswith("fluid.")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["*nothing*"], "unknown"),
        (["--paper", "fluit"], "did you mean fluid"),
        (["--verdict", "refutd"], "did you mean refuted"),
        (["balance.maximum", "--paper", "fluid"], "no claim matches all arguments"),
    ],
)
def test_no_such_claims(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """One line."""
    assert main(["check", "--list", *arguments]) == 2
    assert message in capsys.readouterr().err
