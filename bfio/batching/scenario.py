"""What is simulated: a network of agents, the laws of what arrives, and who decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from bfio.batching.arrivals import ArrivalLaw, ArrivalName, DrawnArrivals
from bfio.batching.laws import Law, LawName
from bfio.batching.policy import BatchPolicy
from bfio.batching.sizes import DrawnSizes, SizeLaw
from bfio.batching.time_terms import TimeTerms
from bfio.batching.token_budget import TokenBudgetPolicy
from formulations.arrays import integer
from formulations.batching import Agent, AgentNetwork
from formulations.errors import InputError, use_one_of
from formulations.problem_data import Validated, member

#: Most requests that may be there when a run begins.
_MAX_INITIAL = 10**7


class Balancer(StrEnum):
    """Which of the engines of an agent a request joins, section 4.1."""

    #: Each with equal probability.
    RANDOM = "random"
    #: Least requests that have not departed; of equal ones the lowest engine.
    REQUESTS = "least-requests"
    #: Least unprocessed tokens.
    TOKENS = "least-tokens"
    #: All join the first: a balancer for which Proposition 1 is false.
    FIRST = "first"


@dataclass(frozen=True)
class Serving(Validated):
    """How one agent serves.

    Parameters
    ----------
    policy : BatchPolicy
        Who decides: a `TokenBudgetPolicy`, or a function of `BatchState`.
    name : str
        Its name in results.
    balancer : Balancer
        Which engine a request joins, if there are several.
    priority : tuple of str
        Names of stages in the order of their priority; those that are not named come after them,
        together. Empty: all are alike.
    terms : TimeTerms
        Time of a batch beyond (2.3).
    """

    policy: BatchPolicy = field(default_factory=TokenBudgetPolicy)
    name: str = "sarathi"
    balancer: Balancer = Balancer.RANDOM
    priority: tuple[str, ...] = ()
    terms: TimeTerms = field(default_factory=TimeTerms)

    def __post_init__(self) -> None:
        """Validate."""
        balancer = member(Balancer, self.balancer, "balancer")
        self._set(balancer=balancer, priority=tuple(self.priority))


@dataclass(frozen=True)
class Scenario(Validated):
    """A network, and all that a run of it needs to know.

    Parameters
    ----------
    network : AgentNetwork
        Agents, stages and routes.
    serving : Serving
        How agents serve that are not in ``agents``.
    agents : mapping
        How others do, by name.
    sizes : LawName
        Law of the tokens of stages that are not in ``listed_sizes``; means are the network's.
    listed_sizes : mapping
        Laws of the tokens of others, by name of the stage.
    arrivals : ArrivalName
        Law of arrivals from outside that are not in ``listed_arrivals``; rates are the network's.
    listed_arrivals : mapping
        Laws of others, by name of the stage.
    delays : mapping
        Stages that a request comes to only after a delay, such as the call of a tool, and its law
        [slots]; arrivals from outside have none.
    initial : mapping
        Requests that have just arrived at a stage when the run begins.

    Raises
    ------
    InputError
        If an agent or stage is unknown, or a law has no place where it is given.
    """

    network: AgentNetwork
    serving: Serving = field(default_factory=Serving)
    agents: Mapping[str, Serving] = field(default_factory=dict)
    sizes: LawName | str = LawName.GEOMETRIC
    listed_sizes: Mapping[str, SizeLaw] = field(default_factory=dict)
    arrivals: ArrivalName | str = ArrivalName.POISSON
    listed_arrivals: Mapping[str, ArrivalLaw] = field(default_factory=dict)
    delays: Mapping[str, Law] = field(default_factory=dict)
    initial: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Validate."""
        self._set(
            sizes=member(LawName, self.sizes, "sizes"),
            arrivals=member(ArrivalName, self.arrivals, "arrivals"),
        )
        _check_names(self.agents, self.network.agent_index, "agents")
        for name in ("listed_sizes", "listed_arrivals", "delays", "initial"):
            _check_names(getattr(self, name), self.network.stage_index, name)
        for name, count in self.initial.items():
            integer(count, f"initial[{name}]", maximum=_MAX_INITIAL)
        for name in (*self.listed_arrivals, *self.initial):
            self._check_begins(name)
        for agent in self.network.agents:
            self._check_priority(agent)
        self._check_means()

    def _check_begins(self, stage: str) -> None:
        k = self.network.stage_index[stage]
        if self.network.forks(k) and self.network.predecessors[k]:
            what = f"requests of a fork-join type do not begin with {stage}"
            raise InputError("arrivals", what, "let them arrive where the type begins")

    def _check_priority(self, agent: Agent) -> None:
        own = [self.network.stages[k].name for k in self._stages_at(agent)]
        priority = self.serving_of(agent.name).priority
        if agent.name in self.agents:
            for name in priority:
                if name not in own:
                    where = f"priority of {agent.name}"
                    raise InputError(where, f"no stage {name!r} there", use_one_of(name, own))
        if len(set(priority)) < len(priority):
            raise InputError("priority", "a stage occurs twice", "name each once")

    def _check_means(self) -> None:
        """Make the laws: fixed sizes must be whole."""
        assert len(self.size_laws) == len(self.arrival_laws)

    def _stages_at(self, agent: Agent) -> tuple[int, ...]:
        return self.network.stages_at(self.network.agent_index[agent.name])

    def serving_of(self, agent: str) -> Serving:
        """Return how an agent serves."""
        return self.agents.get(agent, self.serving)

    @cached_property
    def size_laws(self) -> tuple[SizeLaw, ...]:
        """Law of the tokens of each stage."""
        law = LawName(self.sizes)
        return tuple(
            self.listed_sizes.get(stage.name)
            or DrawnSizes(Law(law, stage.prefill), Law(law, stage.decode))
            for stage in self.network.stages
        )

    @cached_property
    def arrival_laws(self) -> tuple[ArrivalLaw, ...]:
        """Law of the arrivals from outside at each stage."""
        law = ArrivalName(self.arrivals)
        return tuple(
            self.listed_arrivals.get(stage.name) or DrawnArrivals(law, stage.rate)
            for stage in self.network.stages
        )

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Priority of each stage on its agent; 0 comes first."""
        found = []
        for stage in self.network.stages:
            priority = self.serving_of(stage.agent).priority
            known = stage.name in priority
            found.append(priority.index(stage.name) if known else len(priority))
        # Numbered without gaps, so that passes over empty classes cost nothing.
        used = sorted(set(found))
        return tuple(used.index(rank) for rank in found)


def _check_names(given: Mapping[str, object], known: Mapping[str, int], where: str) -> None:
    for name in given:
        if name not in known:
            raise InputError(where, f"there is no {name!r}", use_one_of(name, known))
