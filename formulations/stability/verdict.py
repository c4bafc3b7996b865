"""Apply the theorems of the throughput-optimal paper to a network, and check their hypotheses."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from formulations.batching import AgentNetwork
from formulations.stability.solver import CapacityResult
from formulations.stability.traffic import traffic, work_rates

#: Hypotheses of all theorems that cannot be checked from mean token counts.
HYPOTHESES = (
    "arrivals and token counts are independent and identically distributed, decode lengths with a "
    "finite second moment",
    "every batch is as full as it can be: min(budget, eligible tokens)",
)
_BALANCING = "requests go to engines at random, or to the one with the fewest requests or tokens"


class Verdict(StrEnum):
    """What is known about the stability of the queues."""

    #: A theorem proves that they stay bounded under every work-conserving policy.
    STABLE = "stable"
    #: No policy can keep them bounded.
    UNSTABLE = "unstable"
    #: Some load is exactly 1, which no theorem covers.
    CRITICAL = "critical"
    #: The load condition holds, but no theorem proves stability: it depends on the policy.
    OPEN = "open"
    #: Full batches cannot carry the load; smaller batches, which have a higher rate, might.
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Theory:
    """A verdict with its theorem, unchecked hypotheses and warnings.

    Parameters
    ----------
    verdict : Verdict
        What is known about stability.
    source : str
        The theorem, in words; for an open verdict, the missing condition.
    hypotheses : tuple of str
        Further hypotheses of a stable verdict, which are not checked.
    warnings : tuple of str
        Theorems whose hypotheses the network violates, and how.
    """

    verdict: Verdict
    source: str
    hypotheses: tuple[str, ...]
    warnings: tuple[str, ...]


def theory(capacity: CapacityResult) -> Theory:
    """Apply the theorems to a network whose capacity is known."""
    network = capacity.network
    warnings = tuple(_warnings(capacity))
    verdict, source = _judge(capacity)
    several = any(agent.engines > 1 for agent in network.agents)
    hypotheses = (*HYPOTHESES, *((_BALANCING,) if several else ()))
    return Theory(verdict, source, hypotheses if verdict is Verdict.STABLE else (), warnings)


def most_rates(network: AgentNetwork) -> tuple[Fraction, ...]:
    """Return the largest rate of any policy at each agent, length J [tokens/slot]."""
    checks = (agent.batch_time.rate_check(agent.budget) for agent in network.agents)
    return tuple(
        agent.engines * check.best_rate
        for agent, check in zip(network.agents, checks, strict=True)
    )


def _judge(capacity: CapacityResult) -> tuple[Verdict, str]:
    network = capacity.network
    work = work_rates(network, traffic(network))
    pairs = list(zip(work, most_rates(network), strict=True))
    if any(w > most for w, most in pairs):
        return Verdict.UNSTABLE, "Theorem 1 (b): more tokens arrive than any batches process"
    agent_loads = [capacity.loads[agent.name] for agent in network.agents]
    if max(agent_loads) > 1:
        return Verdict.UNDECIDED, "Theorem 1 (b) does not apply: smaller batches are faster"
    if max(agent_loads) == 1:
        return Verdict.CRITICAL, "no theorem covers a load of exactly 1"
    if not capacity.load_condition:
        return Verdict.OPEN, "a virtual station of the priority is overloaded (section 4.3)"
    return _when_the_condition_holds(network)


def _when_the_condition_holds(network: AgentNetwork) -> tuple[Verdict, str]:
    if not all(agent.chunked for agent in network.agents):
        return Verdict.OPEN, "Theorem 1 (a) does not apply: without chunks batches are not full"
    if network.routes:
        if set(network.types) <= set(network.fork_join):
            return Verdict.OPEN, "Conjecture 1 says stable for forks and joins; it is not proven"
        return Verdict.OPEN, "in a network the load condition is not enough for every policy (4.3)"
    # Agents are independent of each other: cite the most general theorem that is needed.
    if any(agent.engines > 1 for agent in network.agents):
        return Verdict.STABLE, "Proposition 1: engines in parallel (4.1)"
    shared = any(len(network.stages_at(j)) > 1 for j in range(len(network.agents)))
    theorem = "section 4.2: several types on one engine (4.2)" if shared else "Theorem 1 (a)"
    return Verdict.STABLE, theorem


def _warnings(capacity: CapacityResult) -> Iterator[str]:
    """Yield the theorems whose hypotheses the network violates, and how."""
    network = capacity.network
    for agent in network.agents:
        if text := agent.batch_time.rate_check(agent.budget).warning():
            yield f"{agent.name}: {text}"
    for agent in network.agents:
        if not agent.chunked:
            yield (
                f"{agent.name}: prompts are not cut, so batches are not always full: Theorem 1 "
                "(a) does not apply, the load condition is necessary only"
            )
    for name in (station.name(network) for station in capacity.virtual):
        if (load := capacity.loads[name]) > 1:
            yield (
                f"{name}: never served together under this priority, load {load} > 1: queues grow "
                "although no agent is overloaded (section 4.3)"
            )
