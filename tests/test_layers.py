"""Check the layer rule: formulations <- bfio <- {proofs_checks, benchmarks} <- tests.

And that nothing of the live services is loaded where nothing is served.
"""

import ast
import re

import pytest

from tests.import_graph import statements
from tests.places import ROOT
from tests.processes import python

#: What each layer may import of the project.
ALLOWED = {
    "formulations": {"formulations"},
    "bfio": {"formulations", "bfio"},
    "proofs_checks": {"formulations", "bfio", "proofs_checks"},
    "benchmarks": {"formulations", "bfio", "benchmarks"},
    "tests": {"formulations", "bfio", "proofs_checks", "benchmarks", "tests"},
}


def imported_packages(source: str) -> set[str]:
    """Return the top-level names of every import in a source text, local imports included."""
    names: set[str] = set()
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level else node.module or ".")
    return {name.split(".")[0] or "." for name in names}


def upward_imports(layer: str, source: str) -> set[str]:
    """Return the forbidden project imports, and relative imports, of a file in ``layer``."""
    forbidden = set(ALLOWED) - ALLOWED[layer]
    # Most files contain none of the names, so that they need not be parsed.
    if not re.search("|".join((r"from[\s\\]*\.", *forbidden)), source):
        return set()
    return imported_packages(source) & {*forbidden, "", "."}


@pytest.mark.parametrize("layer", ALLOWED)
def test_imports_go_one_way(layer: str) -> None:
    """No file imports a layer above its own."""
    broken = {
        str(path.relative_to(ROOT)): found
        for path in sorted((ROOT / layer).rglob("*.py"))
        if (found := upward_imports(layer, path.read_text(encoding="utf-8")))
    }
    assert broken == {}


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("formulations", "import bfio.decode"),
        ("formulations", "def f():\n    from bfio import simulate"),
        ("bfio", "from proofs_checks import claims"),
        ("bfio", "import benchmarks"),
        ("proofs_checks", "import tests.conftest"),
        ("bfio", "from . import decode"),
    ],
)
def test_an_upward_import_is_noticed(layer: str, source: str) -> None:
    """An upward import is reported, so that the rule can fail."""
    assert upward_imports(layer, source)


#: Packages of the extra `serve`.
SERVERS = ("starlette", "uvicorn", "uvloop", "httptools", "prometheus_client")


def test_other_commands_load_no_server() -> None:
    """Nor do the library, all commands' arguments, and a simulation."""
    code = (
        "import sys, bfio; from bfio.cli import main; from bfio.cli.command import commands\n"
        "bfio.simulate(bfio.synthetic('demo', 3, seed=1), 'fcfs', bfio.Cluster(workers=2))\n"
        "from bfio.cli.command import OneLineParser\n"
        "[c.add_arguments(OneLineParser()) for c in commands().values()]\n"
        f"print([name for name in {SERVERS} if name in sys.modules])"
    )
    done = python("-c", code)
    assert done.stdout == "[]\n"
