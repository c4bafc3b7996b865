"""The integer program of one batch (which tokens an engine processes next), in Pyomo.

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
The paper states no program. Its policies correspond to weights: Sarathi-Serve has larger w in
decode, Orca in prefill; FasterTransformer and vLLM do not mix.
"""

from typing import Any

import numpy as np

from formulations.batch_composition.problem import BatchProblem
from formulations.modelling import pyo
from formulations.standard_form import constraint


def build(problem: BatchProblem, model: Any = None) -> Any:
    """Return the Pyomo model of a batch problem with at least one request.

    Parameters
    ----------
    problem : BatchProblem
        Data.
    model : pyomo.environ.ConcreteModel, optional
        Model to add to; by default a new one.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    model = pyo.ConcreteModel(name="batch_composition") if model is None else model
    most = np.minimum(problem.prefill, problem.budget).tolist()
    # A prompt longer than the budget cannot be completed in this batch.
    fits = problem.prefill <= problem.budget
    chosen = {
        "prompts": problem.in_prefill,
        "decoding": ~problem.in_prefill,
        "bonused": (problem.bonuses > 0) & fits,
    }
    for name, flags in chosen.items():
        setattr(model, name, pyo.Set(initialize=np.flatnonzero(flags).tolist()))
    model.prefill = pyo.Var(
        model.prompts, domain=pyo.NonNegativeIntegers, bounds=lambda _, i: (0, most[i])
    )
    model.decode = pyo.Var(model.decoding, domain=pyo.Binary)
    model.finish = pyo.Var(model.bonused, domain=pyo.Binary)
    tokens = (*model.prefill.values(), *model.decode.values())
    told = "(1) The tokens of the batch are within the budget."
    model.budget = pyo.Constraint(expr=pyo.quicksum(tokens) <= problem.budget, doc=told)

    @constraint(model, model.bonused)
    def finished(model: Any, i: int) -> Any:
        """(2) Only a completed prompt earns its bonus."""
        return int(problem.prefill[i]) * model.finish[i] <= model.prefill[i]

    if problem.max_requests is not None or problem.fewest_requests:
        model.part = pyo.Var(range(problem.num_requests), domain=pyo.Binary)

        @constraint(model, model.prompts)
        def prompt_part(model: Any, i: int) -> Any:
            """(3) Count requests with prompt tokens in the batch."""
            return model.prefill[i] <= most[i] * model.part[i]

        @constraint(model, model.decoding)
        def token_part(model: Any, i: int) -> Any:
            """(4) Count requests with a decode token in the batch."""
            return model.decode[i] <= model.part[i]

        if problem.max_requests is not None:
            count = pyo.quicksum(model.part.values())
            told = "(5) The batch has tokens of at most M requests."
            model.requests = pyo.Constraint(expr=count <= problem.max_requests, doc=told)
    if not problem.mixing:
        model.phase = pyo.Var(domain=pyo.Binary)

        @constraint(model, model.prompts)
        def prefill_batch(model: Any, i: int) -> Any:
            """(6) Only a prefill batch has prompt tokens."""
            return model.prefill[i] <= most[i] * model.phase

        @constraint(model, model.decoding)
        def decode_batch(model: Any, i: int) -> Any:
            """(7) Only a decode batch has decode tokens."""
            return model.decode[i] <= 1 - model.phase

    weights, bonuses = problem.weights.tolist(), problem.bonuses.tolist()
    worth = pyo.quicksum(weights[i] * x for i, x in model.prefill.items())
    worth += pyo.quicksum(weights[i] * y for i, y in model.decode.items())
    worth += pyo.quicksum(bonuses[i] * f for i, f in model.finish.items())
    parts = pyo.quicksum(model.part.values()) if problem.fewest_requests else 0
    model.objective = pyo.Objective(expr=parts - problem.scale * worth, sense=pyo.minimize)
    return model
