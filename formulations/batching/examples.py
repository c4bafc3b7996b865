"""The example networks of the throughput-optimal paper."""

from collections.abc import Sequence
from fractions import Fraction

from formulations.arrays import integer
from formulations.batching.batch_time import BatchTime
from formulations.batching.network import Agent, AgentNetwork, Route, Stage
from formulations.errors import InputError

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
    """Return a network of types ``(λ, m_p, m_d)``, named 1, 2, ..., on one agent (section 4.2)."""
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
        raise InputError("means", f"{len(means)} of them", "give (m_p, m_d) of four agents")
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
    """Return the network of (4.4) and (4.5): each type ends with a long prompt at the other agent.

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
