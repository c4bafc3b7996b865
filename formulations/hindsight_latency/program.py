"""The hindsight latency program: start rounds of minimum total latency, stated in Pyomo.

Sets
    kinds c of identical requests, n_c of each; rounds τ
    starts k = a_c..L_c with ``L_c = max_j a_j + Σ_{j≠i} d_j`` (i in c; proof: `kinds.kinds`)
Data (all integers)
    M memory [tokens]; a_c arrival, s_c prompt, o_c output of a kind
    ages 1{·}: request started at k occupies round τ iff f <= τ − k <= l(o), where
        convention A: f = 0, l = o      B: f = 0, l = o − 1      C: f = 1, l = o
    d_j = l(o_j) − f + 1 rounds that request j occupies
Variables
    x[c,k] integer in 0..n_c      requests of kind c that start at round k
Objective
    total latency     min Σ_{c,k} (k − a_c) x[c,k]  +  Σ_i o_i
Constraints
    (1) start_once[c]   Σ_k x[c,k] = n_c
    (2) memory[τ]       Σ_c Σ_k (s_c + τ − k) 1{f <= τ − k <= l(o_c)} x[c,k] <= M

This is the program of the KV-cache paper, appendix B.1. There the memory row multiplies the start
of a request by its running status; a request starts exactly once, so the product equals the sum
over starts in (2). With each request as its own kind, x is binary as printed. Aggregation removes
the symmetry between identical requests, and any x splits into starts of the members.
"""

from typing import Any

from formulations.hindsight_latency.problem import LatencyProblem, kinds
from formulations.modelling import pyo
from formulations.standard_form import constraint


def build(problem: LatencyProblem, *, aggregate: bool = True) -> Any:
    """Return the Pyomo model of a latency problem with at least one request.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    aggregate : bool
        Whether identical requests form one kind.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    model = pyo.ConcreteModel(name="hindsight_latency")
    groups = kinds(problem, aggregate=aggregate)
    starts = [(c, k) for c, kind in enumerate(groups) for k in kind.starts]
    model.starts = pyo.Set(initialize=starts, dimen=2)
    upper = {(c, k): (0, len(groups[c].members)) for c, k in starts}
    model.x = pyo.Var(model.starts, domain=pyo.NonNegativeIntegers, bounds=upper)

    @constraint(model, range(len(groups)))
    def start_once(model: Any, c: int) -> Any:
        """(1) Every request starts exactly once."""
        kind = groups[c]
        return pyo.quicksum(model.x[c, k] for k in kind.starts) == len(kind.members)

    convention = problem.convention
    held: dict[int, list[Any]] = {}
    for c, k in starts:
        for age in range(convention.first_age, convention.last_age(groups[c].output) + 1):
            held.setdefault(k + age, []).append((groups[c].prompt + age) * model.x[c, k])

    @constraint(model, sorted(held))
    def memory(model: Any, t: int) -> Any:
        """(2) The tokens in the cache fit at every round."""
        return pyo.quicksum(held[t]) <= problem.memory

    waits = ((k - groups[c].first_start) * model.x[c, k] for c, k in starts)
    model.objective = pyo.Objective(
        expr=pyo.quicksum(waits) + int(problem.output.sum()),
        sense=pyo.minimize,
    )
    return model
