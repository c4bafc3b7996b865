"""Random draws of a run, made in blocks that the compiled and the interpreted engine share.

Each stage has separate streams for arrivals, sizes, delays, routes and choices of an engine, so
that a change of one distribution does not change the other draws. A task that reaches a stage uses
the next row of the stage's block: its sizes, the delay before it, the next stage of its request,
and the engine chosen by a random balancer.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from bfio.batching.laws import MAX_SLOT
from bfio.batching.scenario import Scenario
from bfio.batching.tallies import (
    D_DECODE,
    D_DELAY,
    D_ENGINE,
    D_PREFILL,
    D_SUCCESSOR,
    DEPARTS,
    NUM_DRAWN,
)
from formulations.arrays import FloatArray, IntArray, integer
from formulations.errors import InputError

#: Mean arrivals of a window and rows of a block: first, maximum, and growth factor. Small at
#: first, for short runs.
_FIRST, _MOST, _GROWTH = 2**6, 2**14, 4
#: Maximum total rows of all blocks, for networks with many stages.
_ALL_BLOCKS = 2**20
_LONGEST_WINDOW = 2**40
# Uses of the streams of a stage.
_ARRIVALS, _SIZES, _DELAYS, _ROUTES, _ENGINES = range(5)


class Window(NamedTuple):
    """All arrivals before some slot.

    Parameters
    ----------
    arrivals : IntArray
        Shape (m, 2): slot and stage, in order of arrival.
    end : int
        The window contains all arrivals before this slot.
    """

    arrivals: IntArray
    end: int


class Streams:
    """The random draws of one run.

    Parameters
    ----------
    scenario : Scenario
        Scenario to simulate.
    seed : int
        Equal seeds give equal draws.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        integer(seed, "seed", maximum=2**63 - 1)
        self.scenario = scenario
        network = scenario.network
        num = len(network.stages)
        rng = np.random.default_rng
        self._rngs = [[rng([seed, k, use]) for use in range(5)] for k in range(num)]
        self._drawn = [0] * num
        self._entries = _entries(scenario)
        self._rate = sum(scenario.arrival_laws[k].rate for k in self._entries)
        self._end, self._wanted = 0, _FIRST
        self._is_over = self._nothing_follows()
        #: Maximum rows of a block.
        self.block_rows = max(2 * _FIRST, min(_MOST, _ALL_BLOCKS // num))
        self._rows = [_FIRST] * num
        # One table for all blocks: allocating a fresh one takes longer than drawing its entries.
        self._block = np.zeros((self.block_rows, NUM_DRAWN), dtype=np.int64)
        self._routes = [_route_table(network.successors[k]) for k in range(num)]

    def initial(self) -> Window:
        """Return the requests that are present at the start of the run."""
        initial = self.scenario.initial
        counts = [initial.get(stage.name, 0) for stage in self.scenario.network.stages]
        stages = np.repeat(np.arange(len(counts)), counts)
        return Window(np.column_stack((np.full(len(stages), -1), stages)).astype(np.int64), 0)

    def is_over(self) -> bool:
        """Return whether no request arrives after the windows drawn so far."""
        return self._is_over

    def _nothing_follows(self) -> bool:
        laws = self.scenario.arrival_laws
        return all(laws[k].is_over(self._end) for k in self._entries)

    def window(self) -> Window:
        """Return the arrivals of the next slots."""
        first, laws = self._end, self.scenario.arrival_laws
        length = MAX_SLOT
        if self._rate:
            length = int(min(max(self._wanted / self._rate, 1), _LONGEST_WINDOW))
        self._wanted = min(_GROWTH * self._wanted, _MOST)
        parts = [laws[k].window(self._rngs[k][_ARRIVALS], first, length) for k in self._entries]
        slots = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        stages = np.repeat(self._entries, [len(part) for part in parts])
        self._end = first + length
        self._is_over = self._nothing_follows()
        table = np.empty((len(slots), 2), dtype=np.int64)
        table[:, 0], table[:, 1] = slots, stages
        if len(parts) > 1:
            # Each part is sorted by slot; the stable sort keeps the lowest stage first within a
            # slot.
            table = table[np.argsort(slots, kind="stable")]
        return Window(table, self._end)

    def block(self, stage: int) -> IntArray:
        """Return the draws of the next tasks of a stage, shape (rows, 5), at most `block_rows`.

        The array is overwritten by the next call.

        Raises
        ------
        InputError
            If a prompt exceeds the budget of an agent that does not cut prompts.
        """
        scenario, rows = self.scenario, self._rows[stage]
        self._rows[stage] = min(_GROWTH * rows, self.block_rows)
        network = scenario.network
        rngs, node = self._rngs[stage], network.stages[stage]
        block = self._block[:rows]
        sizes = scenario.size_laws[stage].draw(rngs[_SIZES], self._drawn[stage], rows)
        block[:, D_PREFILL], block[:, D_DECODE] = sizes[:, 0], sizes[:, 1]
        self._check_uncut(stage, sizes[:, 0])
        delay = scenario.delays.get(node.name)
        block[:, D_DELAY] = 0 if delay is None else delay.draw(rngs[_DELAYS], rows)
        block[:, D_SUCCESSOR] = self._followed_by(stage, rngs[_ROUTES], rows)
        engines = network.agents[network.agent_of[stage]].engines
        block[:, D_ENGINE] = 0 if engines == 1 else rngs[_ENGINES].integers(0, engines, rows)
        self._drawn[stage] += rows
        return block

    def _check_uncut(self, stage: int, prefill: IntArray) -> None:
        network = self.scenario.network
        agent = network.agents[network.agent_of[stage]]
        if not agent.chunked and (longest := int(prefill.max())) > agent.budget:
            raise InputError(
                f"stages[{stage}]",
                f"a prompt of {longest} tokens exceeds the budget {agent.budget} of {agent.name}, "
                "which does not cut prompts",
                "raise the budget, set chunked = true, or draw shorter prompts",
            )

    def _followed_by(self, stage: int, rng: np.random.Generator, rows: int) -> IntArray:
        targets, cumulative = self._routes[stage]
        if len(targets) == 1:
            # The only target is a departure or a single route, so no draw is needed.
            return targets
        drawn = np.searchsorted(cumulative, rng.random(rows), side="right")
        return np.asarray(targets[drawn])


def first_stages(scenario: Scenario, stage: int) -> list[int]:
    """Return the first stages of an arriving request; several for a fork–join type."""
    network = scenario.network
    if not network.forks(stage):
        return [stage]
    kind = network.stages[stage].request_type
    own = (k for k, other in enumerate(network.stages) if other.request_type == kind)
    return [k for k in own if not network.predecessors[k]]


def _entries(scenario: Scenario) -> list[int]:
    """Return the stages with outside arrivals; the first stage represents a fork–join type."""
    stages = range(len(scenario.network.stages))
    laws = scenario.arrival_laws
    return [k for k in stages if laws[k].rate > 0 and first_stages(scenario, k)[0] == k]


def _route_table(successors: tuple[tuple[int, Fraction], ...]) -> tuple[IntArray, FloatArray]:
    """Return the target stages of a stage, departure last, and cumulative probabilities."""
    chances = [chance for _, chance in successors]
    leaves = sum(chances) < 1
    targets = [target for target, _ in successors] + ([DEPARTS] if leaves else [])
    limits = np.cumsum([float(chance) for chance in chances])[: len(targets) - 1]
    return np.array(targets, dtype=np.int64), limits
