"""Check the code structure: no import cycles, and docstrings with existing parameter names."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.import_graph import PACKAGES, between_packages, cycles, imports, statements
from tests.places import ROOT


def test_no_file_imports_itself_through_others() -> None:
    """File imports form no cycle, including imports inside functions."""
    assert cycles(imports()) == []


def test_no_package_imports_itself_through_others() -> None:
    """Imports between the folders directly below a layer form no cycle."""
    assert cycles(between_packages()) == []


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, [("a", "b", "c")]),
        ({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c", "a"}}, [("a", "b"), ("c", "d")]),
    ],
)
def test_a_cycle_is_noticed(graph: dict[str, set[str]], found: list[tuple[str, ...]]) -> None:
    """The search finds each group of cyclic imports, and nothing in an acyclic graph."""
    assert cycles({node: frozenset(others) for node, others in graph.items()}) == found


def _documented(source: str) -> Iterator[tuple[str, str]]:
    """Yield each parameter that a docstring documents but the signature lacks, with its owner."""
    for node in statements(ast.parse(source)) if "Parameters" in source else ():
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if "Parameters" not in (ast.get_docstring(node, clean=False) or ""):
            continue
        text, section = ast.get_docstring(node) or "", ""
        taken = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        for line, below in pairwise([*text.splitlines(), ""]):
            if re.fullmatch("-{3,}", below):
                section = line
            elif section == "Parameters" and re.match("[^ -]", line):
                for name in line.partition(" : ")[0].replace("*", "").split(", "):
                    # A class may inherit its fields, so only the form of the name is known.
                    known = (
                        name.isidentifier() if isinstance(node, ast.ClassDef) else name in taken
                    )
                    if not known:
                        yield node.name, name


def test_documented_parameters_exist() -> None:
    """Each documented parameter is in the signature, or is a name used in the class."""
    unknown = {
        (str(path.relative_to(ROOT)), *found)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for found in _documented(path.read_text(encoding="utf-8"))
    }
    assert unknown == set()


def test_an_undocumented_name_is_noticed() -> None:
    """The check reports text in place of a parameter name, and a removed parameter."""
    doc = '"""Do.\n\n    Parameters\n    ----------\n    {}\n        Text.\n    """'
    function, data = f"def f(x):\n    {doc}", f"class C:\n    {doc}"
    assert list(_documented(function.format("x : int") + "\n\n" + data.format("y : int"))) == []
    assert list(_documented(function.format("y : int"))) == [("f", "y")]
    assert list(_documented(data.format("All n requests."))) == [("C", "All n requests.")]
