"""The checkers of capacity and budgets, which read the data of a network and solve nothing.

All amounts are exact; an empty mapping means no violation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from formulations.batching import AgentNetwork, BatchTime
from formulations.stability.traffic import VirtualStation, direct_rates, feeds, share_of

_ZERO = Fraction(0)


@dataclass(frozen=True)
class Prices:
    """Dual prices of the capacity program, which prove that no larger factor exists.

    Parameters
    ----------
    traffic : tuple of Fraction
        Length n: dual value of a task of each stage [slots].
    work : mapping of int to Fraction
        Price of a token per slot, by index of the agent; 0 if missing.
    virtual : tuple of Fraction
        One for each virtual station.
    """

    traffic: tuple[Fraction, ...]
    work: Mapping[int, Fraction]
    virtual: tuple[Fraction, ...] = ()


def capacity_violations(
    network: AgentNetwork,
    virtual: Sequence[VirtualStation],
    flows: Sequence[Fraction],
    factor: Fraction,
) -> dict[str, Fraction]:
    """Return the violations of flows that should carry ``factor`` times the external rates.

    Parameters
    ----------
    network : AgentNetwork
        Data.
    virtual : sequence of VirtualStation
        Pairs of stages that are never served at the same time.
    flows : sequence of Fraction
        Length n [tasks/slot].
    factor : Fraction
        ``θ``.
    """
    violated = {f"rate[{k}]": -flow for k, flow in enumerate(flows) if flow < 0}
    direct, fed = direct_rates(network), feeds(network)
    for k, flow in enumerate(flows):
        needed = factor * direct[k] + sum((share * flows[i] for i, share in fed[k]), _ZERO)
        if flow < needed:
            violated[f"traffic[{k}]"] = needed - flow
    for j, agent in enumerate(network.agents):
        tokens = [network.stages[k].tokens * flows[k] for k in network.stages_at(j)]
        if (excess := sum(tokens, _ZERO) - agent.rate) > 0:
            violated[f"work[{j}]"] = excess
    for v, station in enumerate(virtual):
        shares = [share_of(network, k) * flows[k] for k in station.stages]
        if (excess := sum(shares, _ZERO) - 1) > 0:
            violated[f"virtual[{v}]"] = excess
    return violated


def price_violations(
    network: AgentNetwork, virtual: Sequence[VirtualStation], prices: Prices
) -> dict[str, Fraction]:
    """Return the violations of dual feasibility.

    Prices must be nonnegative. The value of a task of stage k is at most the price of its tokens
    plus the value of its successors, ``u_k <= w_k y_j(k) + (w_k/C_j(k)) z_v + Σ_m p_km u_m``. The
    arrivals per unit of the factor have a value of at least 1, ``Σ_k e_k u_k >= 1``.
    """
    named = {f"traffic[{k}]": u for k, u in enumerate(prices.traffic)}
    named |= {f"work[{j}]": y for j, y in prices.work.items()}
    named |= {f"virtual[{v}]": z for v, z in enumerate(prices.virtual)}
    violated = {name: -price for name, price in named.items() if price < 0}
    worth = _costs(network, virtual, prices)
    for k, pairs in enumerate(feeds(network)):
        for i, share in pairs:
            worth[i] += share * prices.traffic[k]
    for k, most in enumerate(worth):
        if prices.traffic[k] > most:
            violated[f"rate[{k}]"] = prices.traffic[k] - most
    pairs_of = zip(direct_rates(network), prices.traffic, strict=True)
    if (earned := sum((e * u for e, u in pairs_of), _ZERO)) < 1:
        violated["factor"] = 1 - earned
    return violated


def capacity_bound(network: AgentNetwork, prices: Prices) -> Fraction:
    """Return ``Σ_j C_j y_j + Σ_v z_v``, an upper bound on the factor for feasible prices."""
    paid = (network.agents[j].rate * y for j, y in prices.work.items())
    return sum(paid, _ZERO) + sum(prices.virtual, _ZERO)


def budget_violations(
    batch_time: BatchTime,
    candidates: Iterable[int],
    chosen: int | None,
    *,
    work: Fraction | None = None,
    limit: int | None = None,
) -> dict[str, Fraction]:
    """Compare a token budget with every candidate; return the reasons why it is not optimal.

    Parameters
    ----------
    batch_time : BatchTime
        Slots of a batch.
    candidates : iterable of int
        Budgets to choose from [tokens].
    chosen : int or None
        The chosen budget; None claims that no candidate is allowed.
    work : Fraction, optional
        Arriving tokens per slot; if given, the load condition is a constraint.
    limit : int, optional
        Longest allowed batch [slots]. If given, the highest rate is best, then the shortest batch;
        otherwise the shortest batch is best, then the highest rate. Further ties go to the
        smallest b.
    """
    allowed = {
        b: (batch_time.rate(b), batch_time.slots(b))
        for b in candidates
        if (work is None or work < batch_time.rate(b))
        and (limit is None or batch_time.slots(b) <= limit)
    }
    if chosen is None:
        return {f"candidate[{b}]": Fraction(1) for b in allowed}
    if chosen not in allowed:
        return {"allowed": Fraction(1)}
    rate, slots = allowed[chosen]
    violated = {}
    for b, (other_rate, other_slots) in allowed.items():
        gains = (other_rate - rate, Fraction(slots - other_slots))
        first, second = gains if limit is not None else gains[::-1]
        if first > 0 or (first == 0 and (second > 0 or (second == 0 and b < chosen))):
            violated[f"better[{b}]"] = first or second or Fraction(chosen - b)
    return violated


def _costs(
    network: AgentNetwork, virtual: Sequence[VirtualStation], prices: Prices
) -> list[Fraction]:
    """Return the cost of a task of each stage at the given prices."""
    costs = [
        stage.tokens * prices.work.get(network.agent_of[k], _ZERO)
        for k, stage in enumerate(network.stages)
    ]
    for station, price in zip(virtual, prices.virtual, strict=True):
        for k in station.stages:
            costs[k] += share_of(network, k) * price
    return costs
