"""The threshold programs of WAIT and Nested WAIT, and the segment program, stated in Pyomo.

`build` states the thresholds of given segments.

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

`build_segments` chooses the ends of the segments too.

Sets
    pieces j = 0..m−1: the stages after output length j−1 up to length j
    segments (a, b), a <= b: pieces a..b as one segment
Data (integers, after scaling)
    s_ab memory of one request in every stage of pieces a..b
    h_a  memory of a request that waits before piece a: l + l'_{a−1}; h_0 = 0
    Λ_a rate of requests that reach piece a; Λ_{b+1}/Λ_a = u/v in lowest terms
    q least common denominator of Λ_0 d0 and Λ_0 d1; ε = 1 for strict conditions, else 0
    largest_a upper bound on n of a segment from a in any solution better than the known one
Variables
    z[a,b] binary                       whether pieces a..b are a segment
    n[a,b] integer in 0..largest_a      threshold of the segment; 0 if it is not chosen
Objective
    memory          min Σ (s_ab + h_a) n[a,b]
Constraints
    (1) begin           Σ_b z[0,b] = 1
    (2) path[j]         Σ_a z[a,j−1] = Σ_b z[j,b]                         for j = 1..m−1
    (3) on[a,b]         z[a,b] <= n[a,b] <= largest_a z[a,b]
    (4) first           q Σ_b n[0,b] − q Λ_0 d1 Σ s_ab n[a,b] >= q Λ_0 d0 + ε
    (5) drift[a,j]      v Σ_b n[j,b] >= u n[a,j−1] + ε z[a,j−1]           for a < j
    (6) within          Σ s_ab n[a,b] <= C                (only if memory is enforced)

The objective is the first two terms of (12): the full batch, and the requests that wait between
segments. The third term depends on the thresholds through (16); `buffer` adds it for given
segments. With few segments, short requests are counted as if they were long. With many segments,
each costs a whole request by rounding. This is the U-shape of section 7.2.
"""

from typing import Any

from formulations.errors import CapabilityError
from formulations.modelling import pyo
from formulations.standard_form import constraint
from formulations.thresholds.conditions import (
    BatchArrivals,
    ThresholdProblem,
)
from formulations.thresholds.problem import NestedProblem


def build(problem: ThresholdProblem) -> Any:
    """Return the Pyomo model of a threshold problem with load below 1.

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
            raise CapabilityError(
                "rates", "time-varying rates have no linear program", "solve with fixed-point"
            )
        asked = arrivals.constant + arrivals.slope * memory + extra
        return arrivals.scale * model.n[g, 1] >= asked

    @constraint(model, [(g, i) for g, i in largest if i > 1])
    def drift(model: Any, g: int, i: int) -> Any:
        """(2) Each segment can pass on more than it receives."""
        share = conditions.chains[g].passing[i - 2]
        return share.denominator * model.n[g, i] >= share.numerator * model.n[g, i - 1] + extra

    if conditions.within_memory:
        model.within = pyo.Constraint(
            expr=memory <= conditions.worker.memory, doc="(3) A full batch fits the memory."
        )
    model.objective = pyo.Objective(expr=memory, sense=pyo.minimize)
    return model


def build_segments(problem: NestedProblem, most: int) -> Any:
    """Return the Pyomo model of the segment program; boundaries of the problem are ignored.

    Parameters
    ----------
    problem : NestedProblem
        Data.
    most : int
        Objective of a known solution [tokens].

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    model = pyo.ConcreteModel(name="nested_wait_segments")
    outputs = problem.group.outputs
    pieces = problem.with_boundaries(outputs)
    m, rates, extra = len(outputs), pieces.arriving, int(pieces.strict)
    segments = [(a, b) for a in range(m) for b in range(a, m)]
    weight = {(a, b): sum(pieces.weights[a : b + 1]) for a, b in segments}
    held = [0, *pieces.group.chain.held]
    cost = {(a, b): weight[a, b] + held[a] for a, b in segments}
    largest = {segment: most // cost[segment] for segment in segments}
    model.segments = pyo.Set(initialize=segments, dimen=2)
    model.z = pyo.Var(model.segments, domain=pyo.Binary)
    model.n = pyo.Var(
        model.segments,
        domain=pyo.NonNegativeIntegers,
        bounds={segment: (0, n) for segment, n in largest.items()},
    )
    batch = pyo.quicksum(w * model.n[segment] for segment, w in weight.items())

    @constraint(model)
    def begin(model: Any) -> Any:
        """(1) One segment begins with the first piece."""
        return pyo.quicksum(model.z[0, b] for b in range(m)) == 1

    @constraint(model, range(1, m))
    def path(model: Any, j: int) -> Any:
        """(2) Each segment begins where another one ends."""
        ending = pyo.quicksum(model.z[a, j - 1] for a in range(j))
        return ending == pyo.quicksum(model.z[j, b] for b in range(j, m))

    @constraint(model, model.segments)
    def least(model: Any, a: int, b: int) -> Any:
        """(3) Chosen segments have a threshold of at least 1."""
        return model.n[a, b] >= model.z[a, b]

    @constraint(model, model.segments)
    def on(model: Any, a: int, b: int) -> Any:
        """(3) Other segments have threshold 0."""
        return model.n[a, b] <= largest[a, b] * model.z[a, b]

    @constraint(model)
    def first(model: Any) -> Any:
        """(4) As many prompts start as arrive during a full batch."""
        arrivals = BatchArrivals.of(rates[0], pieces.worker)
        started = pyo.quicksum(model.n[0, b] for b in range(m))
        return arrivals.scale * started >= arrivals.constant + arrivals.slope * batch + extra

    @constraint(model, [(a, j) for j in range(1, m) for a in range(j)])
    def drift(model: Any, a: int, j: int) -> Any:
        """(5) Each segment can pass on more than it receives."""
        share = rates[j] / rates[a]
        passed = pyo.quicksum(model.n[j, b] for b in range(j, m))
        needed = share.numerator * model.n[a, j - 1] + extra * model.z[a, j - 1]
        return share.denominator * passed >= needed

    if problem.within_memory:
        model.within = pyo.Constraint(
            expr=batch <= problem.worker.memory, doc="(6) A full batch fits the memory."
        )
    value = pyo.quicksum(cost[s] * model.n[s] for s in segments)
    model.objective = pyo.Objective(expr=value, sense=pyo.minimize)
    return model
