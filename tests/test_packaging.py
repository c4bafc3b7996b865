"""Check the wheel: its contents, and its use without a checkout."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.places import DOCS, ROOT
from tests.processes import python


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the pinned build backend."""
    folder = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("bfio-*.whl")
    return built


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_the_three_typed_packages(wheel: Path) -> None:
    """The wheel contains the three packages, each with py.typed, and no tests or benchmarks."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {
        "bfio",
        "formulations",
        "proofs_checks",
    }
    for package in ("bfio", "formulations", "proofs_checks"):
        assert f"{package}/py.typed" in names
    assert not [name for name in names if name.endswith((".csv", ".gz", ".jsonl"))]


def test_the_wheel_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """The installed wheel runs ``bfio`` outside the checkout."""
    place = tmp_path / "site"
    _pip("install", "--no-deps", "--no-compile", "--target", str(place), str(wheel))
    code = (
        "import bfio, formulations, sys; from bfio.cli import main; "
        "print(bfio.__file__); sys.exit(main(['compare', '--requests', '50', '--no-plots', "
        "'--policies', 'fcfs,br-0', '--json']))"
    )
    done = python("-c", code, cwd=tmp_path, env={"PYTHONPATH": str(place)}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(place))


#: Extras whose wheels depend on the accelerator; CONTRIBUTING.md says so.
UNPINNED = {"gpu"}


def test_every_dependency_is_locked_and_justified() -> None:
    """Every dependency is pinned in a lock file and listed in CONTRIBUTING.md."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *(x for e in extras.values() for x in e)]
    free = {x for extra in UNPINNED for x in extras[extra]}
    lock = (ROOT / "requirements.lock").read_text() + (DOCS / "requirements.lock").read_text()
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    for requirement in required:
        name = requirement.split(">")[0].split("=")[0].split("[")[0].strip()
        assert requirement in free or f"\n{name}==" in f"\n{lock}", name
        assert name in guide, name


def test_citation_and_changelog_are_of_this_version() -> None:
    """The version stands in three places, its date in two, the same."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = (ROOT / "CITATION.cff").read_text()
    released = re.search(r"\nversion: (.*)\ndate-released: (\d{4}-\d\d-\d\d)\n", citation)
    assert released is not None
    assert released[1] == version
    assert f"\n## {version} ({released[2]})\n" in (ROOT / "CHANGELOG.md").read_text()
