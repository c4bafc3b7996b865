"""Every package with a ``program.py`` implements the interface of a formulation."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from formulations.formulation import Formulation
from formulations.results import ProgramResult
from tests.places import ROOT

PACKAGES = sorted(path.parent for path in (ROOT / "formulations").glob("*/program.py"))
#: Headings of the module docstring of a statement.
SECTIONS = ("\nSets\n", "\nData", "\nVariables\n", "\nObjective\n", "\nConstraints\n")
#: Modules of its package that a checker must not import: it reads the data only.
UNKNOWN_TO_CHECKERS = ("backends", "bound", "formulation", "matrix", "program", "solver")


def test_there_are_formulations() -> None:
    """The tests below find at least one package."""
    assert {path.name for path in PACKAGES} >= {"step", "hindsight_latency", "thresholds"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_formulation_keeps_the_contract(package: Path) -> None:
    """A statement under its mathematics, a `Formulation` of its own, and its ``solve``."""
    offered = import_module(f"formulations.{package.name}")
    statement = import_module(f"formulations.{package.name}.program")
    assert callable(statement.build)
    assert [section for section in SECTIONS if section not in str(statement.__doc__)] == []
    names = getattr(offered, "__all__", vars(offered))
    values = [getattr(offered, name) for name in names]
    programs = [
        value
        for value in values
        if isinstance(value, type) and issubclass(value, Formulation) and value is not Formulation
    ]
    assert programs
    for program in programs:
        assert program.__abstractmethods__ == frozenset()
        assert program.words.title
        assert issubclass(program.result, ProgramResult)
        assert program.result.solution_fields
        assert set(program.result.solution_fields) <= set(program.result.__dataclass_fields__)
    assert callable(offered.solve)


@pytest.mark.parametrize(
    "package", [p for p in PACKAGES if (p / "check.py").exists()], ids=lambda path: path.name
)
def test_a_checker_knows_the_data_only(package: Path) -> None:
    """It imports no solver, bound or statement."""
    tree = ast.parse((package / "check.py").read_text())
    imported = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for part in node.module.split(".")
    }
    assert imported.isdisjoint(UNKNOWN_TO_CHECKERS)
    assert any(
        isinstance(node, ast.FunctionDef) and node.name.endswith("violations")
        for node in tree.body
    )
