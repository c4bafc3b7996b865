"""Networks of agents as networkx graphs of stages, and back."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from formulations.batching.document import agent_row
from formulations.batching.stages import Agent, Route, Stage
from formulations.documents import shown
from formulations.errors import InputError


def graph_of(
    agents: Sequence[Agent],
    stages: Sequence[Stage],
    routes: Sequence[Route],
    fork_join: Sequence[str],
    slot: Fraction | None,
) -> Any:
    """Return a ``networkx.DiGraph``: see `AgentNetwork.from_graph`."""
    import networkx as nx

    graph = nx.DiGraph(agents=list(agents), fork_join=list(fork_join))
    if slot is not None:
        graph.graph["slot"] = slot
    for stage in stages:
        values = {name: getattr(stage, name) for name in ("agent", "prefill", "decode", "rate")}
        graph.add_node(stage.name, type=stage.request_type, **values)
    for route in routes:
        graph.add_edge(route.source, route.target, probability=route.probability)
    return graph


def document_of(graph: Any) -> dict[str, Any]:
    """Return a graph as the document of a network."""
    import networkx as nx

    if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
        what = f"{shown(type(graph).__name__)} is no directed graph without parallel edges"
        raise InputError("graph", what, "give a networkx.DiGraph of stages")
    agents = [
        agent_row(agent) if isinstance(agent, Agent) else agent
        for agent in graph.graph.get("agents", ())
    ]
    stages = [{**values, "name": name} for name, values in graph.nodes(data=True)]
    routes = [
        {**values, "from": source, "to": target}
        for source, target, values in graph.edges(data=True)
    ]
    document: dict[str, Any] = {"agents": agents, "stages": stages, "routes": routes}
    optional = {key: graph.graph[key] for key in ("slot",) if key in graph.graph}
    return document | {"fork_join": list(graph.graph.get("fork_join", ()))} | optional
