"""Networks of agents (section 4 of the throughput paper): stages, routes and examples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, TypeVar

from formulations.arrays import each_of, entries, integer
from formulations.batching.batch_time import MAX_BUDGET, BatchTime
from formulations.errors import InputError, use_one_of, within
from formulations.problem_data import ProblemData, Validated, check_keys, check_list, shown
from formulations.scalars import exact_number

_MAX_ENGINES = 10_000
_MAX_NAME = 60


@dataclass(frozen=True)
class Agent(Validated):
    """One agent: identical engines in parallel, each with a token budget and a batch time.

    Parameters
    ----------
    name : str
        Its name, unique in the network.
    budget : int
        ``b >= 1``: most tokens of one batch.
    batch_time : BatchTime
        Slots that a batch takes.
    engines : int
        ``K >= 1`` (section 4.1); each request is served by one of them.
    chunked : bool
        Whether a prompt may be cut into chunks that are processed in several batches, as in the
        model (2.5). Otherwise a whole prompt must fit into the budget.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    name: str
    budget: int
    batch_time: BatchTime
    engines: int = 1
    chunked: bool = True

    def __post_init__(self) -> None:
        """Validate."""
        if not isinstance(self.batch_time, BatchTime):
            raise InputError("batch_time", shown(self.batch_time), "give a BatchTime")
        if not isinstance(self.chunked, bool):
            raise InputError("chunked", shown(self.chunked), "write true or false")
        self._set(
            name=name_of(self.name, "name"),
            budget=integer(self.budget, "budget", minimum=1, maximum=MAX_BUDGET),
            engines=integer(self.engines, "engines", minimum=1, maximum=_MAX_ENGINES),
        )

    @property
    def rate(self) -> Fraction:
        """``K·b/t(b)``, tokens per slot of all engines with full batches."""
        return self.engines * self.batch_time.rate(self.budget)

    def to_mapping(self) -> dict[str, Any]:
        """Return the agent as an object of the network document."""
        return {
            "name": self.name,
            "budget": self.budget,
            **self.batch_time.to_mapping(),
            "engines": self.engines,
            "chunked": self.chunked,
        }


@dataclass(frozen=True)
class Stage(Validated):
    """A stage: the visit of the requests of one type to one agent, a class of tasks.

    Parameters
    ----------
    request_type : str
        Type of the requests.
    agent : str
        Name of the agent.
    prefill, decode : Fraction
        Mean numbers of tokens ``m_p`` and ``m_d``, each at least 1; exact.
    rate : Fraction
        External arrivals per slot that begin with this stage; >= 0.
    name : str
        Unique name; ``type@agent`` by default. Required if a type visits an agent twice.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    request_type: str
    agent: str
    prefill: Fraction
    decode: Fraction
    rate: Fraction = Fraction(0)
    name: str = ""

    def __post_init__(self) -> None:
        """Validate."""
        kind, agent = name_of(self.request_type, "type"), name_of(self.agent, "agent")
        self._set(
            prefill=_mean(self.prefill, "prefill"),
            decode=_mean(self.decode, "decode"),
            rate=exact_number(self.rate, "rate"),
            name=name_of(self.name, "name") if self.name != "" else f"{kind}@{agent}",
        )

    @property
    def tokens(self) -> Fraction:
        """``m_p + m_d``, mean tokens of one task."""
        return self.prefill + self.decode


@dataclass(frozen=True)
class Route(Validated):
    """A transition: a completed task of one stage is followed by a task of another stage.

    Parameters
    ----------
    source, target : str
        Names of stages of the same type.
    probability : Fraction
        In (0, 1]. The remaining probability of a stage is that of departure. In a fork–join type
        every route is taken.

    Raises
    ------
    InputError
        If the probability is out of range.
    """

    source: str
    target: str
    probability: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        """Validate."""
        remove = "leave the route out, or "
        chance = exact_number(self.probability, "probability", positive=True, otherwise=remove)
        if chance > 1:
            raise InputError("probability", f"{self.probability} is more than 1", "use 1 at most")
        self._set(
            source=name_of(self.source, "from"),
            target=name_of(self.target, "to"),
            probability=chance,
        )


def name_of(value: object, where: str) -> str:
    """Return a validated name: a short text of one line.

    Raises
    ------
    InputError
        If the value is not a string of one line, or is too long.
    """
    if isinstance(value, str) and 0 < len(value) <= _MAX_NAME and value.isprintable():
        return value
    raise InputError(where, shown(value), f"write a name of 1 to {_MAX_NAME} characters")


def _mean(value: object, where: str) -> Fraction:
    mean = exact_number(value, where, positive=True)
    if mean < 1:
        # Every request has at least one prefill and one decode token (section 2.1).
        raise InputError(where, f"a mean of {mean} tokens", "use 1 or more: each request has one")
    return mean


T = TypeVar("T")

#: Name of the request type if there is only one and it has no name.
DEFAULT_TYPE = "request"
_AGENT = (("name", "budget", "overhead"), ("per_token", "free_tokens", "engines", "chunked"))
_STAGE = (("agent", "prefill", "decode"), ("type", "rate", "name"))
_ROUTE = (("from", "to"), ("probability",))
_NETWORK = (("agents", "stages"), ("routes", "fork_join", "slot"))


def _each(
    rows: object,
    where: str,
    keys: tuple[tuple[str, ...], tuple[str, ...]],
    make: Callable[[Mapping[str, Any]], T],
) -> tuple[T, ...]:
    made = []
    for i, row in enumerate(check_list(rows, where)):
        place = f"{where}[{i}]"
        values = check_keys(row, place, *keys)
        made.append(within(place, lambda values=values: make(values)))  # type: ignore[misc]
    return tuple(made)


def _agent(row: Mapping[str, Any]) -> Agent:
    times = {k: row[k] for k in ("overhead", "per_token", "free_tokens") if k in row}
    if row.get("free_tokens") and "per_token" not in row:
        raise InputError("free_tokens", "no token takes time", "give per_token, or leave it out")
    others = {k: row[k] for k in ("engines", "chunked") if k in row}
    return Agent(row["name"], row["budget"], BatchTime(**times), **others)


def _stage(row: Mapping[str, Any]) -> Stage:
    others = {k: row[k] for k in ("rate", "name") if k in row}
    kind = row.get("type", DEFAULT_TYPE)
    return Stage(kind, row["agent"], row["prefill"], row["decode"], **others)


def _route(row: Mapping[str, Any]) -> Route:
    others = {k: row[k] for k in ("probability",) if k in row}
    return Route(row["from"], row["to"], **others)


def check_routes(
    stages: Sequence[Stage], routes: Sequence[Route], fork_join: Sequence[str]
) -> None:
    """Raise if the routes of a network are inconsistent.

    Parameters
    ----------
    stages : sequence of Stage
        With unique names.
    routes : sequence of Route
        Routes between them.
    fork_join : sequence of str
        Fork–join types, whose routes are all taken.

    Raises
    ------
    InputError
        If a route has unknown stages or stages of two types, or is given twice; if the
        probabilities out of a stage exceed 1, or requests never leave; if a fork–join type has a
        cycle, a probability other than 1, or unequal rates of its first stages.
    """
    _check_ends({stage.name: stage for stage in stages}, routes)
    routed = [stage for stage in stages if stage.request_type not in fork_join]
    _check_departures(routed, routes)
    for kind in dict.fromkeys(fork_join):
        own = [stage for stage in stages if stage.request_type == kind]
        _check_fork_join(kind, own, routes)


def _check_ends(known: dict[str, Stage], routes: Sequence[Route]) -> None:
    seen: set[tuple[str, str]] = set()
    for i, route in enumerate(routes):
        for key, name in (("from", route.source), ("to", route.target)):
            if name not in known:
                remedy = use_one_of(name, known)
                raise InputError(f"routes[{i}].{key}", f"there is no stage {name!r}", remedy)
        if known[route.source].request_type != known[route.target].request_type:
            what = f"{route.source} and {route.target} are of different types"
            raise InputError(f"routes[{i}]", what, "give both stages the same type")
        if (route.source, route.target) in seen:
            what = f"{route.source} to {route.target} occurs twice"
            raise InputError(
                f"routes[{i}]", what, "write it once, with the sum of the probabilities"
            )
        seen.add((route.source, route.target))


def _check_departures(stages: Sequence[Stage], routes: Sequence[Route]) -> None:
    """Raise unless route probabilities sum to at most 1 and requests leave from every stage.

    Both hold iff the spectral radius of the routing matrix is below 1.
    """
    import networkx as nx

    staying = {stage.name: Fraction(0) for stage in stages}
    graph = nx.DiGraph()
    graph.add_nodes_from(staying)
    for route in routes:
        if route.source in staying:
            staying[route.source] += route.probability
            graph.add_edge(route.source, route.target)
    for name, total in staying.items():
        if total > 1:
            what = f"the probabilities from {name} add up to {total}"
            raise InputError("routes", what, "lower them to a sum of 1 at most")
    # If requests can get trapped, some strongly connected component has no departure.
    for part in nx.strongly_connected_components(graph):
        closed = all(target in part for name in part for target in graph[name])
        if closed and all(staying[name] == 1 for name in part):
            names = ", ".join(name for name in staying if name in part)
            what = f"requests never leave {names}: the routing matrix has spectral radius 1"
            remedy = "make the probabilities out of some stage add up to less than 1"
            raise InputError("routes", what, remedy)


def _check_fork_join(kind: str, stages: Sequence[Stage], routes: Sequence[Route]) -> None:
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(stage.name for stage in stages)
    for i, route in enumerate(routes):
        if route.source in graph:
            graph.add_edge(route.source, route.target)
            if route.probability != 1:
                what = f"{kind} is a fork-join type, in which every route is taken"
                raise InputError(f"routes[{i}].probability", what, "leave it out")
    if not nx.is_directed_acyclic_graph(graph):
        cycle = [source for source, _ in nx.find_cycle(graph)]
        path = " to ".join([*cycle, cycle[0]])
        what = f"the routes of the fork-join type {kind} have the cycle {path}"
        raise InputError("routes", what, "remove a route of the cycle")
    # Only the first stages have a rate, the same for all: each request begins in all of them.
    first = {name for name, degree in graph.in_degree if degree == 0}
    if len({stage.rate for stage in stages if stage.name in first}) > 1:
        what = f"the first stages of the fork-join type {kind} have unequal rates"
        raise InputError(
            "stages", what, "give these stages the same rate: each request begins in all of them"
        )
    for stage in stages:
        if stage.name not in first and stage.rate:
            what = f"{stage.name} follows other stages of the fork-join type {kind}"
            raise InputError("stages", f"{what} and has a rate", "leave out its rate")


#: Limits on the size of a network: exact loads use fractions, whose digits grow with it.
_MAX_AGENTS, _MAX_STAGES, _MAX_ROUTES = 200, 1_000, 10_000


@dataclass(frozen=True)
class AgentNetwork(ProblemData):
    """A network of agents whose requests, of several types, pass through stages.

    A request of a *routed* type is in one stage at a time. It arrives at a stage with an external
    rate. After each stage it moves to a successor with the probability of the route, or departs. A
    request of a *fork–join* type passes every stage of its type once. It begins in all stages
    without predecessor at once; a stage begins when all its predecessors are complete, and the
    request departs when all stages are complete.

    Parameters
    ----------
    agents : tuple of Agent
        At least one; j = 0..J−1.
    stages : tuple of Stage
        At least one, each on an agent; k = 0..n−1.
    routes : tuple of Route
        Routes between stages of one type.
    fork_join : tuple of str
        Fork–join types; their routes form no cycle and have probability 1.
    slot : Fraction, optional
        Length of a slot [s], to report rates per second.

    Raises
    ------
    InputError
        If an agent, stage or type is unknown or named twice; if requests never leave (the routing
        matrix has a spectral radius of 1 or more); if a fork–join type has a cycle, or first
        stages with unequal rates; if a budget is below the mean prompt of a request that must not
        be cut.
    """

    agents: tuple[Agent, ...]
    stages: tuple[Stage, ...]
    routes: tuple[Route, ...] = ()
    fork_join: tuple[str, ...] = ()
    slot: Fraction | None = None

    def __post_init__(self) -> None:
        """Validate."""
        for name, of, least, most in (
            ("agents", Agent, 1, _MAX_AGENTS),
            ("stages", Stage, 1, _MAX_STAGES),
            ("routes", Route, 0, _MAX_ROUTES),
        ):
            values = each_of(of, getattr(self, name), name)
            if not least <= len(values) <= most:
                raise InputError(name, f"found {len(values)}", f"give {least} to {most}")
            self._set(**{name: values})
        for where in ("agents", "stages"):
            seen = set[str]()
            for i, part in enumerate(getattr(self, where)):
                if part.name in seen:
                    what = f"{part.name!r} occurs twice"
                    raise InputError(f"{where}[{i}].name", what, "give each its own name")
                seen.add(part.name)
        types = entries(self.fork_join, "fork_join")
        self._set(fork_join=tuple(name_of(t, "fork_join") for t in types))
        if self.slot is not None:
            self._set(slot=exact_number(self.slot, "slot", positive=True))
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
                    "raise the budget or set chunked to true",
                )
        for i, kind in enumerate(self.fork_join):
            if kind not in self.types:
                remedy = use_one_of(kind, self.types)
                raise InputError(f"fork_join[{i}]", f"there is no type {kind!r}", remedy)
            if kind in self.fork_join[:i]:
                what = f"{kind!r} occurs twice"
                raise InputError(f"fork_join[{i}]", what, "name each type once")
        check_routes(self.stages, self.routes, self.fork_join)

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
        """Successors of each stage (length n), as pairs of stage index and route probability."""
        found: list[list[tuple[int, Fraction]]] = [[] for _ in self.stages]
        for route in self.routes:
            target = self.stage_index[route.target]
            found[self.stage_index[route.source]].append((target, route.probability))
        return tuple(tuple(sorted(pairs)) for pairs in found)

    @cached_property
    def predecessors(self) -> tuple[tuple[tuple[int, Fraction], ...], ...]:
        """Predecessors of each stage (length n), as pairs of stage index and route probability."""
        found: list[list[tuple[int, Fraction]]] = [[] for _ in self.stages]
        for k, pairs in enumerate(self.successors):
            for target, probability in pairs:
                found[target].append((k, probability))
        return tuple(tuple(pairs) for pairs in found)

    def forks(self, stage: int) -> bool:
        """Return whether a stage belongs to a fork–join type."""
        return self.stages[stage].request_type in self.fork_join

    def stages_at(self, agent: int) -> tuple[int, ...]:
        """Return the indices of the stages on an agent."""
        return tuple(k for k, j in enumerate(self.agent_of) if j == agent)

    def scaled(self, factor: Fraction) -> Self:
        """Return the network with all external arrival rates multiplied by a factor."""
        stages = tuple(replace(stage, rate=stage.rate * factor) for stage in self.stages)
        return replace(self, stages=stages)

    def to_graph(self) -> Any:
        """Return the network as a ``networkx.DiGraph`` of stages; see `from_graph`."""
        import networkx as nx

        graph = nx.DiGraph(agents=list(self.agents), fork_join=list(self.fork_join))
        if self.slot is not None:
            graph.graph["slot"] = self.slot
        for stage in self.stages:
            values = {
                name: getattr(stage, name) for name in ("agent", "prefill", "decode", "rate")
            }
            graph.add_node(stage.name, type=stage.request_type, **values)
        for route in self.routes:
            graph.add_edge(route.source, route.target, probability=route.probability)
        return graph

    @classmethod
    def from_graph(cls, graph: Any) -> Self:
        """Build a network from a ``networkx.DiGraph`` of stages.

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
            If the graph is not directed or has parallel edges, or the network is invalid.
        """
        import networkx as nx

        if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
            what = f"{shown(type(graph).__name__)} is not a directed graph without parallel edges"
            raise InputError("graph", what, "give a networkx.DiGraph of stages")
        document: dict[str, Any] = {
            "agents": [
                agent.to_mapping() if isinstance(agent, Agent) else agent
                for agent in graph.graph.get("agents", ())
            ],
            "stages": [{**values, "name": name} for name, values in graph.nodes(data=True)],
            "routes": [
                {**values, "from": source, "to": target}
                for source, target, values in graph.edges(data=True)
            ],
            "fork_join": list(graph.graph.get("fork_join", ())),
        }
        return cls.from_mapping(
            document | {key: graph.graph[key] for key in ("slot",) if key in graph.graph}
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return the JSON document that `from_mapping` reads."""
        document: dict[str, Any] = {
            "agents": [agent.to_mapping() for agent in self.agents],
            "stages": [
                {"name": stage.name, "type": stage.request_type, "agent": stage.agent}
                | {name: str(getattr(stage, name)) for name in ("prefill", "decode", "rate")}
                for stage in self.stages
            ],
            "routes": [
                {"from": route.source, "to": route.target, "probability": str(route.probability)}
                for route in self.routes
            ],
            "fork_join": list(self.fork_join),
        }
        return document if self.slot is None else document | {"slot": str(self.slot)}

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Read ``{"agents", "stages"}``; optional: ``routes``, ``fork_join``, ``slot``.

        An agent is ``{"name", "budget", "overhead"}``, optionally with ``per_token``,
        ``free_tokens``, ``engines``, ``chunked``; a stage ``{"agent", "prefill", "decode"}``,
        optionally with ``type``, ``rate``, ``name``; a route ``{"from", "to"}``, optionally with
        ``probability``.
        """
        whole = check_keys(document, "document", *_NETWORK)
        return cls(
            _each(whole["agents"], "agents", _AGENT, _agent),
            _each(whole["stages"], "stages", _STAGE, _stage),
            _each(whole.get("routes", []), "routes", _ROUTE, _route),
            tuple(check_list(whole.get("fork_join", []), "fork_join")),
            whole.get("slot"),
        )


#: Every batch takes one slot, full or not, as in section 4.3 and the small examples.
ONE_SLOT = BatchTime(Fraction(1))
#: Means (m_p, m_d) of a short and of a long prompt in (4.4) and (4.5).
_SHORT, _LONG = (32, 32), (512, 32)


def single_engine(
    rate: object,
    prefill: object,
    decode: object,
    *,
    budget: int,
    batch_time: BatchTime = ONE_SLOT,
    engines: int = 1,
    chunked: bool = True,
    slot: object = None,
) -> AgentNetwork:
    """Return a network of one type on one agent: section 2, or (4.1) with several engines.

    Parameters
    ----------
    rate : number
        ``λ`` [requests/slot].
    prefill, decode : number
        ``m_p`` and ``m_d`` [tokens].
    budget : int
        ``b`` [tokens].
    batch_time : BatchTime
        By default, every batch takes one slot.
    engines : int
        ``K`` engines in parallel.
    chunked, slot
        See `Agent` and `AgentNetwork`.
    """
    return multi_type(
        [(rate, prefill, decode)],
        budget=budget,
        batch_time=batch_time,
        engines=engines,
        chunked=chunked,
        slot=slot,
    )


def multi_type(
    types: Sequence[tuple[object, object, object]],
    *,
    budget: int,
    batch_time: BatchTime = ONE_SLOT,
    engines: int = 1,
    chunked: bool = True,
    slot: object = None,
) -> AgentNetwork:
    """Return a network of request types ``(λ, m_p, m_d)``, named 1, 2, ..., on one agent."""
    agent = Agent("engine", budget, batch_time, engines, chunked)
    stages = tuple(
        Stage(str(i), "engine", prefill, decode, rate)  # type: ignore[arg-type]
        for i, (rate, prefill, decode) in enumerate(types, start=1)
    )
    return AgentNetwork((agent,), stages, slot=slot)  # type: ignore[arg-type]


def fork_join(
    rate: object,
    means: Sequence[tuple[object, object]],
    *,
    budgets: Sequence[int] | int,
    batch_times: Sequence[BatchTime] | BatchTime = ONE_SLOT,
) -> AgentNetwork:
    """Return the four agents of section 4.3: 0 forks into 1 and 2, which join at 3.

    Parameters
    ----------
    rate : number
        ``λ`` [requests/slot].
    means : sequence of (number, number)
        ``(m_p, m_d)`` at agents 0 to 3.
    budgets, batch_times : sequence or one value
        Of agents 0 to 3.
    """
    if len(means) != 4:
        raise InputError("means", f"found {len(means)}", "give (m_p, m_d) of four agents")
    all_budgets = [budgets] * 4 if isinstance(budgets, int) else list(budgets)
    times = [batch_times] * 4 if isinstance(batch_times, BatchTime) else list(batch_times)
    agents = [Agent(f"agent{j}", all_budgets[j], times[j]) for j in range(4)]
    stages = [
        Stage("task", f"agent{j}", *means[j], rate=0 if j else rate)  # type: ignore[arg-type]
        for j in range(4)
    ]
    edges = [(0, 1), (0, 2), (1, 3), (2, 3)]
    routes = [Route(stages[i].name, stages[j].name) for i, j in edges]
    return AgentNetwork(tuple(agents), tuple(stages), tuple(routes), ("task",))


def rybko_stolyar(rate: object, *, budget: int = 768) -> AgentNetwork:
    """Return the Rybko–Stolyar network, (4.4) and (4.5): two types cross two agents.

    Parameters
    ----------
    rate : number
        ``λ`` of each of the types A and B [requests/slot]; 0.9 · 768/608 for a load of 0.9.
    budget : int
        ``b`` of both agents [tokens].
    """
    agents = tuple(Agent(str(j), integer(budget, "budget", minimum=1), ONE_SLOT) for j in (1, 2))
    stages = (
        Stage("A", "1", *_SHORT, rate),  # type: ignore[arg-type]
        Stage("A", "2", *_LONG),  # type: ignore[arg-type]
        Stage("B", "2", *_SHORT, rate),  # type: ignore[arg-type]
        Stage("B", "1", *_LONG),  # type: ignore[arg-type]
    )
    return AgentNetwork(agents, stages, (Route("A@1", "A@2"), Route("B@2", "B@1")))
