"""Read notebooks stored as text, and run their cells without Jupyter."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.places import DOCS
from tests.processes import python

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.md"))
_CELL = re.compile(
    r"^```\{code-cell\} ipython3\n(---\n.*?^---\n|(?::[^\n]*\n)*)(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Cell:
    """One code cell of a notebook: its options and its source."""

    options: str
    source: str


def cells(notebook: Path) -> list[Cell]:
    """Return the code cells of a notebook in order."""
    return [Cell(*found) for found in _CELL.findall(notebook.read_text(encoding="utf-8"))]


def run(program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the source of notebook cells as one program in a folder."""
    return python("-c", program, cwd=folder, env=environment, check=False)
