"""One core: thread pools are sized when their libraries load, so this comes before any of them."""

import os

#: What the numerical libraries below us read once, when they are first imported.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def use_one_core() -> None:
    """Ask every library for one thread; call it before numpy is imported."""
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"
