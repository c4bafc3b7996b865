"""Rows that solve the entries of a family with one method, and time them."""

import os
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from benchmarks.library.methods import METHODS, Limits, tried
from bfio.library import Entry, Judged, entries
from bfio.library.store import VERSION
from bfio.step.exact import prepare
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments
from formulations.errors import InputError, use_one_of

ARGUMENTS = ("kind", "family", "method", "time_limit", "seed")


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Check the arguments; the row solves every entry of a kind and family, one after another."""
    del context
    given = Arguments(arguments, ARGUMENTS)
    kind, family = given.text("kind", "step"), given.text("family", "H = 0")
    method, limit = given.text("method", "exact"), given.optional_number("time_limit") or 1.0
    chosen = [e for e in entries() if (e.kind_name, e.family) == (kind, family)]
    if not chosen:
        raise InputError("argument family", f"no {kind} of {family!r}", "see docs/library.md")
    if method not in METHODS[kind]:
        remedy = use_one_of(method, METHODS[kind])
        raise InputError("argument method", f"{method!r} is unknown", remedy)
    limits = Limits(None, limit, given.whole("seed", 0))
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
    """Return the checker's verdict on a method's answer, whether it is proven, and the time."""
    problem = e.problem
    began = time.perf_counter()
    found = tried(METHODS[e.kind_name][method], problem, limits, None)
    seconds = time.perf_counter() - began
    if found.solution is None:
        return None, found.proven, seconds
    return e.kind.judge(problem, e.kind.solution(problem, found.solution)), found.proven, seconds


KIND = planned_kind(
    "library-times",
    "one method on the library's entries of one kind and family",
    plan,
    descriptions("""
        entries | | entries of the family
        proven | | of which the method proved its answer optimal, in integers, within the limit
        reached | | of which its answer is as good as the best known one
        nothing | | of which it found nothing
        median_s | s | median time of a whole call; the limit where it proved nothing
        longest_s | s | the longest
        load_average | | load of the machine
    """),
)
