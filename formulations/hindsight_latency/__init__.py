"""The hindsight latency program: when to start each request under one KV cache."""

from typing import TYPE_CHECKING

from formulations.hindsight_latency.check import (
    PriceCertificate,
    brute_force,
    certified_bound,
    lower_bound,
    memory_used,
    total_latency,
    violations,
)
from formulations.hindsight_latency.problem import (
    Convention,
    LatencyProblem,
    LatencyResult,
    kinds,
    occupied_rounds,
)
from formulations.hindsight_latency.solver import LatencyProgram, solve, solve_by_enumeration
from formulations.lazy import lazy_attributes

if TYPE_CHECKING:
    from formulations.hindsight_latency.program import build

__all__ = [
    "Convention",
    "LatencyProblem",
    "LatencyProgram",
    "LatencyResult",
    "PriceCertificate",
    "brute_force",
    "build",
    "certified_bound",
    "kinds",
    "lower_bound",
    "memory_used",
    "occupied_rounds",
    "solve",
    "solve_by_enumeration",
    "total_latency",
    "violations",
]

# Stating a program needs Pyomo, which loads at first use.
__getattr__, __dir__ = lazy_attributes(
    __name__, {"formulations.hindsight_latency.program": "build"}
)
