"""The reference holds every public name, and the built pages name nothing from elsewhere."""

import re
import zlib
from pathlib import Path

import pytest

from tests.reference import CONTRACTS, missing, public_names

pytestmark = pytest.mark.site

_LINE = re.compile(r"^(\S+) py:(\w+) ", re.MULTILINE)


def documented(site: Path) -> set[str]:
    """Return the names in the inventory file that Sphinx writes."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {name for name, _ in _LINE.findall(zlib.decompress(packed).decode())}


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    """What packages export, and what plug-ins are made of."""
    names = public_names()
    assert {"bfio.compare", "formulations.step.StepProblem", "proofs_checks.Claim"} <= set(names)
    assert missing((*names, *CONTRACTS), documented(site)) == []


def test_a_missing_name_is_noticed(site: Path) -> None:
    """Without its entry a name is missing; another name of the same object will do."""
    known = documented(site)
    assert missing(("bfio.compare",), known - {"bfio.compare"}) == ["bfio.compare"]
    assert missing(("bfio.workloads.Workload",), known - {"bfio.workloads.Workload"}) == []


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
