"""Mutation testing: create functions with one small mistake, which tests must detect.

A mutant differs from its function in one place: a comparison with another treatment of equality or
reversed, a constant changed by one, plus instead of minus, min instead of max, a call or an update
removed. `Mutant.planted` inserts it into the function itself, wherever that was imported to.
"""

import ast
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
#: Inserts a mistake, or removes it again.
Edit = Callable[[], None]


@dataclass(frozen=True)
class Mutant:
    """A function with one mistake.

    Parameters
    ----------
    place : str
        Name of the function, and the line with the mistake.
    function : FunctionType
        The original function.
    code : CodeType
        Its code with the mistake.
    """

    place: str
    function: FunctionType
    code: CodeType

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Insert the mistake into the function inside the ``with`` block."""
        right = self.function.__code__
        self.function.__code__ = self.code
        try:
            yield
        finally:
            self.function.__code__ = right


def mutants(module: ModuleType) -> list[Mutant]:
    """Return all mutants of the functions and methods of a module."""
    tree = ast.parse(inspect.getsource(module))
    found: dict[str, Mutant] = {}
    for name, function, body, around in _functions(tree, module):
        right = ast.unparse(body)
        for make, undo in _edits(body):
            make()
            code = _code_of(compile(around, f"<mutant of {module.__name__}>", "exec"), name)
            place = f"{name}: {_changed(right, ast.unparse(body))}"
            undo()
            found[place] = Mutant(place, function, code)
    return list(found.values())


def _functions(
    tree: ast.Module, module: ModuleType
) -> Iterator[tuple[str, FunctionType, ast.AST, ast.Module]]:
    """Yield name, function, syntax tree, and the tree around it, of each function of a module."""
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        owner: Any = getattr(module, node.name) if isinstance(node, ast.ClassDef) else module
        for each in inner:
            if isinstance(each, ast.FunctionDef):
                function = owner.__dict__[each.name]
                assert isinstance(function, FunctionType)
                around = ast.Module([node], [])
                yield function.__qualname__, function, ast.Module(each.body, []), around


def _code_of(code: CodeType, name: str) -> CodeType:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == name:
                return constant
            if name.startswith(f"{constant.co_qualname}."):
                return _code_of(constant, name)
    raise LookupError(name)


def _changed(before: str, after: str) -> str:
    """Return the changed line, before and after the change."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    right, wrong = next((a.strip(), b.strip()) for a, b in pairs if a != b)
    return f"{right} -> {wrong}"


def _edits(body: ast.AST) -> Iterator[tuple[Edit, Edit]]:
    for node in ast.walk(body):
        if isinstance(node, ast.Compare):
            for k, kind in enumerate(map(type, node.ops)):
                if kind in _COMPARISONS:
                    yield _entry(node.ops, k, _COMPARISONS[kind]())
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield _field(node, "value", not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield _field(node, "value", node.value + 1)
            yield _field(node, "value", node.value - 1)
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
            yield _field(node, "op", _ARITHMETIC[type(node.op)]())
        elif isinstance(node, ast.BoolOp):
            yield _field(node, "op", ast.And() if isinstance(node.op, ast.Or) else ast.Or())
        elif isinstance(node, ast.Name) and node.id in _NAMES:
            yield _field(node, "id", _NAMES[node.id])
        elif isinstance(node, ast.Attribute) and node.attr in _NAMES:
            yield _field(node, "attr", _NAMES[node.attr])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield _field(node, "op", ast.UAdd())
        for _, block in ast.iter_fields(node):
            if isinstance(block, list):
                for k, inner in enumerate(block):
                    if isinstance(inner, ast.AugAssign) or _is_call(inner):
                        yield _entry(block, k, ast.copy_location(ast.Pass(), inner))


def _is_call(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _field(node: ast.AST, name: str, wrong: Any) -> tuple[Edit, Edit]:
    right = getattr(node, name)
    return lambda: setattr(node, name, wrong), lambda: setattr(node, name, right)


def _entry(entries: list[Any], k: int, wrong: Any) -> tuple[Edit, Edit]:
    right = entries[k]
    return lambda: entries.__setitem__(k, wrong), lambda: entries.__setitem__(k, right)
