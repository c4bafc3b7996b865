"""The capacity program: the largest load that a network of agents can carry, in Pyomo.

Sets
    stages k = 0..n−1 on agents j(k), agents j = 0..J−1, virtual stations v
Data (rationals)
    e_k direct rate of stage k [tasks/slot], p_lk share of l's tasks followed by k (see `traffic`)
    w_k = m_p + m_d tokens of a task, C_j = K_j b_j / t_j(b_j) tokens per slot of full batches
Variables
    rate[k] >= 0        ν_k, tasks of stage k per slot
    factor >= 0         θ, common factor on all external rates
Objective
    max θ                                                   (stated as min of its negative)
Constraints
    (1) traffic[k]      ν_k >= e_k θ + Σ_l p_lk ν_l         the traffic equations
    (2) work[j]         Σ_{k at j} w_k ν_k <= C_j           (2.7), (4.1), (4.2), (4.3)
    (3) virtual[v]      Σ_{k in v} (w_k / C_j(k)) ν_k <= 1  pairs kept apart by a priority

The least ν that satisfies (1) satisfies it with equality. The load condition is strict, so it
holds iff θ > 1. The dual price of work[j] is the increase of θ per additional token per slot at
agent j.
"""

from collections.abc import Sequence
from typing import Any

from formulations.batching import AgentNetwork
from formulations.linear import allow_fractions
from formulations.modelling import pyo
from formulations.stability.traffic import VirtualStation, direct_rates, feeds, share_of
from formulations.standard_form import constraint


def build(network: AgentNetwork, virtual: Sequence[VirtualStation] = ()) -> Any:
    """Return the Pyomo model of the capacity program.

    Parameters
    ----------
    network : AgentNetwork
        Data.
    virtual : sequence of VirtualStation
        Pairs of stages that are never served at the same time.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    allow_fractions()
    model = pyo.ConcreteModel(name="network_capacity")
    model.rate = pyo.Var(range(len(network.stages)), domain=pyo.NonNegativeReals)
    model.factor = pyo.Var(domain=pyo.NonNegativeReals)
    direct, fed = direct_rates(network), feeds(network)

    @constraint(model, range(len(network.stages)))
    def traffic(model: Any, k: int) -> Any:
        """(1) Each stage serves at least the tasks that arrive."""
        routed = pyo.quicksum(share * model.rate[i] for i, share in fed[k])
        return model.rate[k] >= direct[k] * model.factor + routed

    # Skip agents without stages: their row would have no variables.
    @constraint(model, sorted(set(network.agent_of)))
    def work(model: Any, j: int) -> Any:
        """(2) No agent gets more tokens than its full batches process."""
        terms = (network.stages[k].tokens * model.rate[k] for k in network.stages_at(j))
        return pyo.quicksum(terms) <= network.agents[j].rate

    @constraint(model, range(len(virtual)), name="virtual")
    def never_together(model: Any, v: int) -> Any:
        """(3) Stages that are never served at the same time share the time of one agent."""
        shares = (share_of(network, k) * model.rate[k] for k in virtual[v].stages)
        return pyo.quicksum(shares) <= 1

    model.objective = pyo.Objective(expr=-model.factor, sense=pyo.minimize)
    return model
