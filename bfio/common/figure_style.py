"""How figures look."""

from typing import Any

#: Look of every figure, of commands and of the benchmarks.
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 9,
    "axes.titlesize": 10,
    "legend.frameon": False,
}
