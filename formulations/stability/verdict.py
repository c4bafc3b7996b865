"""Verdicts on the stability of a network of agents: theorems, hypotheses and warnings."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from formulations.batching import AgentNetwork
from formulations.batching.batch_time import BudgetChoice, fastest_budget, shortest_batch
from formulations.scalars import plain_number
from formulations.stability.solver import CapacityResult
from formulations.stability.traffic import direct_rates, traffic, work_rates

#: Hypotheses of all theorems that cannot be checked from mean token counts.
HYPOTHESES = (
    "arrivals and token counts are independent and identically distributed, decode lengths with a "
    "finite second moment",
    "every batch is as full as it can be: min(budget, eligible tokens)",
)
_BALANCING = "requests go to engines at random, or to the one with the fewest requests or tokens"


class Verdict(StrEnum):
    """Verdicts on the stability of the queues."""

    #: A theorem proves that the queues stay bounded under every work-conserving policy.
    STABLE = "stable"
    #: No policy can keep the queues bounded.
    UNSTABLE = "unstable"
    #: Some load is exactly 1, which no theorem covers.
    CRITICAL = "critical"
    #: The load condition holds, but no theorem proves stability, which depends on the policy.
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
    """Return the verdict on a network with known capacity, and the theorem that gives it."""
    network = capacity.network
    warnings = tuple(_warnings(capacity))
    verdict, source = _judge(capacity)
    several = any(agent.engines > 1 for agent in network.agents)
    hypotheses = (*HYPOTHESES, *((_BALANCING,) if several else ()))
    return Theory(verdict, source, hypotheses if verdict is Verdict.STABLE else (), warnings)


def most_rates(network: AgentNetwork) -> tuple[Fraction, ...]:
    """Return the largest token rate of each agent under any policy, length J [tokens/slot]."""
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


def rate_warnings(network: AgentNetwork) -> Iterator[str]:
    """Yield a warning for each agent whose smaller batches may serve more than full ones can.

    None is given where the load is beyond what batches of any size serve.
    """
    work = work_rates(network, traffic(network))
    for agent, most, load in zip(network.agents, most_rates(network), work, strict=True):
        text = agent.batch_time.rate_check(agent.budget).warning()
        if text is not None and load <= most:
            yield f"{agent.name}: {text}"


def _warnings(capacity: CapacityResult) -> Iterator[str]:
    """Yield a warning for each theorem whose hypotheses the network violates."""
    network = capacity.network
    yield from rate_warnings(network)
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


#: Largest token budget that is compared, unless an agent has a larger one.
_LARGEST_BUDGET = 4096


def capacity_answer(result: CapacityResult, *, limit: int | None = None) -> dict[str, Any]:
    """Return verdict, loads, capacity, bottlenecks and budgets of a network as a JSON document.

    Parameters
    ----------
    result : CapacityResult
        Capacity of the network.
    limit : int, optional
        Longest time between two tokens [slots]; if given, report the best budget within it.

    Returns
    -------
    dict
        See docs/capacity.md. Rates are per slot and, if ``slot`` is known, also per second.
    """
    network, known = result.network, theory(result)
    exact = {"load": max(result.loads.values()), "factor": result.factor}
    return {
        "verdict": known.verdict.value,
        "source": known.source,
        "hypotheses": list(known.hypotheses),
        "warnings": list(known.warnings),
        **{name: plain_number(value) for name, value in exact.items()},
        "bottlenecks": list(result.bottlenecks),
        "types": _types(network, result.factor),
        "agents": _agents(result, limit),
        "stages": _stages(network),
        "virtual_stations": [
            {"stages": name, "load": plain_number(result.loads[name])}
            for name in (station.name(network) for station in result.virtual)
        ],
        "exact": {name: str(value) for name, value in exact.items()},
        "method": result.method,
        "termination": result.termination.value,
        "solver": dict(result.solver),
        "proof": result.proof,
        "violations": {name: str(amount) for name, amount in result.violations.items()},
    }


def _types(network: AgentNetwork, factor: Fraction) -> list[dict[str, Any]]:
    """Return the arrival rate of each type, and its largest rate if all rates scale equally."""
    direct, rows = direct_rates(network), []
    for kind in network.types:
        own = [k for k, stage in enumerate(network.stages) if stage.request_type == kind]
        # A fork–join request arrives once and enters all of its first stages.
        forks = kind in network.fork_join
        rate = direct[own[0]] if forks else sum((direct[k] for k in own), Fraction(0))
        figures = {"rate": rate, "most": rate * factor}
        rows.append({"name": kind, **_rates(network, figures)})
    return rows


def _agents(result: CapacityResult, limit: int | None) -> list[dict[str, Any]]:
    network, rows = result.network, []
    work = work_rates(network, traffic(network))
    for j, agent in enumerate(network.agents):
        figures = {"tokens": work[j], "most_tokens": agent.rate}
        row: dict[str, Any] = {"name": agent.name, "engines": agent.engines}
        row |= {"budget": agent.budget, "batch_slots": agent.batch_time.slots(agent.budget)}
        row |= _rates(network, figures)
        row["load"] = plain_number(result.loads[agent.name])
        row["price"] = plain_number(result.agent_prices[j])
        each = work[j] / agent.engines
        row["largest_budget"] = max(_LARGEST_BUDGET, agent.budget)
        budgets = range(1, row["largest_budget"] + 1)
        row["shortest_batch"] = _choice(shortest_batch(agent.batch_time, budgets, each))
        if limit is not None:
            within = fastest_budget(agent.batch_time, budgets, limit, each)
            row["fastest_budget"] = _choice(within)
        rows.append(row)
    return rows


def _stages(network: AgentNetwork) -> list[dict[str, Any]]:
    return [
        {"name": stage.name, "type": stage.request_type, "agent": stage.agent}
        | _rates(network, {"tasks": flow})
        for stage, flow in zip(network.stages, traffic(network), strict=True)
    ]


def _rates(network: AgentNetwork, figures: Mapping[str, Fraction]) -> dict[str, Any]:
    """Return figures per slot and, if the length of a slot is known, per second."""
    told: dict[str, Any] = {}
    for name, value in figures.items():
        told[f"{name}_per_slot"] = plain_number(value)
        if network.slot is not None:
            told[f"{name}_per_second"] = plain_number(value / network.slot)
    return told


def _choice(choice: BudgetChoice | None) -> dict[str, Any] | None:
    return None if choice is None else asdict(choice) | {"rate": plain_number(choice.rate)}
