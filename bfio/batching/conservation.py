"""Whether a policy is work-conserving (2.6) on an engine, and so covered by Theorem 1.

``K_p``, ``K_d`` and M are harmless only if they are large enough: with decode requests alone at
most K_d tokens can be loaded, so (2.6) asks for ``K_d >= b``; with prompts of at least v tokens,
loaded in order of arrival, for ``K_p >= 1 + ceil((b - 1)/v)``.
"""

from bfio.batching.policy import BatchPolicy
from bfio.batching.scenario import Scenario
from bfio.batching.token_budget import Mixing, Order, TokenBudgetPolicy
from formulations.batching import Agent


def remarks(scenario: Scenario) -> list[str]:
    """Return a sentence for each reason why Theorem 1 says nothing of a scenario."""
    found = []
    for agent in scenario.network.agents:
        serving = scenario.serving_of(agent.name)
        least = _least_prefill(scenario, agent)
        found += [f"{agent.name}: {why}" for why in reasons(serving.policy, agent, least)]
        if (warning := agent.batch_time.rate_check(agent.budget).warning()) is not None:
            found.append(f"{agent.name}: {warning}")
    return found


def reasons(policy: BatchPolicy, agent: Agent, least_prefill: int = 1) -> list[str]:
    """Return why a policy need not be work-conserving on an engine; empty if it is.

    Parameters
    ----------
    policy : BatchPolicy
        Of one's own: nothing is known.
    agent : Agent
        Whose budget counts.
    least_prefill : int
        Least prefill tokens of a request.
    """
    if not isinstance(policy, TokenBudgetPolicy):
        return ["nothing is known of this policy: Theorem 1 holds if it is work-conserving"]
    if policy.mixing is not Mixing.MIXED:
        return ["phases do not mix: not work-conserving, Theorem 1 says nothing"]
    budget, found = agent.budget, []
    if 0 < policy.kd < budget:
        found.append(f"K_d = {policy.kd} < b = {budget}: {_NOT_FULL.format('decode requests')}")
    if 0 < policy.limit < budget:
        found.append(f"M = {policy.limit} < b = {budget}: {_NOT_FULL.format('decode requests')}")
    # Chunks in order of arrival: all prompts but the last are whole.
    in_order = policy.prefill_order is Order.ARRIVAL
    needed = 1 + -(-(budget - 1) // least_prefill) if in_order else budget
    if 0 < policy.kp < min(needed, budget):
        found.append(
            f"K_p = {policy.kp} < {min(needed, budget)}: {_NOT_FULL.format('short prompts')}"
        )
    if not agent.chunked:
        found.append("prompts are not cut: a batch may not be full, Theorem 1 says nothing")
    return found


_NOT_FULL = "with {} alone a batch is not full (2.6), Theorem 1 says nothing"


def _least_prefill(scenario: Scenario, agent: Agent) -> int:
    stages = scenario.network.stages_at(scenario.network.agent_index[agent.name])
    return min((scenario.size_laws[k].least_prefill for k in stages), default=1)
