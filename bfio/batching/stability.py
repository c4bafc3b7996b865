"""Test by simulation whether a scenario is stable, with confidence intervals.

``|X(n)|``, the unprocessed tokens, is simulated from an empty and from a large state, with several
seeds. For each run, the means of ``|X|`` over consecutive blocks of the second half are regressed
on time. The slopes over seeds give a Student-t interval.

- *unstable*: from empty, the whole interval exceeds `TOLERANCE` of the arriving tokens.
- *stable*: from empty, the whole interval is below that; and for every seed, at most half of the
  large state is left at the end.
- Otherwise the horizon is doubled. After the last doubling the verdict is *undecided*.

Near the boundary queues are long and slow, so the verdict needs a long horizon or stays open.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np

from bfio.batching.laws import ListedArrivals
from bfio.batching.run import BatchRun
from bfio.batching.scenario import Scenario
from bfio.batching.simulation import simulate
from bfio.common.kernel_groups import Engine
from bfio.common.statistics import batch_means, fit_line, student_t
from formulations.arrays import integer
from formulations.batching import AgentNetwork
from formulations.errors import InputError

#: Drifts below this share of the tokens arriving from outside count as zero.
TOLERANCE = 0.01
#: Number of blocks of the second half for the regression, and states kept in each.
_BLOCKS, _STATES = 20, 10
#: Share of the horizon in which the fluid model drains the large state.
_DRAIN = Fraction(1, 4)
#: Bounds on the number of requests in the large state.
_FEWEST, _MOST = 10, 10**6


class Stability(StrEnum):
    """Stability verdict of a simulation."""

    STABLE = "stable"
    UNSTABLE = "unstable"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class QueueDrift:
    """Growth rates of ``|X|`` in the second half of runs from one initial state.

    Parameters
    ----------
    slopes : tuple of float
        Slope for each seed [tokens/slot].
    initial, final : tuple of float
        Mean ``|X|`` of the first and of the last block of each seed's run [tokens].
    offered : float
        Tokens arriving from outside per slot.
    """

    slopes: tuple[float, ...]
    initial: tuple[float, ...]
    final: tuple[float, ...]
    offered: float

    @property
    def mean(self) -> float:
        """Mean slope [tokens/slot]."""
        return float(np.mean(self.slopes))

    @property
    def half_width(self) -> float:
        """Half-width of the 95 % interval of the mean slope over seeds."""
        spread = float(np.std(self.slopes, ddof=1)) / len(self.slopes) ** 0.5
        return float(student_t(len(self.slopes) - 1) * spread)

    def to_mapping(self) -> dict[str, Any]:
        """Return the slopes as a JSON object."""
        return {
            "slope": self.mean,
            "half_width": self.half_width,
            "initial_tokens": float(np.mean(self.initial)),
            "final_tokens": float(np.mean(self.final)),
            "offered": self.offered,
        }


@dataclass(frozen=True)
class SimulatedStability:
    """Stability verdict of a simulation, with its evidence.

    Parameters
    ----------
    verdict : Stability
        See the module docstring.
    horizon : int
        Duration of the last runs [slots].
    seeds : int
        Number of runs from each state.
    empty, large : QueueDrift
        Drift from an empty and from a large state.
    """

    verdict: Stability
    horizon: int
    seeds: int
    empty: QueueDrift
    large: QueueDrift

    def to_mapping(self) -> dict[str, Any]:
        """Return the verdict as a JSON object."""
        return {
            "verdict": self.verdict.value,
            "horizon_slots": self.horizon,
            "seeds": self.seeds,
            "from_empty": self.empty.to_mapping(),
            "from_large": self.large.to_mapping(),
        }


def judge(
    scenario: Scenario,
    *,
    horizon: int = 20_000,
    doublings: int = 4,
    seeds: int = 5,
    seed: int = 0,
    engine: Engine | str = Engine.AUTO,
) -> SimulatedStability:
    """Judge by simulation whether the queues of a scenario stay bounded.

    Parameters
    ----------
    scenario : Scenario
        Scenario to simulate; its own initial state is ignored.
    horizon : int
        Duration of the first runs [slots].
    doublings : int
        Maximum number of doublings of the horizon.
    seeds : int
        Number of runs from each state, >= 3.
    seed : int
        First of the consecutive seeds.
    engine : Engine
        See `simulate`.

    Raises
    ------
    InputError
        If the arrivals of a trace end too early. After its last arrival, every queue drains.
    """
    integer(horizon, "horizon", minimum=20 * _BLOCKS)
    seeds = integer(seeds, "seeds", minimum=3, maximum=1000)
    which = range(seed, seed + seeds)
    laws = [law for law in scenario.listed_arrivals.values() if isinstance(law, ListedArrivals)]
    ends = [int(law.slots[-1]) + 1 for law in laws if len(law.slots)]
    most = min([horizon << doublings, *ends])
    if most < 20 * _BLOCKS:
        what = f"its last arrival is in slot {most - 1:,}, too early to judge stability"
        raise InputError("trace", what, f"use one of at least {20 * _BLOCKS} slots")
    for doubling in range(doublings + 1):
        slots = min(horizon << doubling, most)
        empty = drift(replace(scenario, initial={}), slots, which, engine)
        large = drift(large_state(scenario, slots), slots, which, engine)
        verdict = _verdict(empty, large)
        if verdict is not Stability.UNDECIDED or slots == most:
            break
    return SimulatedStability(verdict, slots, seeds, empty, large)


def _verdict(empty: QueueDrift, large: QueueDrift) -> Stability:
    limit = TOLERANCE * empty.offered
    if empty.mean - empty.half_width > limit:
        return Stability.UNSTABLE
    drained = all(b <= a / 2 for a, b in zip(large.initial, large.final, strict=True))
    if empty.mean + empty.half_width < limit and drained:
        return Stability.STABLE
    return Stability.UNDECIDED


def drift(
    scenario: Scenario, horizon: int, seeds: Sequence[int], engine: Engine | str = Engine.AUTO
) -> QueueDrift:
    """Return the drift of a scenario from its initial state; arguments as in `judge`."""
    slot = scenario.network.slot or 1
    rows = []
    for seed in seeds:
        run = simulate(
            scenario,
            seed=seed,
            engine=engine,
            horizon=Fraction(horizon) * slot,
            blocks=2 * _BLOCKS * _STATES,
        )
        rows.append(_slope(run))
    slopes, initial, final = zip(*rows, strict=True)
    return QueueDrift(slopes, initial, final, _offered(scenario))


def _slope(run: BatchRun) -> tuple[float, float, float]:
    """Return the slope of ``|X|`` over the second half, and ``|X|`` at both ends of a run."""
    tokens = run.course.tokens.astype(np.float64)
    half = len(tokens) // 2
    times = batch_means(run.course.slot[half:].astype(np.float64), _BLOCKS)
    means = batch_means(tokens[half:], _BLOCKS)
    return fit_line(times, means).slope, float(tokens[0]), float(means[-1])


def _offered(scenario: Scenario) -> float:
    """Return the tokens that arrive from outside per slot.

    Tokens of later stages are excluded: |X| counts a request's tokens at its present stage only,
    and may grow far more slowly than the tokens of all visits.
    """
    laws = zip(scenario.arrival_laws, scenario.size_laws, strict=True)
    return sum(float(arrivals.rate) * sum(sizes.means) for arrivals, sizes in laws)


def large_state(scenario: Scenario, horizon: int) -> Scenario:
    """Return the scenario with a large initial queue, which the fluid model drains in time.

    The requests start at the stages with arrivals, in proportion to the rates.
    """
    network = scenario.network
    rates = [law.rate for law in scenario.arrival_laws]
    per_slot = slack_in_requests(network)
    count = min(max(int(_DRAIN * horizon * per_slot), _FEWEST), _MOST)
    shares = [rate / sum(rates) for rate in rates] if sum(rates) else rates
    initial = {
        stage.name: -int(-count * share // 1)
        for stage, share in zip(network.stages, shares, strict=True)
        if share > 0
    }
    return replace(scenario, initial=initial)


def slack_in_requests(network: AgentNetwork) -> Fraction:
    """Return the spare capacity of the network in requests per slot, at proportional rates.

    Beyond capacity it returns the arrival rate, so that the large state stays large.
    """
    from formulations.stability import capacity

    total = sum((stage.rate for stage in network.stages), Fraction(0))
    if not total:
        return Fraction(1)
    factor = capacity(network).factor
    return total * (factor - 1) if factor > 1 else total
