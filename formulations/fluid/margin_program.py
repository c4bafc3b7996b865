"""The capacity margin of several workers, stated once.

Sets and data as in `throughput_program`
Variables
    x[j,g] >= 0         rate of class j routed to worker g [1/s]
    margin >= 0         common factor on all rates
Objective
    max margin                                              (stated as min of its negative)
Constraints
    (1) routed[j]       Σ_g x[j,g] >= λ_j margin
    (2) work[g]         Σ_j w_j x[j,g] <= K_g

The rates are in the stability region, ``Σ_j w_j x[j,g] <= K_g`` for some routing of all of them,
iff the margin is at least 1. Its dual prices p_g >= 0 of work satisfy, for every rate vector of
the region, ``Σ_j λ_j w_j min_{g open to j} p_g <= Σ_g K_g p_g``: with a margin below 1 they
separate λ from it. If all workers are open to all classes the margin is ``Σ_g K_g / Σ_j λ_j w_j``.
"""

from typing import Any

from formulations.fluid.problem import FluidProblem
from formulations.fluid.throughput_program import add_routes, add_work
from formulations.linear.exact_linear import allow_fractions
from formulations.modelling import pyo


def build(problem: FluidProblem) -> Any:
    """State the program.

    Parameters
    ----------
    problem : FluidProblem
        Data.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module's text.
    """
    allow_fractions()
    model = pyo.ConcreteModel(name="fluid_margin")
    add_routes(model, problem)
    model.margin = pyo.Var(domain=pyo.NonNegativeReals)

    def routed(model: Any, j: int) -> Any:
        served = pyo.quicksum(model.x[i, g] for i, g in model.routes if i == j)
        return served >= problem.classes[j].rate * model.margin

    model.routed = pyo.Constraint(range(len(problem.classes)), rule=routed)
    add_work(model, problem)
    model.objective = pyo.Objective(expr=-model.margin, sense=pyo.minimize)
    return model
