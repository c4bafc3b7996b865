"""The BF-IO step program (IO), stated in Pyomo.

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
    (8) energy                Σ_h (P_idle G M[h] + (P_max − P_idle) Σ_g τ_g L_g(h)) ≤ e ≤ E
                                                              (only after `add_energy_cap`)

M and m are bounded, so that every variable is a bounded integer and CP-SAT accepts the program.
The bounds also prevent an error of HiGHS: without them it reports a false optimum on an instance
with loads of 10^7 tokens (tests/formulations/test_false_optimum.py).
"""

from typing import Any

import numpy as np

from formulations.arrays import integer
from formulations.modelling import pyo
from formulations.standard_form import constraint
from formulations.step.bound import peak_bounds
from formulations.step.problem import Objective, StepProblem


def build(problem: StepProblem, model: Any = None) -> Any:
    """Return the Pyomo model of the program (IO) for a step problem.

    Parameters
    ----------
    problem : StepProblem
        Data; at least one waiting request.
    model : pyomo.environ.ConcreteModel, optional
        Model to add to; by default a new one.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    model = pyo.ConcreteModel(name="step") if model is None else model
    model.requests = pyo.RangeSet(0, problem.num_requests - 1)
    model.workers = pyo.RangeSet(0, problem.num_workers - 1)
    model.x = pyo.Var(model.requests, model.workers, domain=pyo.Binary)

    @constraint(model, model.requests)
    def admit_once(model: Any, i: int) -> Any:
        """(1) No request runs on two workers."""
        return pyo.quicksum(model.x[i, g] for g in model.workers) <= 1

    @constraint(model, model.workers)
    def capacity(model: Any, g: int) -> Any:
        """(2) No worker takes more than its free slots."""
        return pyo.quicksum(model.x[i, g] for i in model.requests) <= int(problem.capacity[g])

    @constraint(model)
    def use_slots(model: Any) -> Any:
        """(3) No slot idles while a request waits."""
        return pyo.quicksum(model.x.values()) == problem.num_admitted

    value = add_times(model, problem)
    if (limits := problem.token_capacity) is not None:

        @constraint(model, model.workers, model.steps)
        def token_capacity(model: Any, g: int, h: int) -> Any:
            """(6) No worker holds more tokens than its memory."""
            return _load(model, problem, g, h) <= int(limits[g])

    if problem.required is not None:

        @constraint(model, [int(i) for i in np.flatnonzero(problem.required)])
        def required(model: Any, i: int) -> Any:
            """(7) Required requests start now."""
            return pyo.quicksum(model.x[i, g] for g in model.workers) == 1

    if problem.benefit is not None:
        worth = problem.benefit.tolist()
        value -= pyo.quicksum(worth[i][g] * model.x[i, g] for i, g in model.x)
    model.objective = pyo.Objective(expr=value, sense=pyo.minimize)
    return model


def add_energy_cap(
    model: Any, problem: StepProblem, cap: int, *, idle_power: int = 100, max_power: int = 400
) -> Any:
    """Add the row (8), a cap on the energy of the window, to a model of `build`; return the model.

    BF-IO's section 7.3 asks for such caps. Energy is that of its two-phase reading with full power
    while a worker works: ``P_max`` for its own time ``τ_g L_g(h)``, then ``P_idle`` up to the
    barrier M[h]. This is at least the energy of any power curve below ``P_max``; times that do not
    depend on the assignment are left out. ``solve_step(problem, model=model)`` solves it by a
    backend; methods that do not read rows refuse the model.

    Parameters
    ----------
    model : pyomo.environ.ConcreteModel
        ``build(problem)``.
    problem : StepProblem
        Data.
    cap : int
        Largest energy [W times the time unit of the loads: tokens, or ``token_time`` units].
    idle_power, max_power : int
        Powers of a worker [W]; BF-IO's by default.

    Raises
    ------
    InputError
        If a value is negative or ``idle_power`` exceeds ``max_power``.
    """
    integer(max_power, "max_power")
    integer(idle_power, "idle_power", maximum=max_power)
    integer(cap, "cap")
    times = problem.time_weights.tolist()
    # A variable, since Pyomo raises an error for a row of constants that does not hold.
    model.energy_used = pyo.Var(domain=pyo.NonNegativeIntegers, bounds=(0, cap))

    @constraint(model)
    def energy(model: Any) -> Any:
        """(8) The window needs no more energy than the cap."""
        working = pyo.quicksum(
            times[g] * _load(model, problem, g, h) for g in model.workers for h in model.steps
        )
        until_barrier = problem.num_workers * pyo.quicksum(model.M.values())
        used = idle_power * until_barrier + (max_power - idle_power) * working
        return used <= model.energy_used

    return model


def add_times(model: Any, problem: StepProblem, prefix: str = "") -> Any:
    """Add the peaks M with rows (4), for the gap also m with rows (5); return the objective.

    Parameters
    ----------
    model : pyomo.environ.ConcreteModel
        Model with the sets of requests and workers and the variables ``x``.
    problem : StepProblem
        Loads, weights and objective.
    prefix : str
        Prefix of the names of all added rows and variables.

    Returns
    -------
    expression
        The objective, without benefits.
    """
    steps = pyo.RangeSet(0, problem.num_steps - 1)
    setattr(model, f"{prefix}steps", steps)
    is_gap = problem.objective is Objective.GAP
    lower, upper = (bound.tolist() for bound in peak_bounds(problem))
    peak = pyo.Var(steps, domain=pyo.Integers, bounds=lambda _, h: (lower[h], upper[h]))
    setattr(model, f"{prefix}M", peak)
    if is_gap:
        floor = pyo.Var(steps, domain=pyo.Integers, bounds=lambda _, h: (0, upper[h]))
        setattr(model, f"{prefix}m", floor)

    def time(g: int, h: int) -> Any:
        return int(problem.time_weights[g]) * _load(model, problem, g, h)

    @constraint(model, model.workers, steps, name=f"{prefix}peak")
    def above(_: Any, g: int, h: int) -> Any:
        """(4) The peak is at least every worker's time."""
        return peak[h] >= time(g, h)

    if is_gap:

        @constraint(model, model.workers, steps, name=f"{prefix}floor")
        def below(_: Any, g: int, h: int) -> Any:
            """(5) The floor is at most every worker's time."""
            return floor[h] <= time(g, h)

    def value(h: int) -> Any:
        if problem.objective is Objective.MAX_LOAD:
            return peak[h]
        if is_gap:
            return peak[h] - floor[h]
        return problem.num_workers * peak[h] - pyo.quicksum(time(g, h) for g in model.workers)

    return pyo.quicksum(weight * value(h) for h, weight in enumerate(problem.weights))


def _load(model: Any, problem: StepProblem, g: int, h: int) -> Any:
    return int(problem.base[g, h]) + pyo.quicksum(
        int(problem.contribution[i, h]) * model.x[i, g] for i in model.requests
    )
