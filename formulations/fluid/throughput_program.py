"""The memory-constrained throughput program, stated once.

Sets
    classes j = 0..m−1; workers g = 0..G−1; routes (j, g) with g open to j
Data (rationals)
    λ_j rate [1/s], w_j work of a request [token-iterations]
    v_j worth of a request: l'_j + 1 stages, or l'_j decode tokens
    K_g = C_g / (d0_g + d1_g C_g), work a worker does per second with full memory
Variables
    x[j,g] >= 0         rate of class j that worker g admits [1/s]
Objective
    throughput          max Σ_{j,g} v_j x[j,g]            (stated as min of its negative)
Constraints
    (1) rate[j]         Σ_g x[j,g] <= λ_j
    (2) work[g]         Σ_j w_j x[j,g] <= K_g

(2) says that the equilibrium memory ``d0·A/(1 − d1·A)`` of the admitted work rate A is at most C.
With one worker, or if all classes may use all workers, this is a fractional knapsack
(`knapsack`). The paper states no linear program: where its M* exceeds the memory it only says that
its throughput (8) is out of reach.
"""

from typing import Any

from formulations.fluid.objective import FluidObjective
from formulations.fluid.problem import FluidProblem
from formulations.linear.exact_linear import allow_fractions
from formulations.modelling import pyo
from formulations.problem_data import member


def build(problem: FluidProblem, *, objective: FluidObjective = FluidObjective.STAGES) -> Any:
    """State the program.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    objective : FluidObjective
        What a request is worth.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module's text.
    """
    objective = member(FluidObjective, objective, "objective")
    allow_fractions()
    model = pyo.ConcreteModel(name="fluid_throughput")
    classes = problem.classes
    add_routes(model, problem)
    model.rate = pyo.Constraint(
        range(len(classes)), rule=lambda model, j: _of_class(model, j) <= classes[j].rate
    )
    add_work(model, problem)
    model.objective = pyo.Objective(
        expr=-pyo.quicksum(objective.worth(classes[j]) * model.x[j, g] for j, g in model.routes),
        sense=pyo.minimize,
    )
    return model


def add_routes(model: Any, problem: FluidProblem) -> None:
    """Add the admitted rates, one for every route."""
    model.routes = pyo.Set(
        initialize=[
            (j, g)
            for j, kind in enumerate(problem.classes)
            for g in range(len(problem.workers))
            if kind.may_use(g)
        ],
        dimen=2,
    )
    model.x = pyo.Var(model.routes, domain=pyo.NonNegativeReals)


def add_work(model: Any, problem: FluidProblem) -> None:
    """(2) No worker does more work than full memory allows."""
    # A worker that nothing may use would have a row without variables.
    used = sorted({g for _, g in model.routes})

    def rule(model: Any, g: int) -> Any:
        terms = (problem.classes[j].work * model.x[j, h] for j, h in model.routes if h == g)
        return pyo.quicksum(terms) <= problem.workers[g].capacity

    model.work = pyo.Constraint(used, rule=rule)


def _of_class(model: Any, j: int) -> Any:
    return pyo.quicksum(model.x[i, g] for i, g in model.routes if i == j)
