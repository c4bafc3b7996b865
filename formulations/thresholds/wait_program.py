"""The WAIT threshold program, stated once.

Sets
    classes j = 0..m−1
Data (integers, after scaling row j by q_j)
    λ_j rate, w_j work of a request; d0, d1 times; C memory
    q_j least common denominator of λ_j d0 and λ_j d1
    u_j a solution (`WaitProblem.upper_vector`), so that the least one is not above it
    ε = 1 for the strict condition, else 0
Variables
    n[j] integer in 1..u_j      threshold of class j, per stage
Objective
    memory          min Σ_j w_j n[j]
Constraints
    (1) served[j]   q_j n[j] − q_j λ_j d1 Σ_i w_i n[i] >= q_j λ_j d0 + ε             equation (9)
    (2) within      Σ_j w_j n[j] <= C                               (only if memory is enforced)

Rows of integers exceed a number strictly iff they exceed it by 1. Solutions of (1) are closed
under componentwise minima: lowering the other entries only shortens the batch. So there is a least
solution; it alone is optimal, and it minimises every threshold at once. The linear relaxation is
`formulations.fluid.equilibrium_program`. The paper leaves the choice of thresholds open.
"""

from fractions import Fraction
from math import lcm
from typing import Any

import pyomo.environ as pyo

from formulations.thresholds.wait_problem import WaitProblem


def build(problem: WaitProblem, model: Any = None) -> Any:
    """State the program of a problem with load below 1.

    Parameters
    ----------
    problem : WaitProblem
        Data.
    model : pyomo.environ.ConcreteModel, optional
        Model to add to; by default a new one.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module's text.
    """
    model = pyo.ConcreteModel(name="wait_thresholds") if model is None else model
    upper = problem.upper_vector()
    model.classes = pyo.RangeSet(0, len(upper) - 1)
    model.n = pyo.Var(
        model.classes,
        domain=pyo.PositiveIntegers,
        bounds={j: (1, most) for j, most in enumerate(upper)},
    )
    memory = pyo.quicksum(w * model.n[j] for j, w in enumerate(problem.weights))

    def served(model: Any, j: int) -> Any:
        coefficients, right = served_row(problem, j)
        return pyo.quicksum(a * model.n[i] for i, a in enumerate(coefficients)) >= right

    model.served = pyo.Constraint(model.classes, rule=served)
    if problem.within_memory:
        model.within = pyo.Constraint(expr=memory <= problem.worker.memory)
    model.objective = pyo.Objective(expr=memory, sense=pyo.minimize)
    return model


def served_row(problem: WaitProblem, j: int) -> tuple[list[int], int]:
    """Return (1) of class j in integers: its coefficients and its right-hand side."""
    rate = problem.arriving[j]
    per_batch, per_token = rate * problem.worker.d0, rate * problem.worker.d1
    return integer_row(per_batch, per_token, problem.weights, j, strict=problem.strict)


def integer_row(
    per_batch: Fraction,
    per_token: Fraction,
    weights: tuple[int, ...],
    j: int,
    *,
    strict: bool,
) -> tuple[list[int], int]:
    """Return ``n_j >= per_batch + per_token·Σ w_i n_i`` (or ``>``) multiplied to integers."""
    scale = lcm(per_batch.denominator, per_token.denominator)
    row = [-int(scale * per_token * w) for w in weights]
    row[j] += scale
    return row, int(scale * per_batch) + int(strict)
