"""The version of the code changes if and only if the code that computes a row changes."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bfio.common.provenance import import_closure
from bfio.studies.kinds import code_version, module_of
from tests.processes import python


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an importable folder with a row function that imports a helper, which imports too."""
    (tmp_path / "code_rows.py").write_text("import code_helper\n\ndef row(a, c):\n    return {}\n")
    (tmp_path / "code_helper.py").write_text("def f():\n    from code_package import deep\n")
    (tmp_path / "code_package").mkdir()
    (tmp_path / "code_package" / "__init__.py").write_text("")
    (tmp_path / "code_package" / "deep.py").write_text("K = 1\n")
    (tmp_path / "code_stranger.py").write_text("K = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    for name in list(sys.modules):
        if name.startswith("code_"):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("code_rows.py", True),
        ("code_helper.py", True),
        ("code_package/deep.py", True),
        ("code_package/__init__.py", True),
        ("code_stranger.py", False),
    ],
)
def test_a_change_counts_if_rows_import_it(folder: Path, file: str, counts: bool) -> None:
    """In turn, and wherever the import statement stands."""
    before = code_version("code_rows:row")
    (folder / file).write_text((folder / file).read_text() + "# changed\n")
    assert (code_version("code_rows:row") != before) is counts


def test_a_built_in_kind_counts_what_it_imports() -> None:
    """Not the runner, commands and reports around it, nor what only other kinds compute with."""
    modules = import_closure(module_of("kv-cache"))
    assert {"bfio.kvcache.simulation", "bfio.studies.row_parts.workload_arguments"} <= set(modules)
    strangers = ("bfio.cli", "bfio.studies.kinds", "bfio.studies.report", "bfio.studies.runner")
    assert not [name for name in modules if name.startswith((*strangers, "bfio.decode"))]
    assert code_version("simulate") != code_version("kv-cache")


def test_nothing_that_runs_is_left_out() -> None:
    """A row loads what its kind counts, and besides only what packages around it offer."""
    script = (
        "import sys; from pathlib import Path; from bfio.studies.row import RowContext;"
        "from bfio.studies.row_kinds.kv_cache import KIND;"
        "laws = {'prompts': 'homogeneous:value=2', 'outputs': 'geometric:mean=3'};"
        "KIND.compute({**laws, 'requests': 9, 'memory': 99, 'load': 0.5}, RowContext(Path()));"
        "print(*(n for n in sys.modules if n.startswith(('bfio.', 'formulations.'))))"
    )
    done = python("-c", script)
    offered = import_closure("bfio.workloads", "bfio.kvcache", "bfio.studies.row_kinds")
    counted = {*import_closure(module_of("kv-cache")), *offered}
    around = {
        "bfio.studies",
        "bfio.studies.row_parts",
        "bfio.kvcache.machine",
        "formulations.lazy",
    }
    assert set(done.stdout.split()) - counted - around == set()
