"""The threshold programs of WAIT and Nested WAIT, stated once for both.

Sets
    chains g = 0..G−1: one for each class (WAIT) or prompt length (Nested WAIT)
    segments i = 1..L_g of chain g; only one with WAIT
Data (integers, after scaling)
    s_gi memory of one request in every stage of segment i; d0, d1 times; C memory
    Λ_g rate of chain g; P_gi = u_gi/v_gi share of its requests that goes on to segment i
    q_g least common denominator of Λ_g d0 and Λ_g d1
    largest_gi a solution (`ThresholdConditions.upper_vector`), so an upper bound on the least one
    ε = 1 for strict conditions, else 0
Variables
    n[g,i] integer in 1..largest_gi     threshold, per stage of the segment
Objective
    memory          min Σ s_gi n[g,i]
Constraints
    (1) first[g]    q_g n[g,1] − q_g Λ_g d1 Σ s_hi n[h,i] >= q_g Λ_g d0 + ε  (9), and (10) first
    (2) drift[g,i]  v_gi n[g,i] >= u_gi n[g,i−1] + ε       for i = 2..L_g         (10), second
    (3) within      Σ s_gi n[g,i] <= C                           (only if memory is enforced)

In integers, a strict inequality is one with a difference of at least 1. There is a least solution
(`conditions`). It is the only optimum and minimises every threshold at once. For WAIT the linear
relaxation is `formulations.fluid.programs`. The paper leaves the choice of thresholds open. The
memory here is the exact memory of a full batch, which differs from the paper's (11).
The safety buffer of (12) depends on n through a transcendental equation and is added afterwards
(`buffer`).
"""

from typing import Any

from formulations.errors import CapabilityError
from formulations.modelling import pyo
from formulations.standard_form import constraint
from formulations.thresholds.conditions import (
    BatchArrivals,
    ThresholdProblem,
)


def build(problem: ThresholdProblem) -> Any:
    """State the program of a problem with load below 1.

    Parameters
    ----------
    problem : ThresholdProblem
        Data.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.

    Raises
    ------
    CapabilityError
        If rates vary in time: (13) is not linear.
    """
    model = pyo.ConcreteModel(name="thresholds")
    conditions = problem.conditions
    parts = conditions.split(conditions.upper_vector())
    largest = {(g, i): n for g, part in enumerate(parts) for i, n in enumerate(part, start=1)}
    model.segments = pyo.Set(initialize=list(largest), dimen=2)
    model.n = pyo.Var(
        model.segments,
        domain=pyo.PositiveIntegers,
        bounds={segment: (1, most) for segment, most in largest.items()},
    )
    memory = pyo.quicksum(
        s * model.n[segment] for segment, s in zip(largest, conditions.weights, strict=True)
    )
    extra = int(conditions.strict)

    @constraint(model, range(len(conditions.chains)))
    def first(model: Any, g: int) -> Any:
        """(1) As many requests start as arrive during a full batch."""
        arrivals = conditions.arrivals[g]
        if not isinstance(arrivals, BatchArrivals):
            raise CapabilityError("rates", "varying ones have no linear program", "iterate")
        asked = arrivals.constant + arrivals.slope * memory + extra
        return arrivals.scale * model.n[g, 1] >= asked

    @constraint(model, [(g, i) for g, i in largest if i > 1])
    def drift(model: Any, g: int, i: int) -> Any:
        """(2) Each segment can pass on more than it receives."""
        share = conditions.chains[g].passing[i - 2]
        return share.denominator * model.n[g, i] >= share.numerator * model.n[g, i - 1] + extra

    if conditions.within_memory:
        model.within = pyo.Constraint(expr=memory <= conditions.worker.memory)
    model.objective = pyo.Objective(expr=memory, sense=pyo.minimize)
    return model
