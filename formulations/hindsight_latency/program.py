"""The hindsight latency program, stated once.

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
over starts in (2). With each request as its own kind, x is binary as printed; otherwise the
symmetry between identical requests is gone, and any x splits into starts of its members.
"""

from typing import Any

from formulations.hindsight_latency.problem import LatencyProblem, kinds
from formulations.modelling import pyo
from formulations.request_table import RequestKind


def build(problem: LatencyProblem, *, aggregate: bool = True) -> Any:
    """State the program of a problem with at least one request.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    aggregate : bool
        Whether identical requests form one kind.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module's text.
    """
    model = pyo.ConcreteModel(name="hindsight_latency")
    groups = kinds(problem, aggregate=aggregate)
    _variables(model, groups)
    _start_once(model, groups)
    _memory(model, problem, groups)
    waits = ((k - groups[c].first_start) * model.x[c, k] for c, k in model.starts)
    model.objective = pyo.Objective(
        expr=pyo.quicksum(waits) + int(problem.output.sum()),
        sense=pyo.minimize,
    )
    return model


def _variables(model: Any, groups: tuple[RequestKind, ...]) -> None:
    model.kinds = pyo.RangeSet(0, len(groups) - 1)
    starts = [(c, k) for c, kind in enumerate(groups) for k in kind.starts]
    model.starts = pyo.Set(initialize=starts, dimen=2)
    upper = {(c, k): (0, len(groups[c].members)) for c, k in starts}
    model.x = pyo.Var(model.starts, domain=pyo.NonNegativeIntegers, bounds=upper)


def _start_once(model: Any, groups: tuple[RequestKind, ...]) -> None:
    """(1) Every request starts, once."""

    def rule(model: Any, c: int) -> Any:
        kind = groups[c]
        return pyo.quicksum(model.x[c, k] for k in kind.starts) == len(kind.members)

    model.start_once = pyo.Constraint(model.kinds, rule=rule)


def _memory(model: Any, problem: LatencyProblem, groups: tuple[RequestKind, ...]) -> None:
    """(2) The tokens in the cache fit at every round."""
    convention = problem.convention
    terms: dict[int, list[Any]] = {}
    for c, k in model.starts:
        kind = groups[c]
        for age in range(convention.first_age, convention.last_age(kind.output) + 1):
            terms.setdefault(k + age, []).append((kind.prompt + age) * model.x[c, k])

    def rule(model: Any, t: int) -> Any:
        return pyo.quicksum(terms[t]) <= problem.memory

    model.rounds = pyo.Set(initialize=sorted(terms))
    model.memory = pyo.Constraint(model.rounds, rule=rule)
