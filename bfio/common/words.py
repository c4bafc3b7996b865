"""Types of arrays of 64-bit words in kernels."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Bit sets of reachable sums, 64 per word; and the one-word state of a pseudo-random sequence.
Words: TypeAlias = NDArray[np.uint64]
RandomState: TypeAlias = NDArray[np.uint64]
