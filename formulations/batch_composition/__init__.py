"""The batch program: which tokens of which requests the next iteration of an engine processes.

``build(problem)`` states the program in Pyomo. ``solve(problem)`` fills the batch by weight where
this is optimal, otherwise it calls a backend. ``violations(problem, prefill, decode)`` checks a
batch against (2.5a) to (2.5d) of the throughput-optimal paper. ``gap`` returns the worth that a
batch lacks to the optimum. Pyomo and solvers are loaded at first use.
"""

from typing import TYPE_CHECKING

from formulations.batch_composition.check import (
    brute_force,
    num_in_batch,
    objective_of,
    violations,
    worth,
)
from formulations.batch_composition.problem import (
    BatchProblem,
    BatchResult,
    aging_weights,
    phase_weights,
    shortest_first_weights,
)
from formulations.batch_composition.solver import greedy, least_objective
from formulations.lazy import lazy_attributes

if TYPE_CHECKING:
    from formulations.batch_composition.program import build
    from formulations.batch_composition.solver import BatchProgram, gap, solve

__all__ = [
    "BatchProblem",
    "BatchProgram",
    "BatchResult",
    "aging_weights",
    "brute_force",
    "build",
    "gap",
    "greedy",
    "least_objective",
    "num_in_batch",
    "objective_of",
    "phase_weights",
    "shortest_first_weights",
    "solve",
    "violations",
    "worth",
]

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "formulations.batch_composition.program": "build",
        "formulations.batch_composition.solver": "BatchProgram gap solve",
    },
)
