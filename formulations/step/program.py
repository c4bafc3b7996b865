"""The BF-IO step program (IO), stated once.

Sets
    requests i = 0..N-1 (arrival order), workers g = 0..G-1, look-ahead steps h = 0..H
Data (all integers)
    cap_g free slots, b_g(h) base load, v_i(h) contribution, w_h weight, τ_g time per token,
    U requests to admit, min(N, Σ_g cap_g) by default, κ_g token capacity (optional)
    c[i,g] benefit of placing i on g (optional), on the scale of the weights
Variables
    x[i,g] binary   request i goes to worker g
    M[h]   integer  time of the most loaded worker at step h
    m[h]   integer  time of the least loaded worker at step h (objective "gap" only)
with the load L_g(h) = b_g(h) + Σ_i v_i(h) x[i,g]
Objective
    imbalance  min Σ_h w_h (G·M[h] − Σ_g τ_g L_g(h))         BF-IO section 4, (IO)
    max-load   min Σ_h w_h M[h]
    gap        min Σ_h w_h (M[h] − m[h])                      BalanceRoute's D
    each less Σ_{i,g} c[i,g] x[i,g], if there is a benefit
Constraints
    (1) admit_once[i]         Σ_g x[i,g] ≤ 1
    (2) capacity[g]           Σ_i x[i,g] ≤ cap_g
    (3) use_slots             Σ_{i,g} x[i,g] = U
    (4) peak[g,h]             M[h] ≥ τ_g L_g(h)
    (5) floor[g,h]            m[h] ≤ τ_g L_g(h)               (gap only)
    (6) token_capacity[g,h]   L_g(h) ≤ κ_g                    (optional)
    (7) required[i]           Σ_g x[i,g] = 1 for requests that must start now (optional)

M and m are bounded, so that every variable is a bounded integer and CP-SAT takes the program. The
bounds also keep HiGHS honest: without them it reports a false optimum on a known instance with
loads of 10^7 tokens (tests/formulations/test_false_optimum.py).
"""

from typing import Any

import numpy as np

from formulations.modelling import pyo
from formulations.step.bound import peak_bounds
from formulations.step.problem import Objective, StepProblem


def build(problem: StepProblem, model: Any = None) -> Any:
    """State the program (IO) of a step problem.

    Parameters
    ----------
    problem : StepProblem
        Data; at least one waiting request.
    model : pyomo.environ.ConcreteModel, optional
        Model to add to; by default a new one.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module's text.
    """
    model = pyo.ConcreteModel(name="step") if model is None else model
    _variables(model, problem)
    _admit_once(model, problem)
    _capacity(model, problem)
    _use_slots(model, problem)
    _peak(model, problem)
    if problem.objective is Objective.GAP:
        _floor(model, problem)
    if problem.token_capacity is not None:
        _token_capacity(model, problem)
    if problem.required is not None:
        _required(model, problem)
    model.objective = pyo.Objective(expr=_objective(model, problem), sense=pyo.minimize)
    return model


def _variables(model: Any, problem: StepProblem) -> None:
    model.requests = pyo.RangeSet(0, problem.num_requests - 1)
    model.workers = pyo.RangeSet(0, problem.num_workers - 1)
    model.steps = pyo.RangeSet(0, problem.num_steps - 1)
    model.x = pyo.Var(model.requests, model.workers, domain=pyo.Binary)
    lower, upper = peak_bounds(problem)
    peak_range = {h: (int(lower[h]), int(upper[h])) for h in model.steps}
    model.M = pyo.Var(model.steps, domain=pyo.Integers, bounds=peak_range)
    if problem.objective is Objective.GAP:
        floor_range = {h: (0, int(upper[h])) for h in model.steps}
        model.m = pyo.Var(model.steps, domain=pyo.Integers, bounds=floor_range)


def _load(model: Any, problem: StepProblem, g: int, h: int) -> Any:
    return int(problem.base[g, h]) + pyo.quicksum(
        int(problem.contribution[i, h]) * model.x[i, g] for i in model.requests
    )


def _time(model: Any, problem: StepProblem, g: int, h: int) -> Any:
    return int(problem.time_weights[g]) * _load(model, problem, g, h)


def _admit_once(model: Any, problem: StepProblem) -> None:
    """(1) No request runs on two workers."""

    def rule(model: Any, i: int) -> Any:
        return pyo.quicksum(model.x[i, g] for g in model.workers) <= 1

    model.admit_once = pyo.Constraint(model.requests, rule=rule)


def _capacity(model: Any, problem: StepProblem) -> None:
    """(2) No worker takes more than its free slots."""

    def rule(model: Any, g: int) -> Any:
        return pyo.quicksum(model.x[i, g] for i in model.requests) <= int(problem.capacity[g])

    model.capacity = pyo.Constraint(model.workers, rule=rule)


def _use_slots(model: Any, problem: StepProblem) -> None:
    """(3) No slot idles while a request waits."""
    model.use_slots = pyo.Constraint(expr=pyo.quicksum(model.x.values()) == problem.num_admitted)


def _peak(model: Any, problem: StepProblem) -> None:
    """(4) The peak is at least every worker's time."""

    def rule(model: Any, g: int, h: int) -> Any:
        return model.M[h] >= _time(model, problem, g, h)

    model.peak = pyo.Constraint(model.workers, model.steps, rule=rule)


def _floor(model: Any, problem: StepProblem) -> None:
    """(5) The floor is at most every worker's time."""

    def rule(model: Any, g: int, h: int) -> Any:
        return model.m[h] <= _time(model, problem, g, h)

    model.floor = pyo.Constraint(model.workers, model.steps, rule=rule)


def _token_capacity(model: Any, problem: StepProblem) -> None:
    """(6) No worker holds more tokens than its memory."""
    limits = problem.token_capacity
    assert limits is not None

    def rule(model: Any, g: int, h: int) -> Any:
        return _load(model, problem, g, h) <= int(limits[g])

    model.token_capacity = pyo.Constraint(model.workers, model.steps, rule=rule)


def _required(model: Any, problem: StepProblem) -> None:
    """(7) Starved requests start now."""
    flags = problem.required
    assert flags is not None

    def rule(model: Any, i: int) -> Any:
        return pyo.quicksum(model.x[i, g] for g in model.workers) == 1

    starved = [int(i) for i in np.flatnonzero(flags)]
    model.required = pyo.Constraint(starved, rule=rule)


def _objective(model: Any, problem: StepProblem) -> Any:
    value = pyo.quicksum(
        weight * _step_objective(model, problem, h) for h, weight in enumerate(problem.weights)
    )
    if problem.benefit is None:
        return value
    worth = problem.benefit.tolist()
    return value - pyo.quicksum(worth[i][g] * model.x[i, g] for i, g in model.x)


def _step_objective(model: Any, problem: StepProblem, h: int) -> Any:
    if problem.objective is Objective.MAX_LOAD:
        return model.M[h]
    if problem.objective is Objective.GAP:
        return model.M[h] - model.m[h]
    total = pyo.quicksum(_time(model, problem, g, h) for g in model.workers)
    return problem.num_workers * model.M[h] - total
