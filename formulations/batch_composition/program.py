"""The batch program, stated once.

Sets
    requests i = 0..n−1; P those with prompt tokens left, D the others
Data (all integers)
    p_i prompt tokens left of i in P; w_i worth of a token, g_i of completing the prompt
    b token budget; M most requests; s = n + 1 if fewest requests are wanted, else 1
Variables
    prefill[i] integer in 0..p_i    δ^p_i, i in P; decode tokens of P are 0 (2.5a), (2.5b)
    decode[i]  binary               δ^d_i, i in D (2.5c)
    finish[i]  binary               the batch completes the prompt of i     where g_i > 0
    part[i]    binary               i has tokens in the batch               (with M or fewest)
    phase      binary               1 for a prefill batch                   (without mixing)
Objective
    min fewest·Σ part[i] − s (Σ_P w_i prefill[i] + Σ_D w_i decode[i] + Σ g_i finish[i])
Constraints
    (1) budget              Σ_P prefill[i] + Σ_D decode[i] <= b                 (2.5d)
    (2) finished[i]         p_i finish[i] <= prefill[i]
    (3) prompt_part[i]      prefill[i] <= min(p_i, b) part[i]
    (4) token_part[i]       decode[i] <= part[i]
    (5) requests            Σ part[i] <= M
    (6) prefill_batch[i]    prefill[i] <= min(p_i, b) phase
    (7) decode_batch[i]     decode[i] <= 1 − phase

With (1) alone the matrix is totally unimodular, and filling by weight is optimal (`greedy`).
The paper states no program; its policies are choices of weights: Sarathi-Serve w higher in
decode, Orca in prefill, FasterTransformer and vLLM without mixing.
"""

from typing import Any

import numpy as np

from formulations.batch_composition.problem import BatchProblem
from formulations.modelling import pyo


def build(problem: BatchProblem, model: Any = None) -> Any:
    """State the program of a problem with at least one request.

    Parameters
    ----------
    problem : BatchProblem
        Data.
    model : pyomo.environ.ConcreteModel, optional
        Model to add to; by default a new one.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module's text.
    """
    model = pyo.ConcreteModel(name="batch_composition") if model is None else model
    _variables(model, problem)
    tokens = (*model.prefill.values(), *model.decode.values())
    model.budget = pyo.Constraint(expr=pyo.quicksum(tokens) <= problem.budget)
    model.finished = pyo.Constraint(
        model.bonused,
        rule=lambda model, i: int(problem.prefill[i]) * model.finish[i] <= model.prefill[i],
    )
    if problem.max_requests is not None or problem.fewest_requests:
        _parts(model, problem)
    if not problem.mixing:
        _phase(model, problem)
    model.objective = pyo.Objective(expr=_cost(model, problem), sense=pyo.minimize)
    return model


def _variables(model: Any, problem: BatchProblem) -> None:
    # A prompt that does not fit cannot be completed.
    fits = problem.prefill <= problem.budget
    chosen = {
        "prompts": problem.in_prefill,
        "decoding": ~problem.in_prefill,
        "bonused": (problem.bonuses > 0) & fits,
    }
    for name, flags in chosen.items():
        setattr(model, name, pyo.Set(initialize=np.flatnonzero(flags).tolist()))
    model.prefill = pyo.Var(
        model.prompts,
        domain=pyo.NonNegativeIntegers,
        bounds=lambda model, i: (0, _most(problem, i)),
    )
    model.decode = pyo.Var(model.decoding, domain=pyo.Binary)
    model.finish = pyo.Var(model.bonused, domain=pyo.Binary)


def _most(problem: BatchProblem, i: int) -> int:
    return min(int(problem.prefill[i]), problem.budget)


def _parts(model: Any, problem: BatchProblem) -> None:
    """(3) to (5) Requests with tokens in the batch are counted."""
    model.part = pyo.Var(range(problem.num_requests), domain=pyo.Binary)
    model.prompt_part = pyo.Constraint(
        model.prompts,
        rule=lambda model, i: model.prefill[i] <= _most(problem, i) * model.part[i],
    )
    model.token_part = pyo.Constraint(
        model.decoding, rule=lambda model, i: model.decode[i] <= model.part[i]
    )
    if problem.max_requests is not None:
        count = pyo.quicksum(model.part.values())
        model.requests = pyo.Constraint(expr=count <= problem.max_requests)


def _phase(model: Any, problem: BatchProblem) -> None:
    """(6), (7) Either prompt tokens or decode tokens."""
    model.phase = pyo.Var(domain=pyo.Binary)
    model.prefill_batch = pyo.Constraint(
        model.prompts, rule=lambda model, i: model.prefill[i] <= _most(problem, i) * model.phase
    )
    model.decode_batch = pyo.Constraint(
        model.decoding, rule=lambda model, i: model.decode[i] <= 1 - model.phase
    )


def _cost(model: Any, problem: BatchProblem) -> Any:
    weights = problem.weights.tolist()
    worth = pyo.quicksum(weights[i] * x for i, x in model.prefill.items())
    worth += pyo.quicksum(weights[i] * y for i, y in model.decode.items())
    worth += pyo.quicksum(int(problem.bonuses[i]) * f for i, f in model.finish.items())
    parts = pyo.quicksum(model.part.values()) if problem.fewest_requests else 0
    return parts - problem.scale * worth
