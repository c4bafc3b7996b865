"""Define a simulated scenario: network of agents, distributions of arrivals and sizes, policies.

`with_trace` serves the requests of a trace on one agent, with their own times or Poisson times.

`remarks` lists the reasons why a policy may not be work-conserving (2.6) on an engine, so that
Theorem 1 does not apply. With decode requests alone a batch has at most K_d tokens, so (2.6)
requires ``K_d >= b``. With prompts of at least v tokens, served in order of arrival, it requires
``K_p >= 1 + ceil((b - 1)/v)``.
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
from formulations.arrays import IntArray, entries, integer
from formulations.batching import Agent, AgentNetwork
from formulations.errors import InputError, check_kind, use_one_of
from formulations.problem_data import Validated, member
from formulations.scalars import exact_number
from formulations.stability.verdict import rate_warnings

#: Maximum number of requests present at the start of a run.
_MAX_INITIAL = 10**7


class Balancer(StrEnum):
    """Rule by which requests choose an engine of an agent, section 4.1."""

    #: Uniformly random.
    RANDOM = "random"
    #: Fewest requests that have not departed; ties go to the lowest engine number.
    REQUESTS = "least-requests"
    #: Fewest unprocessed tokens.
    TOKENS = "least-tokens"
    #: Always the first engine: a balancer for which Proposition 1 is false.
    FIRST = "first"


@dataclass(frozen=True)
class Serving(Validated):
    """Policy and balancer of one agent.

    Parameters
    ----------
    policy : BatchPolicy
        A `TokenBudgetPolicy`, or a function of `BatchState`.
    name : str
        Name of the policy in results.
    balancer : Balancer
        Choice of the engine that a request joins, if there are several.
    priority : tuple of str
        Names of stages by decreasing priority; all other stages share the last class. Empty: all
        stages have the same priority.
    terms : TimeTerms
        Additional time of a batch beyond (2.3).
    """

    policy: BatchPolicy = field(default_factory=TokenBudgetPolicy)
    name: str = "sarathi"
    balancer: Balancer = Balancer.RANDOM
    priority: tuple[str, ...] = ()
    terms: TimeTerms = field(default_factory=TimeTerms)

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        balancer = member(Balancer, self.balancer, "balancer")
        self._set(balancer=balancer, priority=tuple(entries(self.priority, "priority")))


@dataclass(frozen=True)
class Scenario(Validated):
    """A network with all parameters of a simulation.

    Parameters
    ----------
    network : AgentNetwork
        Agents, stages and routes.
    serving : Serving
        Serving of the agents that are not in ``agents``.
    agents : mapping
        Serving of single agents, by name.
    sizes : LawName
        Law of the tokens of stages that are not in ``listed_sizes``; the network gives the means.
    listed_sizes : mapping
        Laws of the tokens of single stages, by name.
    arrivals : ArrivalName
        Law of outside arrivals of stages not in ``listed_arrivals``; the network gives the rates.
    listed_arrivals : mapping
        Laws of the arrivals of single stages, by name.
    delays : mapping
        Delay before a stage, by its name: a law [slots], for example of the call of a tool.
        Arrivals from outside are not delayed.
    initial : mapping
        Number of requests that arrive at a stage at the start of the run, by its name.

    Raises
    ------
    InputError
        If an agent or stage is unknown, or a law is given for a stage that cannot use it.
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
        """Check all fields; an invalid value raises InputError."""
        check_kind(self.network, AgentNetwork, "network", "AgentNetwork(...)")
        check_kind(self.serving, Serving, "serving", "Serving(...)")
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
            k = self.network.stage_index[name]
            if self.network.forks(k) and self.network.predecessors[k]:
                what = f"{name} has predecessors, and requests of a fork-join type enter without"
                raise InputError("arrivals", f"{what} any", "name a first stage of the type")
        for agent in self.network.agents:
            self._check_priority(agent)
        # Fixed sizes that are not whole are refused where the laws are made.
        assert len(self.size_laws) == len(self.arrival_laws)

    def _check_priority(self, agent: Agent) -> None:
        own = [self.network.stages[k].name for k in self.stages_at(agent)]
        priority = self.serving_of(agent.name).priority
        if agent.name in self.agents:
            for name in priority:
                if name not in own:
                    where = f"priority of {agent.name}"
                    raise InputError(
                        where, f"the agent has no stage {name!r}", use_one_of(name, own)
                    )
        if len(set(priority)) < len(priority):
            raise InputError("priority", "a stage is named twice", "name each once")

    def stages_at(self, agent: Agent) -> tuple[int, ...]:
        """Return the stages of an agent."""
        return self.network.stages_at(self.network.agent_index[agent.name])

    def serving_of(self, agent: str) -> Serving:
        """Return policy and balancer of an agent."""
        return self.agents.get(agent, self.serving)

    @cached_property
    def size_laws(self) -> tuple[SizeLaw, ...]:
        """Distribution of the tokens of each stage."""
        law = LawName(self.sizes)
        return tuple(
            self.listed_sizes.get(stage.name)
            or DrawnSizes(Law(law, stage.prefill), Law(law, stage.decode))
            for stage in self.network.stages
        )

    @cached_property
    def arrival_laws(self) -> tuple[ArrivalLaw, ...]:
        """Distribution of the outside arrivals at each stage."""
        law = ArrivalName(self.arrivals)
        return tuple(
            self.listed_arrivals.get(stage.name) or DrawnArrivals(law, stage.rate)
            for stage in self.network.stages
        )

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Priority of each stage on its agent; 0 is served first."""
        found = []
        for stage in self.network.stages:
            priority = self.serving_of(stage.agent).priority
            known = stage.name in priority
            found.append(priority.index(stage.name) if known else len(priority))
        # Numbered without gaps, which avoids passes over empty classes.
        used = sorted(set(found))
        return tuple(used.index(rank) for rank in found)


def _check_names(given: Mapping[str, object], known: Mapping[str, int], where: str) -> None:
    check_kind(given, Mapping, where, "a dict by name")
    for name in given:
        if name not in known:
            raise InputError(where, f"{name!r} does not exist", use_one_of(name, known))


def with_trace(
    scenario: Scenario, workload: Workload, *, rate_scale: Fraction | int = 1, drawn: bool = False
) -> Scenario:
    """Return a scenario of one stage that serves the requests of a trace.

    Parameters
    ----------
    scenario : Scenario
        Scenario with one stage. The trace replaces its means, and its rate unless ``drawn``.
    workload : Workload
        Prompts and outputs; a request without output decodes one token, as (2.1) requires.
    rate_scale : Fraction or int
        Factor on the arrival rate of the trace.
    drawn : bool
        Whether arrivals are drawn at the network's rate, and sizes from the trace with
        replacement.

    Raises
    ------
    InputError
        If the network has several stages or no length of a slot, or the trace has no times.
    """
    check_kind(scenario, Scenario, "scenario", "Scenario(...)")
    check_kind(workload, Workload, "workload", "with_trace(scenario, workload)")
    network = scenario.network
    if len(network.stages) > 1:
        what = f"{len(network.stages)} stages, but a trace needs exactly one"
        raise InputError("trace", what, "give a file with one stage")
    decode = np.maximum(workload.output_tokens, 1)
    sizes = ListedSizes(workload.prompt_tokens, decode, in_order=not drawn)
    (stage,), arrivals = network.stages, scenario.listed_arrivals
    rate = stage.rate
    if not drawn:
        scale = exact_number(rate_scale, "rate_scale", positive=True)
        slots = _arrival_slots(network, workload, scale)
        rate = Fraction(len(slots), int(slots[-1]) + 1)
        arrivals = {stage.name: ListedArrivals(slots)}
    return replace(
        scenario,
        network=_with_means(network, sizes, rate),
        listed_sizes={stage.name: sizes},
        listed_arrivals=arrivals,
    )


def _arrival_slots(network: AgentNetwork, workload: Workload, scale: Fraction) -> IntArray:
    """Return the slots in which requests arrive; they can be served from the next slot on."""
    if network.slot is None:
        raise InputError(
            "slot", "unknown, so times cannot be converted", "give the seconds of a time slot"
        )
    times = workload.exact_arrivals("give a rate")
    slots = np.maximum(times.rounded_up(1 / (network.slot * scale)) - 1, 0)
    if not len(slots) or int(slots[-1]) >= MAX_SLOT:
        raise InputError(
            "trace",
            f"the last of {len(slots)} requests arrives too late for the clock",
            "use another trace or rate scale",
        )
    return np.asarray(slots, dtype=np.int64)


def _with_means(network: AgentNetwork, sizes: ListedSizes, rate: Fraction) -> AgentNetwork:
    """Return a network of one stage with the means of a trace, for theoretical formulas."""
    num = len(sizes.prefill)
    prefill, decode = (Fraction(int(v.sum()), num) for v in (sizes.prefill, sizes.decode))
    stage = replace(network.stages[0], prefill=prefill, decode=decode, rate=rate)
    return replace(network, stages=(stage,))


def remarks(scenario: Scenario) -> list[str]:
    """Return a sentence for each reason why Theorem 1 does not apply to a scenario."""
    found = []
    for agent in scenario.network.agents:
        serving = scenario.serving_of(agent.name)
        stages = scenario.stages_at(agent)
        least = min((scenario.size_laws[k].least_prefill for k in stages), default=1)
        found += [f"{agent.name}: {why}" for why in reasons(serving.policy, agent, least)]
    return [*found, *rate_warnings(scenario.network)]


def reasons(policy: BatchPolicy, agent: Agent, least_prefill: int = 1) -> list[str]:
    """Return the reasons why a policy may not be work-conserving on an engine; empty if it is.

    Parameters
    ----------
    policy : BatchPolicy
        The policy; user policies always give a reason.
    agent : Agent
        Agent whose budget applies.
    least_prefill : int
        Minimum prefill tokens of a request.
    """
    if not isinstance(policy, TokenBudgetPolicy):
        return ["user policy: Theorem 1 applies only if it is work-conserving"]
    if policy.mixing is not Mixing.MIXED:
        return ["batches do not mix phases: not work-conserving, Theorem 1 does not apply"]
    budget, found = agent.budget, []
    if 0 < policy.kd < budget:
        found.append(f"K_d = {policy.kd} < b = {budget}: {_NOT_FULL.format('decode requests')}")
    if 0 < policy.limit < budget:
        found.append(f"M = {policy.limit} < b = {budget}: {_NOT_FULL.format('decode requests')}")
    # Chunks are loaded in order of arrival, so all prompts but the last are whole.
    in_order = policy.prefill_order is Order.ARRIVAL
    needed = 1 + -(-(budget - 1) // least_prefill) if in_order else budget
    if 0 < policy.kp < min(needed, budget):
        found.append(
            f"K_p = {policy.kp} < {min(needed, budget)}: {_NOT_FULL.format('short prompts')}"
        )
    if not agent.chunked:
        found.append("prompts are not cut: a batch may not be full, Theorem 1 does not apply")
    return found


_NOT_FULL = "with {} alone a batch is not full (2.6), Theorem 1 does not apply"
