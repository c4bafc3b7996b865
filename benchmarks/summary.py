"""Figures of merit and their Markdown tables."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
Group = TypeVar("Group", bound=Hashable)


def median(values: Sequence[float]) -> float | None:
    """Return the median; None of no values."""
    return float(np.median(values)) if values else None


def p99(values: Sequence[float]) -> float | None:
    """Return the 99th percentile as a value that was observed (the next higher one)."""
    return float(np.percentile(values, 99, method="higher")) if values else None


def grouped(items: Iterable[Item], key: Callable[[Item], Group]) -> dict[Group, list[Item]]:
    """Collect items by key, keys in the order they first appear."""
    groups: dict[Group, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, its first column to the left and all others to the right."""
    lines = [
        "| " + " | ".join(columns) + " |",
        "|" + "|".join(["---"] + ["---:"] * (len(columns) - 1)) + "|",
    ]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def duration(seconds: float | None) -> str:
    """Write a time with three digits and a unit that fits; a dash for None."""
    if seconds is None:
        return "–"
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"


def plain(value: float | None) -> str:
    """Write a number with three digits, thousands separated; a dash for None."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 999.5 or value == int(value) else f"{value:.3g}"


def share(part: int, whole: int) -> str:
    """Write a count and its share of a whole."""
    return f"{part} ({100 * part / whole:.1f} %)" if whole else "0"
