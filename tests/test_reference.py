"""Every public name has its place in the reference, read from its pages without building it."""

from pathlib import Path

import pytest

from tests.reference import CONTRACTS, announced, missing, public_names


def test_every_public_name_has_a_place() -> None:
    """What packages export, and what plug-ins are made of."""
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
        ("automodule:: bfio.decode.own_metrics", set()),
    ],
)
def test_a_page_announces_what_is_written(tmp_path: Path, directive: str, found: set[str]) -> None:
    """Of these names; modules by their members, data if they are described or named."""
    (tmp_path / "page.md").write_text(f"```{{eval-rst}}\n.. {directive}\n```\n", encoding="utf-8")
    names = {"bfio.decode.stints.Stints", "bfio.decode.metrics.METRICS"}
    names.add("bfio.decode.own_metrics.METRICS")
    assert announced(tmp_path) & names == found


def test_a_missing_name_is_noticed() -> None:
    """Without its entry a name is missing; another name of the same object will do."""
    known = announced()
    assert missing(("bfio.compare",), known - {"bfio.compare"}) == ["bfio.compare"]
    assert missing(("bfio.workloads.Workload",), known - {"bfio.workloads.Workload"}) == []
