"""The house stays one that a reader can walk through: no cycles, short functions."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median, quantiles

import pytest

from tests.import_graph import PACKAGES, between_packages, cycles, imports, statements
from tests.places import ROOT

#: Lines of a function, its docstring left out.
MEDIAN, NINETY_PERCENT, LONGEST = 10, 25, 60


def test_no_file_imports_itself_through_others() -> None:
    """Imports of files make no cycle, imports inside functions included."""
    assert cycles(imports()) == []


def test_no_package_imports_itself_through_others() -> None:
    """Nor do those of the folders directly below a layer."""
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
    """The search for cycles finds each group, and nothing where there is none."""
    assert cycles({node: frozenset(others) for node, others in graph.items()}) == found


@dataclass(frozen=True)
class Function:
    """A function of the product: where it is, its lines without docstring, whether it says why."""

    place: str
    lines: int
    gives_reason: bool


def test_functions_are_short() -> None:
    """Few functions are long, and a long one is a kernel that says why it is."""
    functions = list(_functions())
    lengths = [function.lines for function in functions]
    assert median(lengths) < MEDIAN
    assert quantiles(lengths, n=10)[-1] < NINETY_PERCENT
    assert [f.place for f in functions if f.lines > LONGEST and not f.gives_reason] == []


def _functions() -> Iterator[Function]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield _function(node, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, place: str) -> Function:
    docstring = ast.get_docstring(node, clean=False)
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if docstring is not None:
        lines -= docstring.count("\n") + 1
    return Function(place, lines, "long because" in (docstring or "").lower())
