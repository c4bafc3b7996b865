"""The import closure contains every import of a module, wherever and in whatever form it is."""

from pathlib import Path

import pytest

from bfio.common.provenance import closure_digest, import_closure


@pytest.mark.parametrize(
    "statement",
    [
        "import used",
        "import os, used",
        "import used as other",
        "from used import name",
        "def f():\n    import used",
        "def f():\n    from used import name",
        "try: import used\nexcept ImportError: pass",
        "a = 1; from used import name",
        "from package import (\n    deep,\n)",
        "from package import \\\n    deep",
        "from package.deep import name",
        "import package.deep",
    ],
)
def test_a_change_in_what_is_imported_counts(tmp_path: Path, statement: str) -> None:
    """At the top, in a function, in one line, over several lines."""
    _write(tmp_path, top=statement)
    before = closure_digest("top", root=tmp_path)
    for module in ("used", "package/deep"):
        with (tmp_path / f"{module}.py").open("a", encoding="utf-8") as file:
            file.write("# changed\n")
    assert closure_digest("top", root=tmp_path) != before


@pytest.mark.parametrize(
    "source",
    [
        "",
        "unused = 3",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import used\n\nx = 1",
        "# import used",
        '"""It does not import used."""',
    ],
)
def test_a_change_elsewhere_does_not(tmp_path: Path, source: str) -> None:
    """What only type checkers or readers see is no import."""
    _write(tmp_path, top=source)
    before = closure_digest("top", root=tmp_path)
    (tmp_path / "used.py").write_text("# changed\n", encoding="utf-8")
    assert closure_digest("top", root=tmp_path) == before


def test_a_searched_package_counts_whole(tmp_path: Path) -> None:
    """As registries find what lies in a folder."""
    _write(tmp_path, top="import package\nfor module in iter_modules(package.__path__): pass")
    (tmp_path / "package" / "inner").mkdir()
    (tmp_path / "package" / "inner" / "part.py").write_text("", encoding="utf-8")
    found = set(import_closure("top", root=tmp_path))
    assert found == {"package", "package.deep", "package.inner.part", "top"}


def test_relative_imports_are_followed(tmp_path: Path) -> None:
    """From the package around a module."""
    _write(tmp_path, top="")
    (tmp_path / "package" / "side.py").write_text("from . import deep\n", encoding="utf-8")
    assert "package.deep" in import_closure("package.side", root=tmp_path)


def test_the_project_is_followed_and_installed_packages_are_not() -> None:
    """Policies are found by their registry, lazily loaded names by their homes."""
    modules = set(import_closure("bfio.decode.policy_registry"))
    assert {"bfio.decode.policies.by_key", "formulations.errors"} <= modules
    assert not {name for name in modules if name.partition(".")[0] not in ("bfio", "formulations")}
    assert "bfio.decode.simulation" in import_closure("bfio")
    assert "bfio.decode.simulation" not in import_closure("bfio.kvcache.simulation")


def _write(folder: Path, *, top: str) -> None:
    (folder / "top.py").write_text(top + "\n", encoding="utf-8")
    (folder / "used.py").write_text("name = 1\n", encoding="utf-8")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("", encoding="utf-8")
    (folder / "package" / "deep.py").write_text("name = 1\n", encoding="utf-8")
