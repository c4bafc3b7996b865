"""What is simulated: a network of agents, the laws of what arrives, and who decides.

Requests of a trace on one agent: their sizes, and their own times or Poisson times.

Whether a policy is work-conserving (2.6) on an engine, and so covered by Theorem 1.

``K_p``, ``K_d`` and M are harmless only if they are large enough: with decode requests alone at
most K_d tokens can be loaded, so (2.6) asks for ``K_d >= b``; with prompts of at least v tokens,
loaded in order of arrival, for ``K_p >= 1 + ceil((b - 1)/v)``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

import numpy as np

from bfio.batching.laws import (
    MAX_SLOT,
    ArrivalLaw,
    ArrivalName,
    DrawnArrivals,
    DrawnSizes,
    Law,
    LawName,
    ListedArrivals,
    ListedSizes,
    SizeLaw,
)
from bfio.batching.policy import BatchPolicy, Mixing, Order, TokenBudgetPolicy
from bfio.batching.time_terms import TimeTerms
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray, integer
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


def with_trace(
    scenario: Scenario, workload: Workload, *, rate_scale: Fraction | int = 1, drawn: bool = False
) -> Scenario:
    """Return a scenario of one stage with the requests of a trace.

    Parameters
    ----------
    scenario : Scenario
        Of a network with one stage; its means and its rate become those of the trace, but for a
        rate that is ``drawn``.
    workload : Workload
        Prompts and outputs; a request without output decodes one token, as each does (2.1).
    rate_scale : Fraction or int
        Multiplies the rate of the trace's own times.
    drawn : bool
        Whether arrivals are drawn with the network's rate instead, and sizes from the trace with
        replacement.

    Raises
    ------
    InputError
        If the network has several stages or slots without a length, or the trace no times.
    """
    network = scenario.network
    if len(network.stages) > 1:
        what = f"{len(network.stages)} stages for the requests of a trace"
        raise InputError("trace", what, "give a file with one stage")
    decode = np.maximum(workload.output_tokens, 1)
    sizes = ListedSizes(workload.prompt_tokens, decode, in_order=not drawn)
    stage = network.stages[0].name
    if drawn:
        return replace(
            scenario,
            network=_with_means(network, sizes, network.stages[0].rate),
            listed_sizes={stage: sizes},
        )
    slots = _arrival_slots(network, workload, Fraction(rate_scale))
    rate = Fraction(len(slots), int(slots[-1]) + 1)
    return replace(
        scenario,
        network=_with_means(network, sizes, rate),
        listed_sizes={stage: sizes},
        listed_arrivals={stage: ListedArrivals(slots)},
    )


def _arrival_slots(network: AgentNetwork, workload: Workload, scale: Fraction) -> IntArray:
    """Return the slots in which requests arrive: they may be loaded in the next one."""
    if network.slot is None:
        raise InputError("slot", "a slot has no length", "say how many seconds it lasts")
    if scale <= 0:
        raise InputError("rate_scale", f"{scale} is out of range", "use a number > 0")
    times = workload.exact_arrivals("give a rate")
    slots = np.maximum(times.rounded_up(1 / (network.slot * scale)) - 1, 0)
    if not len(slots) or int(slots[-1]) >= MAX_SLOT:
        raise InputError("trace", f"{len(slots)} requests", "use another trace or rate scale")
    return np.asarray(slots, dtype=np.int64)


def _with_means(network: AgentNetwork, sizes: ListedSizes, rate: Fraction) -> AgentNetwork:
    """Return a network of one stage with the means of a trace, so that theory speaks of them."""
    num = len(sizes.prefill)
    prefill, decode = (Fraction(int(v.sum()), num) for v in (sizes.prefill, sizes.decode))
    stage = replace(network.stages[0], prefill=prefill, decode=decode, rate=rate)
    return replace(network, stages=(stage,))


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
