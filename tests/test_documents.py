"""Check README and pages: their examples run, and their links exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebooks import NOTEBOOKS
from tests.places import DOCS, ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
#: Folders with modules.
TOPS = ("bfio", "formulations", "benchmarks", "proofs_checks", "tests", "docs")
#: Modules of users and of other projects.
_NOT_OURS = {
    "mine.py",
    "my_claims.py",
    "tensorrt_llm/_torch/pyexecutor/scheduler/adp_router.py",
}
_MARK = "<!-- run -->"
_BLOCK = re.compile(r"(?:<!-- (file: \S+|run) -->\n)?```(\w+)\n(.*?)```", re.DOTALL)
#: The indented lines behind a block are printed by it; times differ between machines.
_PRINTED = re.compile(r"```\n\n((?:    \S.*\n)+)")
_TIME = re.compile(r"[\d.]+ m?s\b")


def _run(language: str, code: str, folder: Path) -> str:
    command = ["sh", "-eu", "-c", code] if language == "sh" else [sys.executable, "-c", code]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _run_page(page: Path, folder: Path) -> int:
    """Write the files of a page, then run its marked shell blocks and its Python code."""
    program, ran = "", 0
    for mark, language, code in _BLOCK.findall(page.read_text()):
        if mark.startswith("file: "):
            (folder / mark.removeprefix("file: ")).write_text(code)
        elif mark == "run":
            _run(language, code, folder)
            ran += 1
        elif language == "python" and page.parent.name == "docs":
            program += code
    if program:
        _run("python", program, folder)
    return ran


@pytest.mark.site
def test_the_readme_runs_as_written(tmp_path: Path) -> None:
    """The README's files are written and its marked blocks run in order, in an empty folder."""
    assert _run_page(ROOT / "README.md", tmp_path) == 3
    assert (ROOT / "README.md").read_text().count(_MARK) == 3


def test_the_readme_shows_what_its_first_command_prints(tmp_path: Path) -> None:
    """Line by line, but for the time."""
    text = (ROOT / "README.md").read_text()
    (shown,) = _PRINTED.findall(text)
    code = next(code for mark, _, code in _BLOCK.findall(text) if mark == "run")
    printed = _run("sh", code, tmp_path)
    assert _TIME.sub("T", printed) == _TIME.sub("T", shown.replace("    ", ""))


@pytest.mark.site
@pytest.mark.parametrize("page", [p for p in PAGES if p.parent.name == "docs"], ids=str)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    """The marked blocks of a page run in order, including their assertions."""
    assert _run_page(page, tmp_path) == page.read_text().count(_MARK)


def test_recipes_have_ten_lines() -> None:
    """Each of the five scripts has at most ten lines of code."""
    scripts = [code for _, _, code in _BLOCK.findall((DOCS / "recipes.md").read_text())]
    lengths = [len([line for line in code.splitlines() if line]) for code in scripts]
    assert len(lengths) == 6
    assert max(lengths) <= 10


def test_every_page_is_in_the_index() -> None:
    """The index lists each page exactly once; the site's tree is built from the index."""
    index = (DOCS / "index.md").read_text()
    listed = re.findall(r"^\| \[[^\]]*\]\(([^)]*)\) \|", index, re.MULTILINE)
    assert len(listed) == len(set(listed))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"index.md"}
    assert pages == {link for link in listed if not link.startswith("..")}


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda p: p.name)
def test_relative_links_point_somewhere(page: Path) -> None:
    """Every relative link of a page names a file of the repository."""
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_modules_that_pages_name_exist() -> None:
    """`module.py` in a page is the end of a module's name, or a file that the page writes."""
    files = {f"/{path.relative_to(ROOT)}" for top in TOPS for path in (ROOT / top).rglob("*.py")}
    missing = []
    for page in PAGES:
        text = page.read_text()
        named = set(re.findall(r"`([\w/.-]+\.py)`", text)) - _NOT_OURS
        named -= set(re.findall(r"<!-- file: (\S+) -->", text))
        missing += [name for name in named if not any(f.endswith(f"/{name}") for f in files)]
    assert missing == []
