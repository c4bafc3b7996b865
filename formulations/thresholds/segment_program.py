"""The segment program: which output lengths end segments, and with which thresholds; stated once.

Sets
    pieces j = 0..m−1: the stages after output length j−1 up to length j
    segments (a, b), a <= b: pieces a..b as one segment
Data (integers, after scaling)
    s_ab memory of one request in every stage of pieces a..b
    h_a  memory of a request that waits before piece a: l + l'_{a−1}; h_0 = 0
    Λ_a rate of requests that reach piece a; Λ_{b+1}/Λ_a = u/v in lowest terms
    q least common denominator of Λ_0 d0 and Λ_0 d1; ε = 1 for strict conditions, else 0
    largest_a most that n of a segment from a can be in a solution better than one in hand
Variables
    z[a,b] binary                       whether pieces a..b are a segment
    n[a,b] integer in 0..largest_a      its threshold; 0 if it is none
Objective
    memory          min Σ (s_ab + h_a) n[a,b]
Constraints
    (1) begin           Σ_b z[0,b] = 1
    (2) path[j]         Σ_a z[a,j−1] = Σ_b z[j,b]                         for j = 1..m−1
    (3) on[a,b]         z[a,b] <= n[a,b] <= largest_a z[a,b]
    (4) first           q Σ_b n[0,b] − q Λ_0 d1 Σ s_ab n[a,b] >= q Λ_0 d0 + ε
    (5) drift[a,j]      v Σ_b n[j,b] >= u n[a,j−1] + ε z[a,j−1]           for a < j
    (6) within          Σ s_ab n[a,b] <= C                (only if memory is enforced)

The objective is the first two terms of (12): the full batch and what waits between segments. The
third depends on the thresholds through (16); `segments` adds it for given segments. Few segments
keep requests as if they were long; many cost a whole request each by rounding: the U-shape of
section 7.2.
"""

from typing import Any

from formulations.modelling import pyo
from formulations.thresholds.conditions import BatchArrivals
from formulations.thresholds.problem import NestedProblem

Segment = tuple[int, int]


def build(problem: NestedProblem, most: int) -> Any:
    """State the program; the problem's own boundaries play no part.

    Parameters
    ----------
    problem : NestedProblem
        Data.
    most : int
        Objective of some solution.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module's text.
    """
    model = pyo.ConcreteModel(name="nested_wait_segments")
    outputs = problem.group.outputs
    pieces = problem.with_boundaries(outputs)
    segments = [(a, b) for a in range(len(outputs)) for b in range(a, len(outputs))]
    weight = segment_weights(pieces)
    held = [0, *pieces.group.chain.held]
    cost = {(a, b): weight[a, b] + held[a] for a, b in segments}
    model.segments = pyo.Set(initialize=segments, dimen=2)
    model.z = pyo.Var(model.segments, domain=pyo.Binary)
    model.n = pyo.Var(
        model.segments,
        domain=pyo.NonNegativeIntegers,
        bounds={segment: (0, most // cost[segment]) for segment in segments},
    )
    _path(model, len(outputs))
    _on(model, {segment: most // cost[segment] for segment in segments})
    _first(model, pieces, weight)
    _drift(model, pieces)
    if problem.within_memory:
        batch = pyo.quicksum(weight[s] * model.n[s] for s in segments)
        model.within = pyo.Constraint(expr=batch <= problem.worker.memory)
    model.objective = pyo.Objective(
        expr=pyo.quicksum(cost[s] * model.n[s] for s in segments), sense=pyo.minimize
    )
    return model


def segment_weights(pieces: NestedProblem) -> dict[Segment, int]:
    """Return ``s_ab``, from the problem with a boundary at every output."""
    weights = pieces.weights
    return {
        (a, b): sum(weights[a : b + 1])
        for a in range(len(weights))
        for b in range(a, len(weights))
    }


def _path(model: Any, num_pieces: int) -> None:
    """(1), (2) The segments follow one another from the first piece to the last."""
    model.begin = pyo.Constraint(expr=pyo.quicksum(model.z[0, b] for b in range(num_pieces)) == 1)

    def rule(model: Any, j: int) -> Any:
        ending = pyo.quicksum(model.z[a, j - 1] for a in range(j))
        return ending == pyo.quicksum(model.z[j, b] for b in range(j, num_pieces))

    model.path = pyo.Constraint(range(1, num_pieces), rule=rule)


def _on(model: Any, largest: dict[Segment, int]) -> None:
    """(3) Only segments have thresholds."""
    model.least = pyo.Constraint(
        model.segments, rule=lambda model, a, b: model.n[a, b] >= model.z[a, b]
    )
    model.on = pyo.Constraint(
        model.segments,
        rule=lambda model, a, b: model.n[a, b] <= largest[a, b] * model.z[a, b],
    )


def _first(model: Any, pieces: NestedProblem, weight: dict[Segment, int]) -> None:
    """(4) As many prompts start as arrive during a full batch."""
    arrivals = BatchArrivals.of(pieces.arriving[0], pieces.worker)
    started = pyo.quicksum(model.n[0, b] for b in range(len(pieces.group.outputs)))
    batch = pyo.quicksum(w * model.n[segment] for segment, w in weight.items())
    needed = arrivals.constant + arrivals.slope * batch + int(pieces.strict)
    model.first = pyo.Constraint(expr=arrivals.scale * started >= needed)


def _drift(model: Any, pieces: NestedProblem) -> None:
    """(5) Each segment can pass on more than it receives."""
    rates = pieces.arriving
    last = len(rates)

    def rule(model: Any, a: int, j: int) -> Any:
        share = rates[j] / rates[a]
        passed = pyo.quicksum(model.n[j, b] for b in range(j, last))
        needed = share.numerator * model.n[a, j - 1] + int(pieces.strict) * model.z[a, j - 1]
        return share.denominator * passed >= needed

    model.drift = pyo.Constraint([(a, j) for j in range(1, last) for a in range(j)], rule=rule)
