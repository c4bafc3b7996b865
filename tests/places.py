"""Paths of the checkout and of its documents."""

from pathlib import Path

#: The checkout.
ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
STUDIES = ROOT / "benchmarks" / "studies"
