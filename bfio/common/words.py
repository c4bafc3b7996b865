"""Arrays of 64-bit words, as kernels use them."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Bits of reachable sums, 64 to a word, and the one word of a pseudo-random sequence.
Words: TypeAlias = NDArray[np.uint64]
RandomState: TypeAlias = NDArray[np.uint64]
