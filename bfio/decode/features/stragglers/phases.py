"""How slow the workers are at each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bfio.common.compilable import compilable
from bfio.decode.machine.counters import NOW, SLOWED

if TYPE_CHECKING:
    from bfio.decode.machine.state import State


@compilable(part_of="stragglers")
def keep_pace(state: State) -> None:
    """Let the workers be as slow as they are from this step on."""
    slow, machine, counters = state.slowness, state.machine, state.counters
    while (
        counters[SLOWED] < len(slow.time_s) and slow.time_s[counters[SLOWED]] <= state.clock[NOW]
    ):
        worker, factor = slow.worker[counters[SLOWED]], slow.factor[counters[SLOWED]]
        machine.overhead_s[worker] = factor * machine.own_overhead_s[worker]
        machine.token_time_s[worker] = factor * machine.own_token_time_s[worker]
        counters[SLOWED] += 1
