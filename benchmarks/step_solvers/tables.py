"""Tables of the step cases: times by method, how the exact method closes, disagreements."""

from collections.abc import Sequence
from typing import TypeAlias

from benchmarks.case import Row
from benchmarks.step_solvers.verdict import is_refuted
from benchmarks.summary import duration, grouped, markdown_table, median, p99, plain, share

_Group: TypeAlias = tuple[str, int, str, int, str, float]

_TIME_COLUMNS = (
    "group",
    "method",
    "n",
    "unfinished",
    "proven",
    "median",
    "p99",
    "max",
    "÷ exact",
    "build",
    "above optimum",
    "claims refuted",
)
_STAGE_COLUMNS = (
    "group",
    "n",
    "closed-form",
    "bound",
    "columns",
    "enumeration",
    "solver",
    "open",
    "without solver",
    "certificates derived",
    "refused",
    "median",
    "p99",
)
#: Ways of closing that need no general solver.
_OWN_STAGES = ("closed-form", "bound", "columns", "enumeration")


def step_tables(rows: Sequence[Row]) -> str:
    """Return the tables of one step case; failed rows count as unfinished where they can."""
    measured = [row for row in rows if row["measured"] is not None]
    parts = ["Times: an unfinished solve counts as the limit.\n", _time_table(measured)]
    exact = [row for row in measured if row["method"] == "exact"]
    if exact:
        parts += ["\nHow the exact method closes, and its certificates:\n", _stage_table(exact)]
    return "\n".join(parts)


def group_of(row: Row) -> _Group:
    """Return what the rows of one line of a table share."""
    given = row["parameters"]
    return (
        given["workload"],
        given["output_mean"],
        given["projection"],
        given["horizon"],
        given["kind"],
        given["time_limit"],
    )


def best_known(rows: Sequence[Row]) -> dict[str, int]:
    """Return the proven optimum of each instance that has one."""
    return {
        row["instance"]: row["measured"]["objective"] for row in rows if row["measured"]["proven"]
    }


def paired_ratios(rows: Sequence[Row], reference: Sequence[Row]) -> list[float]:
    """Return time over reference time per instance, where both were measured in one run."""
    times = {(r["instance"], r["run"]): r["measured"]["counted_s"] for r in reference}
    return [
        row["measured"]["counted_s"] / times[key]
        for row in rows
        if (key := (row["instance"], row["run"])) in times
    ]


def _time_table(rows: Sequence[Row]) -> str:
    lines = []
    for group, members in grouped(rows, group_of).items():
        by_method = grouped(members, lambda row: str(row["method"]))
        optima = best_known(members)
        of_instance = grouped(members, lambda row: str(row["instance"]))
        for method, own in by_method.items():
            refuted = sum(is_refuted(row, of_instance[row["instance"]]) for row in own)
            lines.append(
                [
                    _group_label(group),
                    method,
                    *_time_cells(own),
                    _ratio(own, by_method.get("exact", [])),
                    duration(median([row["measured"]["phases"]["build"] for row in own])),
                    _excess(own, optima),
                    str(refuted),
                ]
            )
    return markdown_table(_TIME_COLUMNS, lines)


def _time_cells(rows: Sequence[Row]) -> list[str]:
    times = [row["measured"]["counted_s"] for row in rows]
    unfinished = sum(not row["measured"]["finished"] for row in rows)
    proven = sum(row["measured"]["proven"] for row in rows)
    return [
        str(len(rows)),
        str(unfinished),
        str(proven),
        duration(median(times)),
        duration(p99(times)),
        duration(max(times)),
    ]


def _ratio(rows: Sequence[Row], reference: Sequence[Row]) -> str:
    return plain(median(paired_ratios(rows, reference)))


def _excess(rows: Sequence[Row], optima: dict[str, int]) -> str:
    """Mean distance to the proven optima, in the units of the objective."""
    above = [
        row["measured"]["objective"] - optima[row["instance"]]
        for row in rows
        if row["instance"] in optima and row["measured"]["objective"] is not None
    ]
    return plain(sum(above) / len(above) if above else None)


def _stage_table(rows: Sequence[Row]) -> str:
    lines = []
    for group, members in grouped(rows, group_of).items():
        closed = [row["measured"]["closed_by"] for row in members]
        own = sum(stage in _OWN_STAGES for stage in closed)
        unproven = closed.count(None)
        lines.append(
            [
                _group_label(group),
                str(len(members)),
                *(str(closed.count(stage)) for stage in _OWN_STAGES),
                str(len(members) - own - unproven),
                str(unproven),
                share(own, len(members)),
                *_certificate_cells(members),
            ]
        )
    return markdown_table(_STAGE_COLUMNS, lines)


def _certificate_cells(rows: Sequence[Row]) -> list[str]:
    found = [c for row in rows if (c := row["measured"]["certificate"]) is not None]
    checked = [c for c in found if c["derived"] is not None]
    times = [c["seconds"] for c in checked]
    return [
        str(sum(c["derived"] for c in checked)),
        str(sum(not c["derived"] for c in checked)),
        duration(median(times)),
        duration(p99(times)),
    ]


def _group_label(group: _Group) -> str:
    workload, mean, projection, horizon, kind, limit = group
    return f"{workload}, mean {mean}, {projection}, H={horizon}, {kind}, limit {limit:g} s"
