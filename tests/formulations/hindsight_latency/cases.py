"""Problems by hand."""

from collections.abc import Sequence

from bfio.testing.instances import latency_problem
from formulations.hindsight_latency import LatencyProblem

#: Spec kv_cache, section 4.2: shortest first is not optimal. Convention, memory, outputs,
#: shortest-first total latency, optimum. All prompts 1, all arrivals 0.
COUNTEREXAMPLES = (
    ("A", 4, (1, 1, 2, 2), 12, 11),
    ("B", 4, (2, 2, 3, 3), 16, 15),
    ("C", 5, (1, 1, 3, 3), 13, 12),
)


def common_prompt(memory: int, outputs: Sequence[int], convention: str) -> LatencyProblem:
    """Return a problem with prompts of 1 token that all arrive at round 0."""
    return latency_problem(memory, [(0, 1, output) for output in outputs], convention)
