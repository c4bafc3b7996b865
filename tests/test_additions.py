"""Check additions as described in CONTRIBUTING: a file placed in its folder is found."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.processes import python

#: What is added, the file it is modelled on, the new file, and the expression that lists it.
ADDITIONS = {
    "a policy": (
        "bfio/decode/policies/pending_prefill.py",
        '"pending-prefill"',
        "__import__('bfio.decode.policy_registry').decode.policy_registry.names()",
    ),
    "a feature of the machine": (
        "bfio/decode/features/ties.py",
        '"ties"',
        "[f.name for f in __import__('bfio.decode.features.registry')"
        ".decode.features.registry.FEATURES]",
    ),
    "a predictor": (
        "bfio/prediction/predictors/learned.py",
        '"learned"',
        "__import__('bfio.prediction.registry').prediction.registry.names()",
    ),
    "a trace format": (
        "bfio/workloads/trace_formats/vidur.py",
        '"vidur"',
        "[f.name for f in __import__('bfio.workloads.trace_formats')"
        ".workloads.trace_formats.formats()]",
    ),
    "a command": (
        "bfio/cli/commands/demo.py",
        '"demo"',
        "__import__('bfio.cli.command').cli.command.commands()",
    ),
    "a kind of row of studies": (
        "bfio/studies/row_kinds/simulate.py",
        '"simulate"',
        "__import__('bfio.studies.kinds').studies.kinds.names()",
    ),
    "a claim": (
        "proofs_checks/papers/own/dropped_in.py",
        "",
        "__import__('proofs_checks.registry').registry.modules()",
    ),
}
CLAIM = re.compile(r"<!-- file: conjecture\.py -->\n```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Copy the packages, add one file of each kind, and list the names in their registries."""
    folder = tmp_path_factory.mktemp("copy")
    for package in ("formulations", "bfio", "proofs_checks"):
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("*pycache*")
        )
    for model, name, _ in ADDITIONS.values():
        if name:
            text = (ROOT / model).read_text(encoding="utf-8")
            assert name in text or Path(model).stem == name.strip('"')
            added = (folder / model).with_name("dropped_in.py")
            added.write_text(text.replace(name, '"dropped_in"'), encoding="utf-8")
        else:
            (folder / model).write_text(_claim_of_the_docs(), encoding="utf-8")
    listed = ", ".join(f"{what!r}: [str(n) for n in {n}]" for what, (_, _, n) in ADDITIONS.items())
    done = python(
        "-P",
        "-c",
        f"import json; print(json.dumps({{{listed}}}))",
        cwd=folder,
        env={"PYTHONPATH": str(folder)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names: dict[str, list[str]] = json.loads(done.stdout)
    return names


def _claim_of_the_docs() -> str:
    claim: str
    (claim,) = CLAIM.findall((ROOT / "docs" / "your-own.md").read_text(encoding="utf-8"))
    return claim.replace('id="', 'id="own.dropped-') + "\nCLAIMS = (CLAIM,)\n"


@pytest.mark.parametrize("what", ADDITIONS)
def test_a_file_in_its_folder_is_found(what: str, found: dict[str, list[str]]) -> None:
    """The registry of the copy finds the added file, and CONTRIBUTING names its folder."""
    model, _, _ = ADDITIONS[what]
    assert any("dropped" in name for name in found[what])
    (row,) = re.findall(rf"^\| {what} \|(.*)$", _contributing(), re.MULTILINE)
    folder = str(Path(model).parent).replace("papers/own", "papers/<paper>")
    assert f"`{folder}/`" in row


def test_every_folder_that_is_named_exists() -> None:
    """Every folder and file named in CONTRIBUTING exists."""
    named = re.findall(
        r"`((?:bfio|formulations|proofs_checks|benchmarks)/[\w/.]*)`", _contributing()
    )
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def _contributing() -> str:
    return (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
