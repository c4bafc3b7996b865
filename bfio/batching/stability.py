"""Is a scenario stable? A verdict by simulation, with confidence, to stand beside the theory.

``|X(n)|``, the unprocessed tokens, is simulated from an empty and from a large state, with several
seeds. For each run the means of ``|X|`` over consecutive blocks of its second half are regressed
on time; the slopes of the seeds have a Student-t interval.

- *unstable*: from empty, the whole interval lies above `TOLERANCE` of the tokens that arrive.
- *stable*: from empty, the whole interval lies below that, and from the large state at most half
  of it is left at the end, for every seed.
- Otherwise nothing is said yet: the horizon is doubled, and at last the verdict is *undecided*.

Near the boundary queues are long and slow, and the verdict takes a long horizon or stays open.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np

from bfio.batching.run import BatchRun
from bfio.batching.scenario import Scenario
from bfio.batching.simulation import simulate
from bfio.common.engine_choice import Engine
from bfio.common.statistics import batch_means, fit_line, student_t
from formulations.arrays import integer
from formulations.batching import AgentNetwork

#: Drifts below this share of the tokens that arrive from outside are taken for none.
TOLERANCE = 0.01
#: Blocks of the second half that are regressed on time, and states kept in each.
_BLOCKS, _STATES = 20, 10
#: Share of the horizon in which fluid would drain the large state.
_DRAIN = Fraction(1, 4)
#: Requests of the large state, at least and at most.
_FEWEST, _MOST = 10, 10**6


class Stability(StrEnum):
    """What simulation says."""

    STABLE = "stable"
    UNSTABLE = "unstable"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class QueueDrift:
    """Slopes of ``|X|`` from one state, over the second half of runs.

    Parameters
    ----------
    slopes : tuple of float
        One per seed [tokens/slot].
    initial, final : tuple of float
        Mean ``|X|`` of the first and of the last block of the runs, one per seed [tokens].
    offered : float
        Tokens that arrive from outside per slot.
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
        """Half the width of its 95 % interval over seeds."""
        spread = float(np.std(self.slopes, ddof=1)) / len(self.slopes) ** 0.5
        return float(student_t(len(self.slopes) - 1) * spread)

    def to_mapping(self) -> dict[str, Any]:
        """Return it as documents have it."""
        return {
            "slope": self.mean,
            "half_width": self.half_width,
            "initial_tokens": float(np.mean(self.initial)),
            "final_tokens": float(np.mean(self.final)),
            "offered": self.offered,
        }


@dataclass(frozen=True)
class SimulatedStability:
    """The verdict and what it rests on.

    Parameters
    ----------
    verdict : Stability
        See the module.
    horizon : int
        Slots of the last runs.
    seeds : int
        Runs from each state.
    empty, large : QueueDrift
        From an empty and from a large state.
    """

    verdict: Stability
    horizon: int
    seeds: int
    empty: QueueDrift
    large: QueueDrift

    def to_mapping(self) -> dict[str, Any]:
        """Return it as documents have it."""
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
    """Return a verdict by simulation.

    Parameters
    ----------
    scenario : Scenario
        What to simulate; its own initial state is left out.
    horizon : int
        Slots of the first runs.
    doublings : int
        How often the horizon may be doubled.
    seeds : int
        Runs from each state, >= 3.
    seed : int
        The first of them.
    engine : Engine
        See `simulate`.
    """
    integer(horizon, "horizon", minimum=20 * _BLOCKS)
    integer(seeds, "seeds", minimum=3, maximum=1000)
    which = range(seed, seed + seeds)
    for doubling in range(doublings + 1):
        slots = horizon << doubling
        empty = drift(replace(scenario, initial={}), slots, which, engine)
        large = drift(large_state(scenario, slots), slots, which, engine)
        verdict = _verdict(empty, large)
        if verdict is not Stability.UNDECIDED:
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
    """Return the drift of a scenario from its initial state; arguments as of `judge`."""
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
    """Return slope over the second half, and ``|X|`` at the beginning and at the end."""
    tokens = run.course.tokens.astype(np.float64)
    half = len(tokens) // 2
    times = batch_means(run.course.slot[half:].astype(np.float64), _BLOCKS)
    means = batch_means(tokens[half:], _BLOCKS)
    return fit_line(times, means).slope, float(tokens[0]), float(means[-1])


def _offered(scenario: Scenario) -> float:
    """Return the tokens that arrive from outside, per slot.

    Not those of later stages: |X| has a request's tokens at its present stage alone, so that it
    may grow by far less than what all its visits bring.
    """
    laws = zip(scenario.arrival_laws, scenario.size_laws, strict=True)
    return sum(float(arrivals.rate) * sum(sizes.means) for arrivals, sizes in laws)


def large_state(scenario: Scenario, horizon: int) -> Scenario:
    """Return the scenario with requests there that fluid would drain in a part of the horizon.

    They begin in the stages with arrivals, in proportion to the rates.
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
    """Return how many more requests per slot the network could take, all rates growing alike.

    Beyond capacity: the requests that arrive, so that the large state is large all the same.
    """
    from formulations.stability import capacity

    total = sum((stage.rate for stage in network.stages), Fraction(0))
    if not total:
        return Fraction(1)
    factor = capacity(network).factor
    return total * (factor - 1) if factor > 1 else total
