"""The hindsight makespan program: start and worker of each request, with all data known."""

from typing import TYPE_CHECKING

from formulations.hindsight_makespan.bound import lower_bound
from formulations.hindsight_makespan.check import (
    Trajectory,
    brute_force,
    objective_value,
    trajectory,
    violations,
)
from formulations.hindsight_makespan.kinds import kinds, latest_starts, list_schedule
from formulations.hindsight_makespan.problem import (
    MakespanObjective,
    MakespanProblem,
    MakespanResult,
)
from formulations.hindsight_makespan.solver import MakespanProgram, solve, solve_by_enumeration
from formulations.lazy import lazy_attributes

if TYPE_CHECKING:
    from formulations.hindsight_makespan.program import build

__all__ = [
    "MakespanObjective",
    "MakespanProblem",
    "MakespanProgram",
    "MakespanResult",
    "Trajectory",
    "brute_force",
    "build",
    "kinds",
    "latest_starts",
    "list_schedule",
    "lower_bound",
    "objective_value",
    "solve",
    "solve_by_enumeration",
    "trajectory",
    "violations",
]

# Stating a program needs Pyomo, which loads at first use.
__getattr__, __dir__ = lazy_attributes(
    __name__, {"formulations.hindsight_makespan.program": "build"}
)
