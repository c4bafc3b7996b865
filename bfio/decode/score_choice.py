"""The two-stage heuristic on what a policy sees: `br-0`, `br-h`, `adaptive` decide by it."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from bfio.decode.state import DecodeState
from bfio.step.two_stage.heuristic import TwoStageParameters, two_stage
from bfio.step.two_stage.limits import Limits
from formulations.arrays import BoolArray, IntArray
from formulations.errors import InputError

#: Most that a placement may be worth [tokens], so that its millionths are 64-bit integers.
MAX_WORTH = 2**42


def two_stage_of(
    state: DecodeState,
    weights: Sequence[int],
    parameters: TwoStageParameters,
    required: BoolArray | None = None,
    worth: IntArray | None = None,
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
    required : BoolArray, optional
        Shape (N,): who starts before all others, see `overdue`.
    worth : IntArray, optional
        Shape (N, G): what each placement is worth, on the scale of the weights.
    """
    columns = min(len(weights), state.projected_loads.shape[1])
    return two_stage(
        state.free_slots,
        state.window_loads(columns),
        state.contributions[:, :columns],
        weights[:columns],
        parameters,
        _limits(state, columns, required, worth),
    )


def overdue(state: DecodeState, max_wait: int | None) -> BoolArray | None:
    """Return who has to start now lest it starve, shape (N,); None if nobody has to.

    Parameters
    ----------
    state : DecodeState
        The step.
    max_wait : int, optional
        ``W``: steps after which a request has waited long enough. If more of them wait than can
        start, the oldest are meant.
    """
    if max_wait is None:
        return None
    late = np.flatnonzero(state.ages >= max_wait)[: state.num_admissible]
    if len(late) == 0:
        return None
    required = np.zeros(state.num_waiting, dtype=np.bool_)
    required[late] = True
    return required


def cache_worth(state: DecodeState, benefit: Fraction) -> IntArray | None:
    """Return what each placement saves of prefill times ``μ``, shape (N, G); None where μ = 0.

    Rounded down to whole tokens.

    Raises
    ------
    InputError
        If one is worth so much that scores would leave 64-bit integers.
    """
    if benefit == 0:
        return None
    worth: IntArray = state.cached_tokens * benefit.numerator // benefit.denominator
    if int(worth.max(initial=0)) > MAX_WORTH:
        what = f"{float(benefit):g} makes a placement worth more than {MAX_WORTH} tokens"
        raise InputError("benefit", what, "use a smaller one")
    return worth


def _limits(
    state: DecodeState, columns: int, required: BoolArray | None, worth: IntArray | None
) -> Limits | None:
    capacity, time = state.token_capacity(columns), state.token_time
    if all(given is None for given in (capacity, time, required, worth)):
        return None
    if required is None:
        required = np.zeros(state.num_waiting, dtype=np.bool_)
    if time is None:
        time = np.ones(state.num_workers, dtype=np.int64)
    return Limits(
        time=time,
        most_time=None if capacity is None else capacity * time,
        required=required,
        num_slots=int(state.free_slots.sum()),
        benefit=worth,
    )
