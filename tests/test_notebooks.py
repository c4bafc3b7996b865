"""Check the notebooks: figures are described, statements asserted, results reproducible."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bfio
from bfio.workloads import write_trace
from tests.notebooks import NOTEBOOKS, cells, run
from tests.places import DOCS

#: What a reader has who installed bfio: beside it numpy, matplotlib, and IPython inside Jupyter.
_AT_HAND = {"IPython", "matplotlib", "numpy", "bfio", "proofs_checks", *sys.stdlib_module_names}

_each = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


@_each
def test_cells_are_programs_of_what_is_public(notebook: Path) -> None:
    """Cells compile and import only public names."""
    for node in ast.walk(ast.parse("\n".join(cell.source for cell in cells(notebook)))):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            assert name.split(".")[0] in _AT_HAND, name
            assert "._" not in name, name


@_each
def test_figures_are_described(notebook: Path) -> None:
    """Every figure has a text description."""
    drawn = [
        cell for cell in cells(notebook) if "plt.show()" in cell.source or ".plot()" in cell.source
    ]
    assert drawn
    for cell in drawn:
        assert "alt: " in cell.options, cell.source


@_each
def test_what_is_said_is_asserted(notebook: Path) -> None:
    """Every notebook asserts the statements of its text."""
    assert sum(cell.source.count("assert ") for cell in cells(notebook)) >= 3


def test_a_cell_is_found_whatever_its_options(tmp_path: Path) -> None:
    """The reader of notebooks finds code cells with each form of options, and without options."""
    page = tmp_path / "page.md"
    fence, end = "```{code-cell} ipython3\n", "```\n"
    page.write_text(
        f"{fence}a = 1\n{end}text\n{fence}:tags: [hide-input]\n\nb = 2\n{end}"
        f"{fence}---\ntags: [x]\nalt: y\n---\nc = 3\n{end}"
    )
    found = cells(page)
    assert [cell.source.strip() for cell in found] == ["a = 1", "b = 2", "c = 3"]
    assert [cell.options.count("\n") for cell in found] == [0, 1, 4]


@pytest.mark.deep
@_each
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    """A notebook runs from the first to the last cell, including its assertions."""
    done = run("\n".join(cell.source for cell in cells(notebook)), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.deep
def test_the_table_of_a_trace_of_ones_own(tmp_path: Path) -> None:
    """With BFIO_TRACE the paper-table notebook runs on a user's trace."""
    trace = tmp_path / "mine.csv"
    write_trace(bfio.synthetic("geometric", 3000, seed=1), trace)
    program = "\n".join(cell.source for cell in cells(DOCS / "notebooks" / "paper-table.md"))
    done = run(f"{program}\nprint(comparison.settings)", tmp_path, BFIO_TRACE=str(trace))
    assert done.returncode == 0, done.stderr
    assert "mine: 3,000 requests" in done.stdout


@pytest.mark.deep
def test_the_claim_is_kept_in_a_file(tmp_path: Path) -> None:
    """The cells up to the claim form a file that `bfio check` accepts."""
    sources = [cell.source for cell in cells(DOCS / "notebooks" / "conjecture.md")]
    claim = next(i for i, text in enumerate(sources) if "CLAIM = Claim(" in text)
    parts = [text for text in sources[: claim + 1] if "plt." not in text and "times" not in text]
    (tmp_path / "more_workers.py").write_text("\n".join([*parts, "CLAIMS = (CLAIM,)\n"]))
    command = [sys.executable, "-m", "bfio", "check", "more_workers.py"]
    for words in ([], ["--record"], []):
        done = subprocess.run(
            [*command, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "refuted" in done.stdout
    assert (tmp_path / "more_workers_record").is_dir()
