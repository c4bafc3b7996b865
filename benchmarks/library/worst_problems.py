"""The smallest instances found by searches for the worst case of a policy (study 41)."""

from collections.abc import Iterator
from typing import Any

from bfio.worst_cases.barrier import BarrierSpace, Criterion
from bfio.worst_cases.cache import CacheSpace
from formulations.hindsight_latency import Convention

FAMILY = "worst cases"
#: Memory, convention, outputs for Algorithm 1; all prompts are 1, all arrivals 0.
_ALGORITHM_1 = (
    (6, "A", (2, 2, 3, 3)), (6, "A", (2, 2, 3, 4, 4)), (6, "A", (1, 1, 1, 2, 2, 2)),
    (6, "A", (1, 1, 1, 2, 2, 4, 4)), (6, "B", (3, 3, 4, 4)), (6, "B", (3, 3, 4, 5, 5)),
    (6, "B", (2, 2, 2, 3, 3, 3)), (6, "B", (2, 2, 2, 3, 3, 5, 5)), (5, "C", (1, 1, 3, 3)),
    (5, "C", (1, 1, 3, 3, 3)), (7, "C", (1, 1, 1, 3, 3, 3)), (7, "C", (1, 1, 1, 2, 2, 4, 4)),
)  # fmt: skip
#: Memory, convention, pairs of arrival and output for MC-SF; all prompts are 1.
_MC_SF = (
    (8, "C", ((0, 7), (1, 3))), (8, "C", ((0, 7), (1, 3), (5, 1))),
    (8, "A", ((0, 7), (1, 3), (5, 1))), (8, "B", ((0, 8), (1, 4), (5, 2))),
)  # fmt: skip


#: Policy, workers, criterion, pairs of prompt and output; one slot per worker, all arrivals 0.
_BARRIER = (
    ("fcfs", 2, "peaks", ((1, 1), (2, 1), (1, 2))),
    ("fcfs", 2, "peaks", ((1, 1), (3, 2), (1, 1), (3, 2))),
    ("fcfs", 3, "peaks", ((1, 1), (1, 2), (2, 1), (1, 2))),
    ("br-0", 2, "peaks", ((1, 1), (3, 1), (3, 1))),
    ("br-0", 2, "peaks", ((1, 1), (1, 3), (1, 1), (1, 3))),
    ("br-0", 3, "peaks", ((1, 1), (1, 1), (1, 2), (1, 2))),
    ("bf-io", 2, "peaks", ((1, 3), (2, 1), (2, 2))),
    ("br-h-known", 2, "peaks", ((1, 1), (1, 2), (2, 1))),
    ("jsq-bound", 2, "peaks", ((1, 1), (2, 3), (1, 1), (2, 3))),
    ("jsq-bound", 3, "peaks", ((1, 2), (1, 1), (2, 1), (1, 2))),
    ("fcfs", 2, "steps", ((1, 1), (1, 1), (1, 2))),
    ("fcfs", 3, "steps", ((1, 1),) * 6 + ((1, 3),)),
)


def worst_problems() -> Iterator[tuple[str, str, str, str, str, dict[str, Any]]]:
    """Yield kind, name, family, description, source and document of each instance."""
    listed = [("algorithm-1", m, c, [(0, o) for o in outputs]) for m, c, outputs in _ALGORITHM_1]
    listed += [("mc-sf", m, c, list(rows)) for m, c, rows in _MC_SF]
    for policy, memory, convention, rows in listed:
        space = CacheSpace(len(rows), memory, convention=Convention(convention))
        name = f"latency-worst-{policy}-n{len(rows)}-{convention.lower()}"
        about = f"worst for {policy} of its size, memory {memory}, convention {convention}"
        document = space.problem(memory, rows).to_mapping()
        yield "latency", name, FAMILY, about, "synthetic", document
    for policy, workers, criterion, requests in _BARRIER:
        barrier = BarrierSpace(len(requests), workers, criterion=Criterion(criterion))
        name = f"makespan-worst-{policy}-{workers}x1-n{len(requests)}-{criterion}"
        about = f"worst for {policy} of its size, {workers} workers of 1 slot, {criterion}"
        document = barrier.problem(requests).to_mapping()
        yield "makespan", name, FAMILY, about, "synthetic", document
