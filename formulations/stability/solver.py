"""Capacity of a network of agents, by a linear program or in closed form, proven in rationals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from formulations.batching import AgentNetwork
from formulations.deadline import TimeLimit
from formulations.errors import InputError, check_kind
from formulations.fluid.solver import FluidResult, proven_result
from formulations.linear_program import LinearProgram, LinearSolve
from formulations.problem_data import shown
from formulations.results import own_solver
from formulations.stability.check import (
    Prices,
    capacity_bound,
    capacity_violations,
    price_violations,
)
from formulations.stability.traffic import (
    VirtualStation,
    direct_rates,
    least_solution,
    loads,
    share_of,
    traffic,
)
from formulations.words import Words


@dataclass(frozen=True, kw_only=True)
class CapacityResult(FluidResult):
    """The capacity of a network: the largest factor ``θ`` on all external arrival rates.

    Parameters
    ----------
    network : AgentNetwork
        Data.
    flows : tuple of Fraction
        Length n: tasks of each stage per slot at the capacity.
    prices : Prices
        Dual prices that prove that no larger factor exists.
    virtual : tuple of VirtualStation
        Pairs of stages that a priority never serves at the same time.
    loads : mapping of str to Fraction
        Load by agent and by virtual station, at the given rates (factor 1).
    """

    solution_fields = ("flows",)

    network: AgentNetwork
    flows: tuple[Fraction, ...]
    prices: Prices
    virtual: tuple[VirtualStation, ...] = ()
    loads: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def factor(self) -> Fraction:
        """``θ``, the largest factor on all rates (the value of the result).

        Raises
        ------
        ValueError
            If the solve found no factor.
        """
        if self.value is None:
            raise ValueError(f"the solve found no factor: {self.termination}")
        return self.value

    @property
    def load_condition(self) -> bool:
        """Whether every agent, and every virtual station, has a load below 1."""
        return self.factor > 1

    @property
    def bottlenecks(self) -> tuple[str, ...]:
        """Agents and virtual stations with the highest load, which are full at the capacity."""
        highest = max(self.loads.values())
        return tuple(name for name, load in self.loads.items() if load == highest)

    @property
    def agent_prices(self) -> tuple[Fraction, ...]:
        """Increase of the factor per additional token per slot at each agent, (J,) [slots/token].

        With several bottlenecks the prices are not unique: more capacity at only one bottleneck
        adds nothing, and less capacity reduces the factor.
        """
        agents = range(len(self.network.agents))
        return tuple(self.prices.work.get(j, Fraction(0)) for j in agents)


_ZERO = Fraction(0)
CAPACITY = Words(
    title="the largest load that a network of agents can carry",
    source="throughput-optimal paper, (2.7) and (4.1) to (4.3); it states no program",
    objective="the negative of the common factor on all rates from outside",
    variables={
        "rate": "rate(k) = tasks of stage k per slot",
        "factor": "factor = the common factor on all rates",
    },
    broken={
        "traffic": "stage {0} serves {by} tasks per slot fewer than arrive",
        "work": "agent {0} gets {by} tokens per slot more than full batches process",
        "virtual": "stages never served at the same time (pair {0}): joint load {by} above 1",
    },
)

#: Meaning of the dual prices of each family of rows.
PRICES = {
    "traffic": "traffic(k): factor that one more task per slot of stage k costs, negative",
    "work": "work(j): factor that one more token per slot of agent j adds",
    "virtual": "virtual(v): factor that one more unit of the common time of pair v adds",
}


class CapacityProgram(LinearProgram[AgentNetwork, CapacityResult]):
    """The capacity program of a network.

    Parameters
    ----------
    problem : AgentNetwork
        Data.
    virtual : sequence of VirtualStation
        Pairs of stages that a priority never serves at the same time; see `virtual_stations`.

    Raises
    ------
    InputError
        If all arrival rates are 0.
    """

    words, prices = CAPACITY, PRICES

    def __init__(self, problem: AgentNetwork, virtual: Sequence[VirtualStation] = ()) -> None:
        super().__init__(problem)
        self.virtual = virtual
        _check_arrivals(problem, virtual)

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.stability.capacity_program import build

        return build(self.problem, self.virtual)

    def violations(
        self, solution: Sequence[Fraction], value: Fraction | None = None
    ) -> dict[str, Fraction]:
        """Return each constraint that flows violate at a factor (default 0)."""
        return capacity_violations(self.problem, self.virtual, solution, value or _ZERO)

    def closed_form(self) -> CapacityResult:
        """Return the capacity in closed form, `capacity`."""
        return capacity(self.problem, self.virtual)

    def concluded(self, solve: LinearSolve) -> CapacityResult:
        """Return the checked result for the exact optimum."""
        network, values, prices = self.problem, solve.values, solve.prices
        stages = range(len(network.stages))
        return _result(
            network,
            self.virtual,
            tuple(values[f"rate[{k}]"] for k in stages),
            values["factor"],
            Prices(
                tuple(prices[f"traffic[{k}]"] for k in stages),
                {j: prices[f"work[{j}]"] for j in sorted(set(network.agent_of))},
                tuple(prices[f"virtual[{v}]"] for v in range(len(self.virtual))),
            ),
            claimed=solve.claimed(-1),
            **solve.report(),
        )


def solve_capacity(
    network: AgentNetwork,
    virtual: Sequence[VirtualStation] = (),
    *,
    backend: str = "highs",
    time_limit: TimeLimit = None,
    seed: int = 0,
) -> CapacityResult:
    """Solve the capacity program with a backend.

    Parameters
    ----------
    network, virtual
        See `CapacityProgram`.
    backend : str
        ``highs``, ``pyomo``, ``pyomo:SOLVER``, or ``exact``, the closed form.
    time_limit : float or Deadline, optional
        Seconds for the backend.
    seed : int
        Random seed of the backend.

    Raises
    ------
    InputError
        If all arrival rates are 0, or the backend is unknown.
    CapabilityError
        If the program is too large for exact arithmetic; `capacity` has no such limit.
    """
    return CapacityProgram(network, virtual).solved(backend, time_limit, seed)


def capacity(network: AgentNetwork, virtual: Sequence[VirtualStation] = ()) -> CapacityResult:
    """Return the capacity in closed form, ``θ = 1 / max load``, with the prices that prove it.

    Parameters
    ----------
    network : AgentNetwork
        Data.
    virtual : sequence of VirtualStation
        See `solve_capacity`.

    Raises
    ------
    InputError
        If all arrival rates are 0.
    """
    _check_arrivals(network, virtual)
    named = loads_of(network, virtual)
    highest = max(named.values())
    full = list(named.values()).index(highest)
    prices = _prices(network, virtual, full, highest)
    flows = tuple(flow / highest for flow in traffic(network))
    report = {"method": "closed-form", "solver": own_solver()}
    return _result(network, virtual, flows, 1 / highest, prices, **report)


def loads_of(network: AgentNetwork, virtual: Sequence[VirtualStation] = ()) -> dict[str, Fraction]:
    """Return the load of each agent and each virtual station by name, at the given rates."""
    names = [agent.name for agent in network.agents]
    named = dict(zip(names, loads(network), strict=True))
    flows = traffic(network) if virtual else ()
    for station in virtual:
        shares = (share_of(network, k) * flows[k] for k in station.stages)
        named[station.name(network)] = sum(shares, _ZERO)
    return named


def _prices(
    network: AgentNetwork, virtual: Sequence[VirtualStation], full: int, highest: Fraction
) -> Prices:
    """Return dual prices that are positive only at the bottleneck, which has the index ``full``.

    The dual value of a task is then the share of the bottleneck that the task and its successors
    use.
    """
    num_agents = len(network.agents)
    is_agent = full < num_agents
    inside = network.stages_at(full) if is_agent else virtual[full - num_agents].stages
    costs = [_ZERO] * len(network.stages)
    for k in inside:
        costs[k] = share_of(network, k) / highest
    after = [
        [(k, share) for k, share in pairs if not network.forks(k)] for pairs in network.successors
    ]
    load = {j: _ZERO for j in sorted(set(network.agent_of))}
    if is_agent:
        load[full] = 1 / (highest * network.agents[full].rate)
    chosen = (full - num_agents == v for v in range(len(virtual)))
    return Prices(
        least_solution(costs, after), load, tuple(1 / highest if c else _ZERO for c in chosen)
    )


def _result(
    network: AgentNetwork,
    virtual: Sequence[VirtualStation],
    flows: tuple[Fraction, ...],
    factor: Fraction,
    prices: Prices,
    **report: Any,
) -> CapacityResult:
    """Return the result, optimal if there is no violation and the factor equals the bound."""
    violated = capacity_violations(network, virtual, flows, factor)
    violated |= price_violations(network, virtual, prices)
    bound = capacity_bound(network, prices)
    return proven_result(
        CapacityResult,
        factor,
        bound,
        violated,
        network=network,
        flows=flows,
        prices=prices,
        virtual=tuple(virtual),
        loads=loads_of(network, virtual),
        **report,
    )


def _check_arrivals(network: AgentNetwork, virtual: Sequence[VirtualStation] = ()) -> None:
    """Raise if no requests arrive at a network, or ``virtual`` is not a list of stations."""
    if isinstance(virtual, str) or not isinstance(virtual, Sequence):
        raise InputError("virtual", f"{shown(virtual)} is not a list", "use virtual_stations(...)")
    for v, station in enumerate(virtual):
        check_kind(station, VirtualStation, f"virtual[{v}]", "virtual_stations(...)")
    if not any(direct_rates(network)):
        remedy = "give a stage a rate > 0"
        raise InputError("stages", "no request arrives: all rates are 0", remedy)
