"""The pausing program, and its form at given prices of time and tokens, stated in Pyomo.

`build_priced` states the program that is solved, at prices of time and tokens.

Sets
    workers g = 0..G−1, active requests j = 0..J−1 on workers g(j), waiting ones i = 0..N−1
Data (all integers)
    w_j load of active request j, s_i of waiting request i if it starts [tokens]
    C_g, τ_g units of time of a step, and per token; cap_g free slots, r_g tokens that fit
    P most pauses in a row; j has been paused p_j steps in a row
    q price of a unit of time, p of a token
Variables
    y[j]   binary   active request j runs
    x[i,g] binary   waiting request i starts on worker g
    M      integer  units of time that the step lasts
Objective
    min q·M − p·(Σ_j y[j] + Σ_{i,g} x[i,g])
Constraints
    (1) admit_once[i]       Σ_g x[i,g] ≤ 1
    (2) capacity[g]         Σ_i x[i,g] ≤ cap_g
    (3) peak[g]             M ≥ C_g + τ_g (Σ_{j: g(j)=g} w_j y[j] + Σ_i s_i x[i,g])
    (4) must_run[j]         y[j] = 1                             where p_j ≥ P
    (5) one_token           Σ_j y[j] + Σ_{i,g} x[i,g] ≥ 1
    (6) token_capacity[g]   Σ_i s_i x[i,g] ≤ r_g                 (optional)
    (7) required[i]         Σ_g x[i,g] = 1 for requests that must start now (optional)

Paused requests hold their tokens, so the free tokens ``r_g = κ_g − Σ_{j: g(j)=g} w_j`` do not
depend on which requests run. A worker above its limit starts none, r_g = 0. The ratio of time to
tokens is minimal iff the minimum of this program is 0; the solver finds this price by Dinkelbach's
sequence.

`build` states the ratio itself as one mixed-integer program (Charnes and Cooper 1962).

Sets, data and y, x as above, and
    C = shortest time of a step, from the requests that must run
Variables
    share            in 0..1  one over the number of tokens
    run_part[j]      >= 0     share · y[j]
    start_part[i,g]  >= 0     share · x[i,g]
    ratio            >= 0     units of time per token
Objective
    min ratio
Constraints
    (1), (2), (4) to (7) as above
    (8) whole                 Σ_j run_part[j] + Σ_{i,g} start_part[i,g] = 1
    (9) peak[g]               ratio ≥ C_g share + τ_g (Σ w_j run_part[j] + Σ_i s_i start_part[i,g])
    (10) shortest             ratio ≥ C share
    (11) run_only[j], start_only[i,g]        part ≤ binary
    (12) run_most[j], start_most[i,g]        part ≤ share
    (13) run_least[j], start_least[i,g]      part ≥ share + binary − 1
"""

from typing import Any

import numpy as np

from formulations.modelling import pyo
from formulations.pausing.bound import longest_step, shortest_step
from formulations.pausing.problem import PausingProblem, PricedPausing
from formulations.standard_form import constraint


def build_priced(priced: PricedPausing, model: Any = None) -> Any:
    """Return the Pyomo model of a priced problem.

    Parameters
    ----------
    priced : PricedPausing
        Data; at least one request.
    model : pyomo.environ.ConcreteModel, optional
        Model to add to; by default a new one.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    problem = priced.problem
    model = pyo.ConcreteModel(name="pausing") if model is None else model
    model.active_requests = pyo.RangeSet(0, problem.num_active - 1)
    model.requests = pyo.RangeSet(0, problem.num_requests - 1)
    model.workers = pyo.RangeSet(0, problem.num_workers - 1)
    model.y = pyo.Var(model.active_requests, domain=pyo.Binary)
    model.x = pyo.Var(model.requests, model.workers, domain=pyo.Binary)
    model.M = pyo.Var(domain=pyo.Integers, bounds=(shortest_step(problem), longest_step(problem)))
    tokens = pyo.quicksum(model.y.values()) + pyo.quicksum(model.x.values())
    # Without waiting requests, these rows would have no variables.
    open_workers = model.workers if model.x else []

    @constraint(model, model.requests)
    def admit_once(model: Any, i: int) -> Any:
        """(1) A request starts once."""
        return pyo.quicksum(model.x[i, g] for g in model.workers) <= 1

    @constraint(model, open_workers)
    def capacity(model: Any, g: int) -> Any:
        """(2) A worker starts at most as many requests as it has free slots."""
        return pyo.quicksum(model.x[i, g] for i in model.requests) <= int(problem.capacity[g])

    def started(g: int) -> Any:
        return pyo.quicksum(int(problem.waiting[i]) * model.x[i, g] for i in model.requests)

    # For a worker without requests, the bounds of M already imply this row.
    @constraint(model, sorted({*problem.worker.tolist(), *open_workers}))
    def peak(model: Any, g: int) -> Any:
        """(3) The step lasts at least as long as each worker needs."""
        runs = (int(problem.load[j]) * model.y[j] for j in np.flatnonzero(problem.worker == g))
        load = pyo.quicksum(runs) + started(g)
        return int(problem.overheads[g]) + int(problem.rates[g]) * load <= model.M

    @constraint(model, [int(j) for j in np.flatnonzero(problem.must_run)])
    def must_run(model: Any, j: int) -> Any:
        """(4) No request is paused for more than P consecutive steps."""
        return model.y[j] == 1

    model.one_token = pyo.Constraint(expr=tokens >= 1, doc="(5) A token is emitted.")
    if problem.token_capacity is not None:

        @constraint(model, open_workers)
        def token_capacity(model: Any, g: int) -> Any:
            """(6) Started requests fit into the free tokens of the worker."""
            return started(g) <= max(0, int(problem.room[g]))

    if problem.required is not None:

        @constraint(model, [int(i) for i in np.flatnonzero(problem.must_start)])
        def required(model: Any, i: int) -> Any:
            """(7) Required requests start now."""
            return pyo.quicksum(model.x[i, g] for g in model.workers) == 1

    cost = priced.time_price * model.M - priced.token_price * tokens
    model.objective = pyo.Objective(expr=cost, sense=pyo.minimize)
    return model


def build(problem: PausingProblem, model: Any = None) -> Any:
    """Return the Pyomo model of a problem with at least one request; it minimises the ratio.

    Parameters
    ----------
    problem : PausingProblem
        Data.
    model : pyomo.environ.ConcreteModel, optional
        Model to add to; by default a new one.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    model = build_priced(PricedPausing(problem, 1, 0), model)
    rows = list(model.peak)
    for part in (model.objective, model.peak, model.M):
        model.del_component(part)
    model.ratio = pyo.Var(domain=pyo.NonNegativeReals)
    model.share = pyo.Var(domain=pyo.NonNegativeReals, bounds=(0, 1))
    # Bounds of 1 follow from (11); solvers scale rows by them.
    model.run_part = pyo.Var(model.active_requests, domain=pyo.NonNegativeReals, bounds=(0, 1))
    model.start_part = pyo.Var(
        model.requests, model.workers, domain=pyo.NonNegativeReals, bounds=(0, 1)
    )
    parts = pyo.quicksum(model.run_part.values()) + pyo.quicksum(model.start_part.values())
    model.whole = pyo.Constraint(expr=parts == 1, doc="(8) The shares of all tokens add up to 1.")

    @constraint(model, rows)
    def peak(model: Any, g: int) -> Any:
        """(9) No worker takes longer per token than the ratio."""
        runs = np.flatnonzero(problem.worker == g)
        load = pyo.quicksum(int(problem.load[j]) * model.run_part[j] for j in runs)
        started = (int(problem.waiting[i]) * model.start_part[i, g] for i in model.requests)
        load += pyo.quicksum(started)
        times = int(problem.overheads[g]) * model.share + int(problem.rates[g]) * load
        return times <= model.ratio

    @constraint(model)
    def shortest(model: Any) -> Any:
        """(10) No step is shorter than the requests that must run need."""
        return shortest_step(problem) * model.share <= model.ratio

    for name, chosen in (("run", model.y), ("start", model.x)):
        part = getattr(model, f"{name}_part")
        rules = {
            "only": (
                lambda _, *k, v=chosen, p=part: p[k] <= v[k],
                "(11) Others have no share.",
            ),
            "most": (
                lambda m, *k, p=part: p[k] <= m.share,
                "(12) A share is at most one token's.",
            ),
            "least": (
                lambda m, *k, v=chosen, p=part: p[k] >= m.share + v[k] - 1,
                "(13) Who runs or starts has a token's share.",
            ),
        }
        for kind, (rule, told) in rules.items():
            rows_of = pyo.Constraint(chosen.index_set(), rule=rule, doc=told)
            setattr(model, f"{name}_{kind}", rows_of)
    model.objective = pyo.Objective(expr=model.ratio, sense=pyo.minimize)
    return model
