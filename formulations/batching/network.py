"""A network of agents: stages of requests on agents, and the routes between them (section 4)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

from formulations.batching import document as documents
from formulations.batching.routing import check_routes
from formulations.batching.stages import Agent, Route, Stage, name_of
from formulations.errors import InputError, use_one_of
from formulations.problem_data import ProblemData
from formulations.rationals import exact_number

#: Most agents and stages: load and capacity are exact, and fractions grow.
_MAX_AGENTS, _MAX_STAGES, _MAX_ROUTES = 200, 1_000, 10_000


@dataclass(frozen=True)
class AgentNetwork(ProblemData):
    """Requests of several types, which pass stages on agents.

    A request of a *routed* type is in one stage at a time: it begins in a stage with its external
    rate, and after each goes to one successor with the probability of the route, or departs. A
    request of a *fork–join* type passes every stage of its type once: it begins in all stages
    without predecessor at once, a stage begins when all its predecessors are done, and the
    request departs when all stages are.

    Parameters
    ----------
    agents : tuple of Agent
        At least one; j = 0..J−1.
    stages : tuple of Stage
        At least one, each on an agent; k = 0..n−1.
    routes : tuple of Route
        Between stages of one type.
    fork_join : tuple of str
        Types that fork and join; their routes form no cycle and have probability 1.
    slot : Fraction, optional
        Seconds of a slot, if rates are to be told per second.

    Raises
    ------
    InputError
        If an agent, stage or type is unknown or named twice; requests never leave (the routing
        matrix has a spectral radius of 1 or more); a fork–join type has a cycle, or stages that
        begin it at unequal rates; a budget is below the mean prompt of a request that must not be
        cut.
    """

    agents: tuple[Agent, ...]
    stages: tuple[Stage, ...]
    routes: tuple[Route, ...] = ()
    fork_join: tuple[str, ...] = ()
    slot: Fraction | None = None

    def __post_init__(self) -> None:
        """Validate."""
        for name, least, most in (
            ("agents", 1, _MAX_AGENTS),
            ("stages", 1, _MAX_STAGES),
            ("routes", 0, _MAX_ROUTES),
        ):
            values = tuple(getattr(self, name))
            if not least <= len(values) <= most:
                raise InputError(name, f"{len(values)} of them", f"give {least} to {most}")
            self._set(**{name: values})
        _check_unique("agents", [agent.name for agent in self.agents])
        _check_unique("stages", [stage.name for stage in self.stages])
        self._set(fork_join=tuple(name_of(t, "fork_join") for t in self.fork_join))
        if self.slot is not None:
            self._set(slot=exact_number(self.slot, "slot", positive=True))
        self._check_agents()
        self._check_types()
        check_routes(self.stages, self.routes, self.fork_join)

    def _check_agents(self) -> None:
        """Every stage is on an agent, whose budget holds a prompt that must not be cut."""
        known = {agent.name: agent for agent in self.agents}
        for k, stage in enumerate(self.stages):
            if stage.agent not in known:
                remedy = use_one_of(stage.agent, known)
                raise InputError(f"stages[{k}].agent", f"there is no {stage.agent!r}", remedy)
            agent = known[stage.agent]
            if not agent.chunked and agent.budget < stage.prefill:
                raise InputError(
                    f"stages[{k}]",
                    f"a mean prompt of {stage.prefill} tokens exceeds the budget {agent.budget} "
                    f"of {agent.name}, which does not cut prompts",
                    "raise the budget or let it (chunked)",
                )

    def _check_types(self) -> None:
        """Every fork–join type has a stage."""
        for i, kind in enumerate(self.fork_join):
            if kind not in self.types:
                remedy = use_one_of(kind, self.types)
                raise InputError(f"fork_join[{i}]", f"there is no type {kind!r}", remedy)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Types of requests, in the order of their first stages."""
        return tuple(dict.fromkeys(stage.request_type for stage in self.stages))

    @cached_property
    def agent_index(self) -> Mapping[str, int]:
        """Index of each agent by name."""
        return {agent.name: j for j, agent in enumerate(self.agents)}

    @cached_property
    def stage_index(self) -> Mapping[str, int]:
        """Index of each stage by name."""
        return {stage.name: k for k, stage in enumerate(self.stages)}

    @cached_property
    def agent_of(self) -> tuple[int, ...]:
        """Index of the agent of each stage, length n."""
        return tuple(self.agent_index[stage.agent] for stage in self.stages)

    @cached_property
    def successors(self) -> tuple[tuple[tuple[int, Fraction], ...], ...]:
        """Of each stage, the stages that may follow it and the probability of each route."""
        found: list[list[tuple[int, Fraction]]] = [[] for _ in self.stages]
        for route in self.routes:
            target = self.stage_index[route.target]
            found[self.stage_index[route.source]].append((target, route.probability))
        return tuple(tuple(sorted(pairs)) for pairs in found)

    @cached_property
    def predecessors(self) -> tuple[tuple[tuple[int, Fraction], ...], ...]:
        """Of each stage, the stages that it may follow and the probability of each route."""
        found: list[list[tuple[int, Fraction]]] = [[] for _ in self.stages]
        for k, pairs in enumerate(self.successors):
            for target, probability in pairs:
                found[target].append((k, probability))
        return tuple(tuple(pairs) for pairs in found)

    def forks(self, stage: int) -> bool:
        """Return whether a stage is of a fork–join type: all successors follow it."""
        return self.stages[stage].request_type in self.fork_join

    def stages_at(self, agent: int) -> tuple[int, ...]:
        """Return the stages on an agent."""
        return tuple(k for k, j in enumerate(self.agent_of) if j == agent)

    def scaled(self, factor: Fraction) -> Self:
        """Return the network with all external rates times a factor."""
        stages = tuple(replace(stage, rate=stage.rate * factor) for stage in self.stages)
        return replace(self, stages=stages)

    def to_graph(self) -> Any:
        """Return it as a ``networkx.DiGraph`` of stages; see `from_graph`."""
        from formulations.batching.graphs import graph_of

        return graph_of(self.agents, self.stages, self.routes, self.fork_join, self.slot)

    @classmethod
    def from_graph(cls, graph: Any) -> Self:
        """Read a ``networkx.DiGraph``.

        Parameters
        ----------
        graph : networkx.DiGraph
            Nodes are names of stages, with the attributes ``agent``, ``prefill``, ``decode`` and,
            optionally, ``type`` and ``rate``; edges may have a ``probability``. The graph has
            ``agents``, a list of `Agent` or of objects as in the document, and optionally
            ``fork_join`` and ``slot``.

        Raises
        ------
        InputError
            If it is no directed graph without parallel edges, or as the class says.
        """
        from formulations.batching.graphs import document_of

        return cls.from_mapping(document_of(graph))

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        return documents.mapping_of(
            self.agents, self.stages, self.routes, self.fork_join, self.slot
        )

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Read ``{"agents", "stages"}``; optional: ``routes``, ``fork_join``, ``slot``.

        An agent is ``{"name", "budget", "overhead"}``, optionally with ``per_token``,
        ``free_tokens``, ``engines``, ``chunked``; a stage ``{"agent", "prefill", "decode"}``,
        optionally with ``type``, ``rate``, ``name``; a route ``{"from", "to"}``, optionally with
        ``probability``.
        """
        return cls(*documents.parts_of(document))


def _check_unique(where: str, names: list[str]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InputError(f"{where}[{i}].name", f"{name!r} occurs twice", "name each once")
