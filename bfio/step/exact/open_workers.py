"""The workers of a fill problem in the form that compiled code uses."""

from typing import NamedTuple

from formulations.arrays import IntArray


class OpenWorkers(NamedTuple):
    """The workers of a fill problem as arrays for compiled code.

    Parameters
    ----------
    number, total_base, peak : int
        ``G``, ``Σ_g b_g`` and ``max_g b_g`` of all workers, with and without free slots.
    base, capacity : IntArray
        Shape (W,): loads and free slots of the open workers.
    """

    number: int
    total_base: int
    peak: int
    base: IntArray
    capacity: IntArray
