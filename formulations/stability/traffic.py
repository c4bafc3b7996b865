"""The traffic equations of a network of agents, and the load of each agent.

``ν_k = e_k + Σ_l ν_l p_lk``: tasks of stage k per slot, of which ``e_k`` arrive from outside. A
request of a fork–join type passes every stage of its type once, so ``ν_k = e_k`` is the arrival
rate of the type.

Under a priority, some pairs of stages are never served at the same time (section 4.3). At agent x
stage s has priority over stage u, at agent y stage r over stage v. Let s be fed by v only, and r
by u only. Then s receives tasks only while r has none to serve, and r only while s has none. Once
one of these two queues is empty, stages s and r are never served in full batches at the same time.
The two stages form a *virtual station*, whose load ``ν_s w_s / C_x + ν_r w_r / C_y`` must not
exceed 1 either, for any loads of the agents. In the Rybko–Stolyar network this condition is
``2·544·λ <= 768``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from formulations.batching import AgentNetwork
from formulations.errors import InputError, check_kind, use_one_of

_ZERO = Fraction(0)
#: Per stage, pairs of a feeding stage and its share.
Feeds = Sequence[Sequence[tuple[int, Fraction]]]


def direct_rates(network: AgentNetwork) -> tuple[Fraction, ...]:
    """Return ``e_k``, length n: arrivals except by probabilistic routes [tasks/slot]."""
    check_kind(network, AgentNetwork, "network", "AgentNetwork(...)")
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
    """Return the probabilistic routes into each stage k as pairs ``(l, p_lk)``, length n."""
    return tuple(() if network.forks(k) else pairs for k, pairs in enumerate(network.predecessors))


def traffic(network: AgentNetwork) -> tuple[Fraction, ...]:
    """Return ``ν_k``, the tasks of each stage per slot, length n, exactly."""
    return least_solution(direct_rates(network), feeds(network))


def least_solution(constant: Sequence[Fraction], fed: Feeds) -> tuple[Fraction, ...]:
    """Solve ``x_k = constant_k + Σ_(l,p) in fed_k  p x_l`` by elimination.

    Parameters
    ----------
    constant : sequence of Fraction
        Length n.
    fed : sequence of sequences of (int, Fraction)
        Length n; a substochastic matrix of spectral radius below 1, or its transpose. No pivot is
        then 0, since each elimination step leaves a matrix of the same kind.
    """
    values = list(constant)
    rows = [dict(pairs) for pairs in fed]
    # Rows that contain each variable, so that sparse networks are cheap to eliminate.
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
    # After the elimination, each row contains later variables only: substitute backwards.
    for k in reversed(range(len(rows))):
        values[k] += sum((share * values[m] for m, share in rows[k].items()), _ZERO)
    return tuple(values)


def work_rates(network: AgentNetwork, flows: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the work rate ``Σ_{k at j} ν_k (m_p + m_d)`` of each agent, (J,) [tokens/slot]."""
    work = [_ZERO] * len(network.agents)
    for k, flow in enumerate(flows):
        work[network.agent_of[k]] += flow * network.stages[k].tokens
    return tuple(work)


def share_of(network: AgentNetwork, stage: int) -> Fraction:
    """Return ``w_k / C_j(k)``: time of the agent that one task of the stage takes [slots]."""
    return network.stages[stage].tokens / network.agents[network.agent_of[stage]].rate


def loads(network: AgentNetwork) -> tuple[Fraction, ...]:
    """Return the loads ``ρ_j``, length J: arriving tokens of each agent over its largest rate.

    The load condition, (2.7), (4.1), (4.2) and (4.3), is ``ρ_j < 1`` for every agent.
    """
    work = work_rates(network, traffic(network))
    return tuple(w / agent.rate for w, agent in zip(work, network.agents, strict=True))


#: Stages of each agent by name, in order of priority.
Priority = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class VirtualStation:
    """Two stages, on different agents, that are never served at the same time.

    Parameters
    ----------
    stages : tuple of int
        Indices of the two stages, increasing.
    """

    stages: tuple[int, int]

    def name(self, network: AgentNetwork) -> str:
        """Return the names of the stages, joined by a plus sign."""
        return " + ".join(network.stages[k].name for k in self.stages)


def virtual_stations(network: AgentNetwork, priority: Priority) -> tuple[VirtualStation, ...]:
    """Return the pairs of stages that a priority never serves at the same time.

    Parameters
    ----------
    network : AgentNetwork
        Data. Agents with several engines are ignored, since each engine has its own queue.
    priority : mapping of str to sequence of str
        Agent to all its stages in order of priority; agents that are missing have no priority.

    Raises
    ------
    InputError
        If an agent is unknown, or its stages are not each named once.
    """
    rank = _ranks(network, priority)
    found = []
    for first, second in combinations(range(len(network.stages)), 2):
        x, y = network.agent_of[first], network.agent_of[second]
        alone = network.agents[x].engines == network.agents[y].engines == 1
        if x != y and alone and _blocks(network, rank, first, second):
            found.append(VirtualStation((first, second)))
    return tuple(found)


def named_priority(
    network: AgentNetwork, which: str, where: str = "priority"
) -> dict[str, list[str]]:
    """Return the priority named ``last`` or ``first``: the stages of each agent in order.

    Parameters
    ----------
    network : AgentNetwork
        Data.
    which : str
        ``last``: fewest remaining stages first; ``first``: most remaining stages first.
    where : str
        Name of the option in errors.

    Raises
    ------
    InputError
        If the name is unknown, no agent has two stages to order, or the routes have a cycle.
    """
    if which not in ("last", "first"):
        raise InputError(where, f"{which!r} is unknown", use_one_of(which, ("last", "first")))
    if all(len(network.stages_at(j)) < 2 for j in range(len(network.agents))):
        raise InputError(where, "no agent has two stages to order", "leave out the priority")
    return last_stage_priority(network, reverse=which == "first")


def last_stage_priority(network: AgentNetwork, *, reverse: bool = False) -> dict[str, list[str]]:
    """Return the priority for requests with fewest remaining stages; ties are ordered by name.

    Parameters
    ----------
    network : AgentNetwork
        Data.
    reverse : bool
        Whether most remaining stages come first instead.

    Raises
    ------
    InputError
        If the routes have a cycle, so that there is no last stage.
    """
    import networkx as nx

    graph = network.to_graph()
    if not nx.is_directed_acyclic_graph(graph):
        what = "the routes have a cycle, so that no stage is the last one"
        raise InputError("routes", what, "list the stages of each agent in order of priority")
    to_go: dict[str, int] = {}
    for name in reversed(list(nx.topological_sort(graph))):
        to_go[name] = 1 + max((to_go[after] for after in graph[name]), default=0)
    sign = -1 if reverse else 1
    return {
        agent.name: sorted(
            (network.stages[k].name for k in network.stages_at(j)),
            key=lambda name: (sign * to_go[name], name),
        )
        for j, agent in enumerate(network.agents)
    }


def _ranks(network: AgentNetwork, priority: Priority) -> dict[int, int]:
    """Return the rank of each stage whose agent has a priority."""
    rank: dict[int, int] = {}
    for agent, order in priority.items():
        if agent not in network.agent_index:
            remedy = use_one_of(agent, network.agent_index)
            raise InputError("priority", f"there is no agent {agent!r}", remedy)
        own = {network.stages[k].name for k in network.stages_at(network.agent_index[agent])}
        if sorted(order) != sorted(own):
            remedy = f"name each once: {', '.join(sorted(own))}"
            raise InputError(
                f"priority.{agent}", "does not list each stage of the agent once", remedy
            )
        rank |= {network.stage_index[name]: place for place, name in enumerate(order)}
    return rank


def _blocks(network: AgentNetwork, rank: Mapping[int, int], first: int, second: int) -> bool:
    """Return whether each of two stages is fed only by stages of lower priority than the other."""
    return all(
        not network.stages[stage].rate
        and len(network.predecessors[stage]) > 0
        and all(
            _comes_before(network, rank, other, source)
            for source, _ in network.predecessors[stage]
        )
        for stage, other in ((first, second), (second, first))
    )


def _comes_before(network: AgentNetwork, rank: Mapping[int, int], stage: int, source: int) -> bool:
    same = network.agent_of[stage] == network.agent_of[source]
    return same and stage in rank and rank[stage] < rank[source]
