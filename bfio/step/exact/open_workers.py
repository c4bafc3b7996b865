"""The workers of a fill problem in a form that compiled code takes."""

from typing import NamedTuple

from formulations.arrays import IntArray


class OpenWorkers(NamedTuple):
    """The workers of a problem as compiled code takes them.

    Parameters
    ----------
    number, total_base, peak : int
        ``G``, ``Σ_g b_g`` and ``max_g b_g`` of all workers, with and without free slots.
    base, capacity : IntArray
        Shape (W,): loads and free slots of the open ones.
    """

    number: int
    total_base: int
    peak: int
    base: IntArray
    capacity: IntArray
