"""Rows that solve the library entries of a family with one method, and time the solves."""

import os
from collections.abc import Mapping
from statistics import median
from typing import Any

from benchmarks.library.methods import METHODS, Limits, tried
from bfio.common.clock import timed
from bfio.library import Entry, Judged, entries
from bfio.library.store import VERSION
from bfio.step.exact import prepare
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments, refused

ARGUMENTS = ("kind", "family", "method", "time_limit", "seed")


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Check the arguments of a row, which solves all entries of a kind and family in turn."""
    given = Arguments(arguments, ARGUMENTS)
    kind, family = given.text("kind", "step"), given.text("family", "H = 0")
    chosen = [e for e in entries() if (e.kind_name, e.family) == (kind, family)]
    if not chosen:
        raise refused("family", f"kind {kind} has no family {family!r}", "see docs/library.md")
    method = given.choice("method", list(METHODS[kind]), "exact")
    seconds = given.optional_number("time_limit") or 1.0
    limits = Limits(None, seconds, given.whole("seed", 0))
    return Planned(f"library {VERSION}", lambda: _measured(chosen, method, limits))


def _measured(chosen: list[Entry], method: str, limits: Limits) -> RowResult:
    prepare()
    # Load solvers and kernels first, so that no measured solve includes it.
    _solved(chosen[0], method, Limits(None, min(0.2, limits.seconds), limits.seed))
    solved = [_solved(e, method, limits) for e in chosen]
    seconds = [spent if proven else limits.seconds for _, proven, spent in solved]
    found = [(e.best, judged) for e, (judged, _, _) in zip(chosen, solved, strict=True)]
    violated = {
        f"{e.name}.{name}": int(by) or 1
        for e, (judged, _, _) in zip(chosen, solved, strict=True)
        if judged is not None
        for name, by in judged.violations.items()
    }
    proofs = [proven for _, proven, _ in solved]
    return RowResult(
        values={
            "entries": len(chosen),
            "proven": sum(proofs),
            "reached": sum(
                best is not None and judged is not None and judged.objective == best.objective
                for best, judged in found
            ),
            "nothing": sum(judged is None for judged, _, _ in solved),
        },
        timings={
            "median_s": median(seconds),
            "longest_s": max(seconds),
            "load_average": os.getloadavg()[0],
        },
        solves=len(chosen),
        # The number of unproven entries is the measured quantity here, not a defect of the row.
        unproven=0,
        violations=violated,
    )


def _solved(e: Entry, method: str, limits: Limits) -> tuple[Judged | None, bool, float]:
    """Return the verdict on a method's answer, whether it is proven, and the time [s]."""
    problem = e.problem
    solve = METHODS[e.kind_name][method]
    found, seconds = timed(lambda: tried(solve, problem, limits, None))
    if found.solution is None:
        return None, found.proven, seconds
    return e.kind.judge(problem, e.kind.solution(problem, found.solution)), found.proven, seconds


KIND = planned_kind(
    "library-times",
    "one method on the library's entries of one kind and family",
    plan,
    descriptions("""
        entries | | entries of the family
        proven | | entries whose answer the method proved optimal, in integers, within the limit
        reached | | entries whose answer is as good as the best known one
        nothing | | entries for which the method found no answer
        median_s | s | median time of a call; the limit if nothing was proven
        longest_s | s | longest time of a call
        load_average | | load average of the machine
    """),
)
