"""Check that the reference pages list every public name, without building the site."""

from pathlib import Path

import pytest

from tests.reference import CONTRACTS, announced, missing, public_names


def test_every_public_name_has_a_place() -> None:
    """The reference lists all exported names and all plug-in types."""
    names = public_names()
    assert {"bfio.compare", "formulations.step.StepProblem", "proofs_checks.Claim"} <= set(names)
    assert missing((*names, *CONTRACTS), announced()) == []


@pytest.mark.parametrize(
    ("directive", "found"),
    [
        ("automodule:: bfio.decode.stints", {"bfio.decode.stints.Stints"}),
        ("automodule:: bfio.decode.stints\n   :exclude-members: Stints", set()),
        ("autodata:: bfio.decode.metrics.METRICS", {"bfio.decode.metrics.METRICS"}),
        # Exported, but not described where it is exported.
        ("automodule:: bfio.decode.metrics", {"bfio.decode.metrics.METRICS"}),
        ("automodule:: bfio.decode.simulation", set()),
    ],
)
def test_a_page_announces_what_is_written(tmp_path: Path, directive: str, found: set[str]) -> None:
    """A directive lists these names: members of modules, and described or named data."""
    (tmp_path / "page.md").write_text(f"```{{eval-rst}}\n.. {directive}\n```\n", encoding="utf-8")
    names = {"bfio.decode.stints.Stints", "bfio.decode.metrics.METRICS"}
    names.add("bfio.decode.simulation.METRICS")
    assert announced(tmp_path) & names == found


def test_a_missing_name_is_noticed() -> None:
    """A name without an entry is reported missing, unless the same object is listed otherwise."""
    known = announced()
    assert missing(("bfio.compare",), known - {"bfio.compare"}) == ["bfio.compare"]
    assert missing(("bfio.workloads.Workload",), known - {"bfio.workloads.Workload"}) == []
