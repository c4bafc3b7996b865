"""The answer of the capacity program, in rationals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from formulations.batching import AgentNetwork
from formulations.fluid.result import FluidResult
from formulations.stability.check import Prices
from formulations.stability.virtual_stations import VirtualStation


@dataclass(frozen=True, kw_only=True)
class CapacityResult(FluidResult):
    """How far all rates can be scaled up; the value is the factor ``θ``.

    Parameters
    ----------
    network : AgentNetwork
        Data.
    flows : tuple of Fraction
        Length n: tasks of each stage per slot at the capacity.
    prices : Prices
        Dual prices that prove that no larger factor exists.
    virtual : tuple of VirtualStation
        Pairs of stages that a priority keeps apart.
    loads : mapping of str to Fraction
        Load by agent and by virtual station, at the rates themselves (factor 1).
    """

    network: AgentNetwork
    flows: tuple[Fraction, ...]
    prices: Prices
    virtual: tuple[VirtualStation, ...] = ()
    loads: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def factor(self) -> Fraction:
        """``θ``, the value.

        Raises
        ------
        ValueError
            If the solve left none.
        """
        if self.value is None:
            raise ValueError(f"no factor: {self.termination}")
        return self.value

    @property
    def load_condition(self) -> bool:
        """Whether every agent, and every virtual station, has a load below 1."""
        return self.factor > 1

    @property
    def bottlenecks(self) -> tuple[str, ...]:
        """Agents and virtual stations that are full at the capacity: all with the highest load."""
        highest = max(self.loads.values())
        return tuple(name for name, load in self.loads.items() if load == highest)

    @property
    def agent_prices(self) -> tuple[Fraction, ...]:
        """What one more token per slot at each agent adds to the factor, length J [slots/token].

        Where several bottlenecks are full at once the prices are one of many: more at one of them
        alone adds nothing, less takes away.
        """
        agents = range(len(self.network.agents))
        return tuple(self.prices.work.get(j, Fraction(0)) for j in agents)
