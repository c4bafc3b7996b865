"""Certificates in the tables of proofs, checked on the printed numbers."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

import proofs_checks
from proofs_checks.papers.fluid.blind_throughput import State, certified_rate, states

PROOFS = Path(proofs_checks.__file__).parent / "proofs"
_ROW = re.compile(r"\| (\d+) \| (\d+) \| (\d+(?:, \d+)*) \|")


def printed_potential() -> dict[State, int]:
    """Read the table of proposition5.md: ten times h(u, k, v)."""
    text = (PROOFS / "proposition5.md").read_text(encoding="utf-8")
    return {
        (u, int(k), int(v)): int(entry)
        for v, k, entries in _ROW.findall(text)
        for u, entry in enumerate(entries.split(","))
    }


def test_the_printed_potential_proves_24_fifths() -> None:
    """All 3,592 inequalities, on the printed table."""
    potential = printed_potential()
    assert sorted(potential) == sorted(states(9))
    assert potential[0, 0, 0] == min(potential.values()) == 0
    half, eighteenth = Fraction(1, 2), Fraction(1, 18)
    assert certified_rate(potential, 10, 9, half, eighteenth) <= Fraction(24, 5)


def test_a_printed_potential_that_evictions_raise_is_refused() -> None:
    """One entry changed so that an eviction pays."""
    potential = printed_potential()
    potential[1, 0, 0] = -1
    with pytest.raises(ArithmeticError, match="eviction"):
        certified_rate(potential, 10, 9, Fraction(1, 2), Fraction(1, 18))
