"""The structure of the code: no import cycles."""

import pytest

from tests.import_graph import between_packages, cycles, imports


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
