"""The Nested WAIT threshold program, stated once.

Sets
    segments i = 1..L of stages
Data (integers, after scaling)
    s_i memory of one request in every stage of segment i; d0, d1 times; C memory
    Λ_i rate of requests that reach segment i; P_i = Λ_i/Λ_{i−1} = u_i/v_i in lowest terms
    q least common denominator of Λ_1 d0 and Λ_1 d1; ε = 1 for strict conditions, else 0
Variables
    n[i] integer in 1..largest      threshold of segment i, per stage
Objective
    memory          min Σ_i s_i n[i]
Constraints
    (1) first       q n[1] − q Λ_1 d1 Σ_i s_i n[i] >= q Λ_1 d0 + ε            equation (10), first
    (2) drift[i]    v_i n[i] >= u_i n[i−1] + ε          for i = 2..L         equation (10), second
    (3) within      Σ_i s_i n[i] <= C                             (only if memory is enforced)

As for WAIT, there is a least solution, and it alone is optimal. The memory here is the exact ``M``
of a full batch; the paper's (11) is another number (`printed`). The safety buffer of (12) depends
on n through a transcendental equation and is added afterwards (`buffer`).
"""

from typing import Any

import pyomo.environ as pyo

from formulations.thresholds.nested_problem import NestedProblem
from formulations.thresholds.wait_program import integer_row


def build(problem: NestedProblem, model: Any = None) -> Any:
    """State the program of a problem with load below 1.

    Parameters
    ----------
    problem : NestedProblem
        Data.
    model : pyomo.environ.ConcreteModel, optional
        Model to add to; by default a new one.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module's text.
    """
    model = pyo.ConcreteModel(name="nested_wait_thresholds") if model is None else model
    upper = problem.upper_vector()
    model.segments = pyo.RangeSet(1, len(upper))
    model.n = pyo.Var(
        model.segments,
        domain=pyo.PositiveIntegers,
        bounds={i: (1, most) for i, most in enumerate(upper, start=1)},
    )
    memory = pyo.quicksum(s * model.n[i] for i, s in enumerate(problem.weights, start=1))
    coefficients, right = first_row(problem)
    model.first = pyo.Constraint(
        expr=pyo.quicksum(a * model.n[i] for i, a in enumerate(coefficients, start=1)) >= right
    )

    def drift(model: Any, i: int) -> Any:
        share = problem.passing[i - 2]
        needed = share.numerator * model.n[i - 1] + int(problem.strict)
        return share.denominator * model.n[i] >= needed

    model.drift = pyo.Constraint(range(2, len(upper) + 1), rule=drift)
    if problem.within_memory:
        model.within = pyo.Constraint(expr=memory <= problem.worker.memory)
    model.objective = pyo.Objective(expr=memory, sense=pyo.minimize)
    return model


def first_row(problem: NestedProblem) -> tuple[list[int], int]:
    """Return (1) in integers: its coefficients and its right-hand side."""
    rate, worker = problem.arriving[0], problem.worker
    return integer_row(
        rate * worker.d0, rate * worker.d1, problem.weights, 0, strict=problem.strict
    )
