"""The fluid equilibrium of one worker as a linear program, stated once.

Sets
    classes j = 0..m−1
Data (rationals)
    λ_j rate, w_j work of a request (`RequestClass.work`); d0, d1 times; C memory
Variables
    count[j] >= 0       requests of class j in each of its stages
    time >= 0           length of an iteration [s]
Objective
    memory              min Σ_j w_j count[j]
Constraints
    (1) served[j]       count[j] >= λ_j time         arrivals of an iteration = its completions
    (2) duration        time >= d0 + d1 Σ_j w_j count[j]                          equation (1)
    (3) within          Σ_j w_j count[j] <= C                        (only if memory is enforced)

With ``ρ = d1·Σ λ_j w_j < 1`` the optimum is unique and has equality in (1) and (2), which are the
balance equations: it is the closed form (6), (7). Summing (1) with the weights w_j and putting in
(2) gives ``(1 − ρ)·memory >= d0·A > 0``, so with ``ρ >= 1`` there is no feasible point.

Whole counts instead of real ones make it the integer program of WAIT's thresholds
(`formulations.thresholds`): this is its linear relaxation. The paper states no linear program.
"""

from typing import Any

from formulations.fluid.problem import FluidProblem
from formulations.linear.exact_linear import allow_fractions
from formulations.modelling import pyo


def build(problem: FluidProblem, *, within_memory: bool = False) -> Any:
    """State the program of a problem with one worker.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    within_memory : bool
        Whether (3) is stated.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module's text.
    """
    allow_fractions()
    worker = problem.single_worker()
    model = pyo.ConcreteModel(name="fluid_equilibrium")
    model.classes = pyo.RangeSet(0, len(problem.classes) - 1)
    model.count = pyo.Var(model.classes, domain=pyo.NonNegativeReals)
    model.time = pyo.Var(domain=pyo.NonNegativeReals)
    memory = pyo.quicksum(kind.work * model.count[j] for j, kind in enumerate(problem.classes))
    model.served = pyo.Constraint(
        model.classes,
        rule=lambda model, j: model.count[j] >= problem.classes[j].rate * model.time,
    )
    model.duration = pyo.Constraint(expr=model.time >= worker.d0 + worker.d1 * memory)
    if within_memory:
        model.within = pyo.Constraint(expr=memory <= worker.memory)
    model.objective = pyo.Objective(expr=memory, sense=pyo.minimize)
    return model
