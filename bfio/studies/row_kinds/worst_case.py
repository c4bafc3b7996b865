"""Rows that search small instances for the largest cost ratio of a policy to the optimum."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from bfio.decode.options import Dispatch
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import (
    Arguments,
    algorithm_digest,
    convention_of,
    digest_of,
    refused,
)
from bfio.worst_cases.barrier import BarrierSpace, BarrierTarget, Criterion, Known
from bfio.worst_cases.cache import CacheSpace, CacheTarget
from bfio.worst_cases.case import Case
from bfio.worst_cases.search import Method, worst_case

_COMMON = ("system", "policy", "requests", "prompt", "longest", "method", "steps", "seed")
_OWN = {
    "cache": ("memory", "least_memory", "last_arrival", "convention"),
    "barrier": ("workers", "slots", "criterion", "known", "dispatch"),
}
#: Arguments of a row.
ARGUMENTS = (*_COMMON, *_OWN["cache"], *_OWN["barrier"])
VALUES = descriptions(
    """
    cost | | cost of the policy's schedule
    least | | cost of the optimum, or of the better known schedule
    ratio | 1 | `cost` / `least`; None if only `least` is 0
    exact | | the ratio as a fraction
    instance | | the instance in short form
    tried | | instances on which the policy ran
    optima | | instances with a computed optimum
    is_maximal | | whether the search proves that no instance in the space is worse
    """
)


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    system = given.choice("system", tuple(_OWN))
    for other, names in _OWN.items():
        for name in filter(given.has, names):
            if other != system:
                raise refused(name, f"needs system = {other}", "remove it")
    target, space = _cache(given) if system == "cache" else _barrier(given)
    method = Method(given.choice("method", tuple(Method)))
    steps, seed = given.whole("steps", 2000, minimum=1), given.whole("seed", 0)

    def compute() -> RowResult:
        found = worst_case(target, space, method, steps=steps, seed=seed)
        case = found.case
        values = {
            "cost": case.cost,
            "least": case.least,
            "ratio": None if case.ratio is None else float(case.ratio),
            "exact": "none" if case.ratio is None else str(case.ratio),
            "instance": in_short(case),
            "tried": found.tried,
            "optima": found.solved,
            "is_maximal": found.is_maximal,
        }
        return RowResult(values, violations=case.violations())

    source = algorithm_digest(given.text("policy", "fcfs"))
    return Planned(digest_of(f"{space}{source}"), compute, draws=method is Method.LOCAL)


def _cache(given: Arguments) -> tuple[CacheTarget, CacheSpace]:
    space = CacheSpace(
        requests=given.whole("requests", 4),
        memory=given.whole("memory", 6),
        least_memory=given.optional_whole("least_memory"),
        prompt=given.whole("prompt", 1),
        last_arrival=given.whole("last_arrival", 0),
        longest=given.optional_whole("longest"),
        convention=convention_of(given),
    )
    return CacheTarget(given.text("policy", "semi-online")), space


def _barrier(given: Arguments) -> tuple[BarrierTarget, BarrierSpace]:
    space = BarrierSpace(
        requests=given.whole("requests", 4),
        workers=given.whole("workers", 2),
        slots=given.whole("slots", 1),
        prompt=given.whole("prompt", 3),
        output=given.whole("longest", 3),
        criterion=Criterion(given.choice("criterion", tuple(Criterion))),
    )
    known = Known(given.choice("known", tuple(Known)))
    dispatch = Dispatch(given.choice("dispatch", tuple(Dispatch)))
    return BarrierTarget(given.text("policy", "fcfs"), known, dispatch), space


def in_short(case: Case) -> str:
    """Return an instance as one line of text.

    For a cache, such as ``M=6 [2 3@1 4x2]``: the output of each request, then ``@`` and the
    arrival if not 0, then ``x`` and the number of equal requests. For the barrier, such as
    ``[1+2 3+1]``: prompt + output of each request, in order.
    """
    document = case.problem.to_mapping()
    rows = document["requests"]
    if "memory" in document:
        alike = Counter(
            f"{row['output']}" + (f"@{row['arrival']}" if row["arrival"] else "") for row in rows
        )
        told = " ".join(f"{one}x{count}" if count > 1 else one for one, count in alike.items())
        return f"M={document['memory']} [{told}]"
    if len(rows) > 12:
        return f"{len(rows)} requests"
    told = " ".join(f"{row['prompt']}+{row['output']}" for row in rows)
    return f"[{told}]"


KIND = planned_kind(
    "worst-case",
    "small instance with the largest ratio of a policy's cost to the optimum",
    plan,
    VALUES,
)
