"""The offline optimum of total latency for one KV cache, with certified bounds."""

from bfio.hindsight.latency.solve import (
    HindsightResult,
    HindsightSeconds,
    solve_hindsight,
    solve_latency,
)
from formulations.hindsight_latency.check import PriceCertificate, certified_bound

__all__ = [
    "HindsightResult",
    "HindsightSeconds",
    "PriceCertificate",
    "certified_bound",
    "solve_hindsight",
    "solve_latency",
]
