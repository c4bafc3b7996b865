"""The traffic equations of a network of agents, and the load they put on each agent.

``ν_k = e_k + Σ_l ν_l p_lk``: tasks of stage k per slot, of which ``e_k`` come from outside. A
request of a fork–join type passes every stage of it once, so that there ``ν_k = e_k`` is the rate
at which such requests arrive.
"""

from collections.abc import Sequence
from fractions import Fraction

from formulations.batching import AgentNetwork

_ZERO = Fraction(0)
#: Of each stage, others and the share with which they feed it.
Feeds = Sequence[Sequence[tuple[int, Fraction]]]


def direct_rates(network: AgentNetwork) -> tuple[Fraction, ...]:
    """Return ``e_k``, length n [tasks/slot]: what does not come by a route with a probability."""
    kinds = {
        stage.request_type: stage.rate
        for k, stage in enumerate(network.stages)
        if network.forks(k) and not network.predecessors[k]
    }
    return tuple(
        kinds[stage.request_type] if network.forks(k) else stage.rate
        for k, stage in enumerate(network.stages)
    )


def feeds(network: AgentNetwork) -> tuple[tuple[tuple[int, Fraction], ...], ...]:
    """Return ``(l, p_lk)`` of each stage k: routes of types that do not fork."""
    return tuple(() if network.forks(k) else pairs for k, pairs in enumerate(network.predecessors))


def traffic(network: AgentNetwork) -> tuple[Fraction, ...]:
    """Return ``ν_k``, length n [tasks/slot], exactly."""
    return least_solution(direct_rates(network), feeds(network))


def least_solution(constant: Sequence[Fraction], fed: Feeds) -> tuple[Fraction, ...]:
    """Solve ``x_k = constant_k + Σ_(l,p) in fed_k  p x_l`` by elimination.

    Parameters
    ----------
    constant : sequence of Fraction
        Length n.
    fed : sequence of sequences of (int, Fraction)
        Length n; a substochastic matrix of spectral radius below 1, or the transpose of one. No
        pivot is then 0: what is left after each step is such a matrix again.
    """
    values = list(constant)
    rows = [dict(pairs) for pairs in fed]
    # Later rows in which a variable stands, so that sparse networks cost little.
    users: list[set[int]] = [set() for _ in rows]
    for i, row in enumerate(rows):
        for m in row:
            if m < i:
                users[m].add(i)
    for k, row in enumerate(rows):
        keep = 1 - row.pop(k, _ZERO)
        values[k] /= keep
        rows[k] = row = {m: share / keep for m, share in row.items()}
        for i in users[k]:
            share = rows[i].pop(k)
            values[i] += share * values[k]
            for m, further in row.items():
                rows[i][m] = rows[i].get(m, _ZERO) + share * further
                if m < i:
                    users[m].add(i)
    # Each row is left with later variables only.
    for k in reversed(range(len(rows))):
        values[k] += sum((share * values[m] for m, share in rows[k].items()), _ZERO)
    return tuple(values)


def work_rates(network: AgentNetwork, flows: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return ``Σ_{k at j} ν_k (m_p + m_d)`` of each agent, length J [tokens/slot]."""
    work = [_ZERO] * len(network.agents)
    for k, flow in enumerate(flows):
        work[network.agent_of[k]] += flow * network.stages[k].tokens
    return tuple(work)


def loads(network: AgentNetwork) -> tuple[Fraction, ...]:
    """Return ``ρ_j``, length J: tokens that arrive for each agent over what full batches process.

    The load condition, (2.7), (4.1), (4.2) and (4.3), is ``ρ_j < 1`` for every agent.
    """
    work = work_rates(network, traffic(network))
    return tuple(w / agent.rate for w, agent in zip(work, network.agents, strict=True))
