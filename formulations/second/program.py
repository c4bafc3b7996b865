"""The secondary program of a step, stated in Pyomo.

Sets
    those of the step program (`formulations.step.program`); look-ahead steps k of the window
Data (all integers)
    those of the step program, with J its objective
    J_most largest primary objective allowed, c_i cost of admitting request i
    b'_g(k), v'_i(k), w'_k, τ'_g of the window, if there is one
Variables
    x[i,g], M[h], m[h] as in the step program
    window_M[k], window_m[k]  integer  as M and m, of the window's loads
Objective
    min Σ_{i,g} c_i x[i,g] + the objective of the step program for the window's data
Constraints
    (1)-(7) of the step program
    (8) most                 J ≤ J_most
    (9) window_peak[g,k]     window_M[k] ≥ τ'_g L'_g(k)
    (10) window_floor[g,k]   window_m[k] ≤ τ'_g L'_g(k)          (a window of objective "gap" only)
"""

from typing import Any

from formulations.modelling import pyo
from formulations.second.problem import SecondProblem
from formulations.step.program import add_times
from formulations.step.program import build as build_step


def build(problem: SecondProblem, model: Any = None) -> Any:
    """Return the Pyomo model of a secondary problem.

    Parameters
    ----------
    problem : SecondProblem
        Data; at least one waiting request.
    model : pyomo.environ.ConcreteModel, optional
        Model to add to; by default a new one.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    model = build_step(problem.step, model)
    first = model.objective.expr
    model.del_component(model.objective)
    told = "(8) The first objective is within its limit."
    model.most = pyo.Constraint(expr=first <= problem.most, doc=told)
    costs = problem.costs.tolist()
    second = pyo.quicksum(costs[i] * model.x[i, g] for i, g in model.x)
    if problem.window is not None:
        second += add_times(model, problem.window, "window_")
    model.objective = pyo.Objective(expr=second, sense=pyo.minimize)
    return model
