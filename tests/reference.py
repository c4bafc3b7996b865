"""List the public names, and the names in the reference pages."""

import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.places import DOCS

#: What plug-ins are made of, beside what the packages export.
CONTRACTS = (
    "bfio.cli.command.Command",
    "bfio.common.compilable.compilable",
    "bfio.common.metrics.MetricTable",
    "bfio.decode.machine.kernel.Kernel",
    "bfio.decode.observers.Observer",
    "bfio.decode.policy.Policy",
    "bfio.decode.policy_spec.PolicySpec",
    "bfio.prediction.predictor.PredictionTask",
    "bfio.prediction.predictor.Predictor",
    "bfio.prediction.predictor.PredictorSpec",
    "bfio.kvcache.policy.CachePolicy",
    "bfio.kvcache.simulation.serve",
    "bfio.studies.row_kind.RowKind",
    "bfio.wait.policy.StagePolicy",
    "bfio.wait.simulation.serve",
    "formulations.formulation.Formulation",
)
_DIRECTIVE = re.compile(r"^\.\. auto(module|data|class|function):: (\S+)\n((?: +:.*\n)*)", re.M)
_EXCLUDED = re.compile(r":exclude-members: (.*)")
_DESCRIBED = re.compile(r"^#:.*\n(?:#.*\n)*(\w+)(?:: [^\n=]*)? =", re.M)


@cache
def public_names() -> tuple[str, ...]:
    """Return the full names that the packages export."""
    names = []
    for top in ("bfio", "formulations", "proofs_checks"):
        path = import_module(top).__path__
        packages = [p.name for p in pkgutil.walk_packages(path, f"{top}.") if p.ispkg]
        for package in (top, *packages):
            exported = getattr(import_module(package), "__all__", ())
            names += [f"{package}.{name}" for name in exported if not name.startswith("_")]
    return tuple(names)


def home(name: str) -> Any:
    """Return the object with a full name."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def missing(names: tuple[str, ...], known: set[str]) -> list[str]:
    """Return the names that are missing in the reference, under all names of their objects."""
    objects = set()
    for name in known:
        try:
            objects.add(id(home(name)))
        except (ImportError, AttributeError, ValueError):
            continue  # a method, or a module
    return [name for name in names if name not in known and id(home(name)) not in objects]


def announced(folder: Path = DOCS / "api") -> set[str]:
    """Return the full names that the reference pages list through Sphinx directives.

    A module's names are those in its ``__all__``, otherwise those defined in it. Data count only
    if the module describes them or a page names them.
    """
    found = set()
    for page in sorted(folder.glob("*.md")):
        for kind, name, options in _DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if kind == "module":
                excluded = _EXCLUDED.search(options)
                left_out = excluded[1].split(", ") if excluded else []
                found |= {
                    f"{name}.{member}" for member in _members(name) if member not in left_out
                }
            else:
                found.add(name)
    return found


def _members(name: str) -> Iterator[str]:
    module = import_module(name)
    described = _DESCRIBED.findall(inspect.getsource(module))
    exported = getattr(module, "__all__", None)
    for member in dir(module) if exported is None else exported:
        value = getattr(module, member)
        is_code = inspect.isclass(value) or inspect.isroutine(value)
        is_own = exported is not None or getattr(value, "__module__", "") == name
        if not member.startswith("_") and (is_own if is_code else member in described):
            yield member
