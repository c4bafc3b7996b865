"""Tables of the engine cases, and the exponent of growth."""

from collections.abc import Sequence

import numpy as np

from benchmarks.case import Row
from benchmarks.summary import duration, grouped, markdown_table, plain

_SPEED_COLUMNS = (
    "instance",
    "policy",
    "asked",
    "ran",
    "steps",
    "time",
    "in policy",
    "steps/s",
    "requests/s",
    "steady steps/s",
    "steady requests/s",
    "÷ reference",
    "memory before",
    "peak memory",
)


def speed_tables(rows: Sequence[Row]) -> str:
    """Return one line per simulation."""
    measured = [row for row in rows if row["measured"] is not None]
    return markdown_table(_SPEED_COLUMNS, [_speed_line(row, measured) for row in measured])


def growth_tables(rows: Sequence[Row]) -> str:
    """Return the simulations, and the exponent of time over requests for each policy."""
    lines = [
        [policy, engine, str(len(points)), plain(growth_exponent(points))]
        for (policy, engine), points in growth_points(rows).items()
    ]
    fitted = markdown_table(("policy", "asked", "sizes", "exponent"), lines)
    return (
        speed_tables(rows)
        + "\nTime ~ requests^exponent (least squares in logarithms):\n\n"
        + fitted
    )


def growth_points(rows: Sequence[Row]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return (requests, seconds) of each policy and engine, from rows of its latest run only."""
    measured = [row for row in rows if row["measured"] is not None]
    series = grouped(
        measured, lambda r: (str(r["parameters"]["policy"]), str(r["parameters"]["engine"]))
    )
    return {
        name: sorted(
            (row["parameters"]["requests"], row["measured"]["wall_s"])
            for row in members
            if row["run"] == members[-1]["run"]
        )
        for name, members in series.items()
    }


def growth_exponent(points: Sequence[tuple[int, float]]) -> float | None:
    """Return the slope of log time over log requests; None of fewer than two sizes."""
    if len({size for size, _ in points}) < 2:
        return None
    sizes, times = np.log(np.array(points, dtype=np.float64)).T
    return float(np.polyfit(sizes, times, 1)[0])


def speedup(row: Row, rows: Sequence[Row]) -> float | None:
    """Return reference time over time of a row, measured in the same run."""
    for other in rows:
        same = other["instance"] == row["instance"] and other["run"] == row["run"]
        policy = other["parameters"]["policy"] == row["parameters"]["policy"]
        if same and policy and other["parameters"]["engine"] == "reference":
            return float(other["measured"]["wall_s"] / row["measured"]["wall_s"])
    return None


def _speed_line(row: Row, rows: Sequence[Row]) -> list[str]:
    given, measured = row["parameters"], row["measured"]
    steady = measured["steady"] or {}
    return [
        row["instance"],
        given["policy"],
        given["engine"],
        measured["engine"],
        plain(measured["steps"]),
        duration(measured["wall_s"]),
        duration(measured["decide_s"]),
        plain(measured["steps_per_s"]),
        plain(measured["requests_per_s"]),
        plain(steady.get("steps_per_s")),
        plain(steady.get("requests_per_s")),
        plain(speedup(row, rows)),
        _mebibytes(measured["memory_before_bytes"]),
        _mebibytes(measured["peak_memory_bytes"]),
    ]


def _mebibytes(number: int) -> str:
    return f"{number / 2**20:,.0f} MiB"
