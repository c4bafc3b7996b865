"""The two-stage heuristic on what a policy sees: `br-0`, `br-h`, `adaptive` decide by it."""

from collections.abc import Sequence

import numpy as np

from bfio.decode.state import DecodeState
from bfio.step.two_stage.heuristic import TwoStageParameters, two_stage
from bfio.step.two_stage.limits import Limits


def two_stage_of(
    state: DecodeState, weights: Sequence[int], parameters: TwoStageParameters
) -> list[int | None]:
    """Assign by the heuristic, within memory and by the time that each worker takes.

    Parameters
    ----------
    state : DecodeState
        The step; with fewer columns than weights they shorten the window.
    weights : sequence of int
        Discount weight of each look-ahead step.
    parameters : TwoStageParameters
        Threshold, candidates, factors, priority.
    """
    columns = min(len(weights), state.projected_loads.shape[1])
    return two_stage(
        state.free_slots,
        state.window_loads(columns),
        state.contributions[:, :columns],
        weights[:columns],
        parameters,
        _limits(state, columns),
    )


def _limits(state: DecodeState, columns: int) -> Limits | None:
    capacity, time = state.token_capacity(columns), state.token_time
    if capacity is None and time is None:
        return None
    if time is None:
        time = np.ones(state.num_workers, dtype=np.int64)
    return Limits(
        time=time,
        most_time=None if capacity is None else capacity * time,
        required=np.zeros(state.num_waiting, dtype=np.bool_),
        num_slots=int(state.free_slots.sum()),
    )
