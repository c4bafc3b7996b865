"""Plans for Python callers."""

from functools import cache

import numpy as np

from bfio.common.kernel_groups import ensure_compiled
from bfio.decode.rolling.kernel import DECIDED, plan_admissions
from bfio.decode.rolling.reference import planned_reference
from bfio.decode.rolling.settings import MOST_WAITING
from bfio.step.two_stage.kernels.two_stage import order_by_size
from formulations.arrays import IntArray


def planned(
    free: IntArray, base: IntArray, running: IntArray, contribution: IntArray, moves: int
) -> list[int | None]:
    """Assign ``min(N, free slots)`` waiting requests to workers, as the plan of the window does.

    Parameters
    ----------
    free : IntArray
        Shape (G,), slots free now.
    base, running : IntArray
        Shape (G, H+1), projected loads [tokens] and requests without new admissions.
    contribution : IntArray
        Shape (N, H+1), projected load of each waiting request in arrival order [tokens].
    moves : int
        Exchanges looked at, at least 1.

    Returns
    -------
    list of (int or None)
        Worker of each request, None for those that keep waiting.
    """
    num = min(len(contribution), max(MOST_WAITING, int(free.sum())))
    waiting = [None] * (len(contribution) - num)
    # Always fresh, writeable and contiguous, so that one machine code serves every caller.
    added = np.array(contribution[:num], dtype=np.int64, order="C")
    capacity, loads, runs = (np.array(x, dtype=np.int64, order="C") for x in (free, base, running))
    by_size, assignment = np.empty((2, num), dtype=np.int64)
    if num == 0 or not capacity.any():
        return [None] * len(contribution)
    order_by_size(added[:, 0].copy(), by_size)
    if plan_admissions(capacity, loads, runs, added, by_size, moves, assignment) != DECIDED:
        return [*planned_reference(capacity, loads, runs, added, moves), *waiting]
    return [*(None if worker < 0 else worker for worker in assignment.tolist()), *waiting]


@cache
def prepare() -> None:
    """Compile the kernel, or load it from the disk, before any clock runs."""
    ensure_compiled("rolling-horizon")
    warm_up()


def warm_up() -> None:
    """Plan for one request and one slot."""
    one = np.ones((1, 1), dtype=np.int64)
    planned(one[0], one, one, one, 1)
