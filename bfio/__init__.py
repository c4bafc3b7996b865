"""Scheduling and load balancing in LLM serving: policies, exact solvers, simulators, studies.

The names below are loaded at first use, so that ``import bfio`` and ``bfio --help`` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from formulations.lazy import lazy_attributes

if TYPE_CHECKING:
    from bfio.decode.cluster import Cluster
    from bfio.decode.comparison import Comparison, compare
    from bfio.decode.energy_model import EnergyModel
    from bfio.decode.options import RunOptions
    from bfio.decode.run import Run
    from bfio.decode.simulation import simulate
    from bfio.decode.state import DecodeState
    from bfio.gap import GapReport, measure_gap
    from bfio.prediction.evaluation import evaluate_predictor
    from bfio.prediction.report import PredictorReport
    from bfio.programs import build, check, relaxation, solve, write
    from bfio.step.solve import solve_step
    from bfio.version import __version__
    from bfio.workloads import Workload, read_trace, synthetic
    from formulations.step import StepProblem

__all__ = [
    "Cluster",
    "Comparison",
    "DecodeState",
    "EnergyModel",
    "GapReport",
    "PredictorReport",
    "Run",
    "RunOptions",
    "StepProblem",
    "Workload",
    "__version__",
    "build",
    "check",
    "compare",
    "evaluate_predictor",
    "measure_gap",
    "read_trace",
    "relaxation",
    "simulate",
    "solve",
    "solve_step",
    "synthetic",
    "write",
]


_load, __dir__ = lazy_attributes(
    __name__,
    {
        "bfio.decode.cluster": "Cluster",
        "bfio.decode.comparison": "Comparison compare",
        "bfio.decode.energy_model": "EnergyModel",
        "bfio.decode.options": "RunOptions",
        "bfio.decode.run": "Run",
        "bfio.decode.simulation": "simulate",
        "bfio.decode.state": "DecodeState",
        "bfio.gap": "GapReport measure_gap",
        "bfio.prediction.evaluation": "evaluate_predictor",
        "bfio.prediction.report": "PredictorReport",
        "bfio.programs": "build check relaxation solve write",
        "bfio.step.solve": "solve_step",
        "bfio.version": "__version__",
        "bfio.workloads": "Workload read_trace synthetic",
        "formulations.step": "StepProblem",
    },
)


def __getattr__(name: str) -> object:
    return import_module("bfio.testing") if name == "testing" else _load(name)
