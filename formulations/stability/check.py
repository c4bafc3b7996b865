"""The checker of the capacity program: feasibility of flows and of dual prices.

All amounts are exact; an empty mapping means no violation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from formulations.batching import AgentNetwork
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
        Price of each virtual station.
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
    """Return each constraint that flows violate at ``factor`` times the external rates.

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
    """Return the violations of dual feasibility by prices, and the amounts.

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


def _costs(
    network: AgentNetwork, virtual: Sequence[VirtualStation], prices: Prices
) -> list[Fraction]:
    """Return the cost of one task of each stage at the given prices, length n."""
    costs = [
        stage.tokens * prices.work.get(network.agent_of[k], _ZERO)
        for k, stage in enumerate(network.stages)
    ]
    for station, price in zip(virtual, prices.virtual, strict=True):
        for k in station.stages:
            costs[k] += share_of(network, k) * price
    return costs
