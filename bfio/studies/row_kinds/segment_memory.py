"""Rows that compute the memory of Nested WAIT with L segments (fluid paper, figures 15 to 18)."""

import json
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from bfio.common.options import from_mapping
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments, digest_of
from bfio.studies.row_parts.wait_offer import (
    CLASS_ARGUMENTS,
    ClassOptions,
    WantedRate,
    fluid_of,
    multiplied,
    needed_horizon,
    probability_of,
    spread,
)
from formulations.fluid import FluidProblem
from formulations.thresholds import (
    LogArgument,
    NestedProblem,
    SegmentPlan,
    batch_time,
    best_plan,
    equal_boundaries,
    nested_violations,
    plan,
)
from formulations.thresholds.buffer import printed_segment_memory

ARGUMENTS = (*CLASS_ARGUMENTS, "segments", "horizon_s", "probability", "logarithm", "raised")
_OF_PLANS = descriptions(
    """
    num_segments | | segments of the plan
    boundaries | | last stage of each segment
    thresholds | | prompts per stage of each segment
    policy_batch_s | s | duration of the full batch of the thresholds
    batch_memory | tokens | full batch, the first part of (12)
    waiting_memory | tokens | waiting cohorts, the second part of (12)
    deviation_memory | tokens | deviations, the third part of (12)
    total_memory | tokens | memory that suffices with the given probability
    total_memory_share | 1 | `total_memory` / memory of the worker
    batch_share | share | `batch_memory` / `total_memory`
    printed_batch_memory | tokens | full batch as printed in (14); None unless equally wide
    printed_total_memory | tokens | `total_memory` with the full batch as printed
    printed_over_exact | 1 | `printed_batch_memory` / `batch_memory`
    least_exponent | 1 | smallest root of (16)
    """
)
VALUES = descriptions(
    """
    keeps_up | | whether thresholds exist; otherwise the other values are None
    segment_load | 1 | load if requests are as long as their segment
    """
)


def plan_row(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    file = fluid_of(from_mapping(ClassOptions, given.given), context)
    what = given.choice("spread", ("none", "classes"))
    problem = _problem(file, what == "classes", from_mapping(WantedRate, given.given))
    is_best = given.given.get("segments") == "best"
    if not is_best:
        count = given.whole("segments", len(problem.group.outputs), minimum=1)
        problem = problem.with_boundaries(equal_boundaries(problem.group.outputs, count))
    solve = partial(
        best_plan if is_best else plan,
        problem,
        duration=needed_horizon(given, "give the seconds for which the memory must suffice"),
        probability=probability_of(given) or Fraction(1, 10),
        argument=LogArgument(given.choice("logarithm", tuple(LogArgument), LogArgument.PROOF)),
        raised=given.flag("raised"),
    )
    digest = digest_of(json.dumps(file.to_mapping()))

    def compute() -> RowResult:
        found = solve()
        values: dict[str, Value] = dict.fromkeys(entry.name for entry in _OF_PLANS)
        # Use the segments of the plan, because `best_plan` chooses them.
        chosen = problem if found is None else found.problem
        values |= {"keeps_up": found is not None, "segment_load": float(chosen.load)}
        if found is None:
            return RowResult(values, violations={})
        broken = nested_violations(chosen, found.thresholds)
        return RowResult(values | plan_values(chosen, found), violations=broken)

    return Planned(digest, compute)


def plan_values(problem: NestedProblem, found: SegmentPlan) -> dict[str, Value]:
    """Return the three parts of the memory (12), and the memory with the full batch of (14).

    The printed formula assumes segments of equal width. Otherwise its values are None.
    """
    buffer, worker, full = found.buffer, problem.worker, found.buffer.policy_memory
    ends, prompt = problem.group.ends, problem.group.prompt
    printed = None
    if ends[0] and ends == tuple(range(ends[0], ends[-1] + 1, ends[0])):
        printed = printed_segment_memory(prompt, ends[0], found.thresholds)
    values: dict[str, Value] = {
        "num_segments": found.num_segments,
        "boundaries": ",".join(map(str, found.boundaries)),
        "thresholds": ",".join(map(str, found.thresholds)),
        "policy_batch_s": float(batch_time(worker, problem.weights, found.thresholds)),
        "batch_memory": full,
        "waiting_memory": buffer.waiting,
        "deviation_memory": buffer.deviation,
        "total_memory": buffer.total,
        # The exponent of a segment without a queue before it is infinite.
        "least_exponent": min((t for t in buffer.exponents if t < float("inf")), default=None),
    }
    if buffer.total is not None:
        values["total_memory_share"] = buffer.total / worker.memory
        values["batch_share"] = full / buffer.total
    if printed is not None:
        values["printed_batch_memory"] = float(printed)
        values["printed_over_exact"] = float(printed / full)
    if printed is not None and buffer.total is not None:
        rest = buffer.waiting + (buffer.deviation or 0)
        values["printed_total_memory"] = float(printed + rest)
    return values


# Many rows differ only in their segments.
@lru_cache(maxsize=64)
def _problem(file: FluidProblem, is_spread: bool, wanted: WantedRate) -> NestedProblem:
    offered = spread(file) if is_spread else file
    return NestedProblem.single_from_fluid(multiplied(offered, wanted.met_by(offered)))


KIND = planned_kind(
    "segment-memory",
    "memory of Nested WAIT for a number of segments",
    plan_row,
    [*VALUES, *_OF_PLANS],
)
