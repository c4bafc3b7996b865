"""Read the import graph of the project's files from their sources."""

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.places import ROOT

#: Layers, lowest first.
PACKAGES = ("formulations", "bfio", "proofs_checks", "benchmarks")


@cache
def imports() -> dict[str, frozenset[str]]:
    """Return the modules that each module imports, except imports for types only."""
    names = {_name(path): path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    return {name: frozenset(_imported(path, names)) - {name} for name, path in names.items()}


def between_packages() -> dict[str, frozenset[str]]:
    """Return the folders that each folder directly below a layer imports."""
    folders: dict[str, set[str]] = {}
    for module, imported in imports().items():
        folders.setdefault(_folder(module), set()).update(_folder(name) for name in imported)
    return {name: frozenset(others - {name}) for name, others in folders.items()}


def cycles(graph: Mapping[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """Return the groups of nodes that reach each other, each sorted (Tarjan's algorithm)."""
    found: list[tuple[str, ...]] = []
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(tuple(sorted(group)))

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return found


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _folder(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _imported(path: Path, names: Mapping[str, Path]) -> Iterator[str]:
    for node in statements(ast.parse(path.read_text(encoding="utf-8")), _is_executed):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            targets = [
                full if (full := f"{node.module}.{alias.name}") in names else node.module
                for alias in node.names
            ]
        else:
            continue
        yield from (target for target in targets if target in names)


def _is_executed(node: ast.AST) -> bool:
    """Return whether a statement is executed, not only read by type checkers."""
    return not (
        isinstance(node, ast.If)
        and any(getattr(each, "id", None) == "TYPE_CHECKING" for each in ast.walk(node.test))
    )


def statements(
    tree: ast.AST, wanted: Callable[[ast.AST], bool] = lambda node: True
) -> Iterator[ast.AST]:
    """Yield the wanted statements of a syntax tree; expressions contain none."""
    waiting = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if not isinstance(node, ast.expr) and wanted(node):
                yield node
                waiting.append(node)
