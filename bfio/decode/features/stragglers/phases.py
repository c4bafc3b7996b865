"""How slow the workers are at each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.cluster import Cluster
from bfio.decode.features.stragglers.schedule import stragglers_of
from bfio.decode.machine.counters import NOW
from bfio.decode.options import RunOptions
from formulations.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from bfio.decode.machine.state import State


class Slowness(NamedTuple):
    """From when on workers take how many times as long, in order of time.

    Parameters
    ----------
    time_s, factor : FloatArray
        Shape (E,): when [s], and what times of a step are multiplied by from then on.
    worker : IntArray
        Shape (E,).
    overhead_s, token_time_s : FloatArray
        Shape (G,): ``C_g`` and ``t_g`` at their own pace.
    passed : IntArray
        Shape (1,): how many of these have taken effect.
    until_s : float
        Up to when they are known [s].
    """

    time_s: FloatArray
    factor: FloatArray
    worker: IntArray
    overhead_s: FloatArray
    token_time_s: FloatArray
    passed: IntArray
    until_s: float


def new_slowness(cluster: Cluster, options: RunOptions) -> Slowness:
    """Return the stragglers of a run, in arrays that may be written as all others."""
    slow = stragglers_of(options.stragglers, cluster.workers, options.seed)
    return Slowness(
        slow.time_s.copy(),
        slow.factor.copy(),
        slow.worker.copy(),
        *cluster.worker_times(),
        np.zeros(1, dtype=np.int64),
        slow.until_s,
    )


@compilable(part_of="stragglers")
def keep_pace(state: State) -> None:
    """Let the workers be as slow as they are from this step on."""
    slow, machine = state.slowness, state.machine
    while slow.passed[0] < len(slow.time_s) and slow.time_s[slow.passed[0]] <= state.clock[NOW]:
        event = slow.passed[0]
        worker, factor = slow.worker[event], slow.factor[event]
        machine.overhead_s[worker] = factor * slow.overhead_s[worker]
        machine.token_time_s[worker] = factor * slow.token_time_s[worker]
        slow.passed[0] += 1
