"""The data of the search, as its kernels take them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.arrays import IntArray


class Tables(NamedTuple):
    """What stays the same during a search; see `NormalForm`, `PricedBound` and `PairLosses`.

    ``least`` holds the least cost of any start of a request from a round on; ``loss`` how much
    cheaper than the dearest set of a round the dearest one with a cell is; ``twin`` the identical
    request just before each one, or -1.
    """

    memory: int
    prompt: IntArray
    duration: IntArray
    arrival: IntArray
    twin: IntArray
    of_age: IntArray
    cost: IntArray
    least: IntArray
    prices: IntArray
    dearest: IntArray
    loss: IntArray
    pair: NDArray[np.int32]
    begin: IntArray
    row: IntArray
    size: IntArray
