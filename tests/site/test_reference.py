"""The reference holds every public name, and the built pages name nothing from elsewhere."""

import pkgutil
import re
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.site

#: What plug-ins are made of, beside what the packages export.
CONTRACTS = (
    "bfio.cli.command.Command",
    "bfio.common.compilable.compilable",
    "bfio.common.metrics.MetricTable",
    "bfio.decode.machine.kernel.Kernel",
    "bfio.decode.observers.Observer",
    "bfio.decode.policy.Policy",
    "bfio.decode.policy_spec.PolicySpec",
    "bfio.decode.predictor.PredictionTask",
    "bfio.decode.predictor.Predictor",
    "bfio.decode.predictor.PredictorSpec",
    "bfio.kvcache.policy.CachePolicy",
    "bfio.kvcache.simulation.serve",
    "bfio.studies.row_kind.RowKind",
    "bfio.wait.policy.StagePolicy",
    "bfio.wait.simulation.serve",
    "formulations.formulation.Formulation",
)
_LINE = re.compile(r"^(\S+) py:(\w+) ", re.MULTILINE)


def documented(site: Path) -> set[str]:
    """Return the names of the inventory that Sphinx writes beside the pages."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {name for name, _ in _LINE.findall(zlib.decompress(packed).decode())}


def public_names() -> list[str]:
    """Return what every package of the three exports, by its full name."""
    names = []
    for top in ("bfio", "formulations", "proofs_checks"):
        path = import_module(top).__path__
        packages = [p.name for p in pkgutil.walk_packages(path, f"{top}.") if p.ispkg]
        for package in (top, *packages):
            exported = getattr(import_module(package), "__all__", ())
            names += [f"{package}.{name}" for name in exported if not name.startswith("_")]
    return names


def home(name: str) -> Any:
    """Return the object of a full name."""
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def missing(names: list[str], known: set[str]) -> list[str]:
    """Return the names that are in the reference neither so nor under another name of theirs."""
    objects = set()
    for name in known:
        try:
            objects.add(id(home(name)))
        except (ImportError, AttributeError, ValueError):
            continue  # a method, or a module
    return [name for name in names if name not in known and id(home(name)) not in objects]


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    """What packages export, and what plug-ins are made of."""
    names = public_names()
    assert {"bfio.compare", "formulations.step.StepProblem", "proofs_checks.Claim"} <= set(names)
    assert missing([*names, *CONTRACTS], documented(site)) == []


def test_a_missing_name_is_noticed(site: Path) -> None:
    """Without its entry a name is missing; another name of the same object will do."""
    known = documented(site)
    assert missing(["bfio.compare"], known - {"bfio.compare"}) == ["bfio.compare"]
    assert missing(["bfio.workloads.Workload"], known - {"bfio.workloads.Workload"}) == []


def test_no_page_asks_for_anything_from_elsewhere(site: Path) -> None:
    """Scripts, styles, images and fonts lie in the site; links may lead out."""
    loaded = re.compile(
        r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=[\"'](?:https?:)?//[^>]*>"
    )
    fetched = re.compile(r"(?:url\(|@import )[\"']?(?:https?:)?//")
    for page in site.rglob("*.html"):
        assert loaded.findall(page.read_text(encoding="utf-8")) == [], page
    for style in site.rglob("*.css"):
        assert not fetched.search(style.read_text(encoding="utf-8")), style
