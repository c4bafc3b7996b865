"""Scheduling and load balancing in LLM serving: policies, exact solvers, simulators, studies.

The names below are loaded when first used, so that ``import bfio`` and ``bfio --help`` stay fast.
"""

from typing import TYPE_CHECKING

from formulations.lazy import lazy_attributes

if TYPE_CHECKING:
    from bfio.decode.cluster import Cluster
    from bfio.decode.comparison import Comparison, compare
    from bfio.decode.gap import GapReport, measure_gap
    from bfio.decode.simulation import simulate
    from bfio.decode.state import DecodeState
    from bfio.step.solve import solve_step
    from bfio.workloads import Workload, read_trace, synthetic
    from formulations.step import StepProblem

_HOMES = {
    "Cluster": "bfio.decode.cluster",
    "Comparison": "bfio.decode.comparison",
    "DecodeState": "bfio.decode.state",
    "GapReport": "bfio.decode.gap",
    "StepProblem": "formulations.step",
    "Workload": "bfio.workloads",
    "compare": "bfio.decode.comparison",
    "measure_gap": "bfio.decode.gap",
    "read_trace": "bfio.workloads",
    "simulate": "bfio.decode.simulation",
    "solve_step": "bfio.step.solve",
    "synthetic": "bfio.workloads",
}

__all__ = [
    "Cluster",
    "Comparison",
    "DecodeState",
    "GapReport",
    "StepProblem",
    "Workload",
    "compare",
    "measure_gap",
    "read_trace",
    "simulate",
    "solve_step",
    "synthetic",
]


__getattr__ = lazy_attributes(__name__, _HOMES)
