"""``python -m benchmarks``."""

import sys

from benchmarks.one_core import use_one_core


def _main() -> int:
    use_one_core()
    # Imported late: numpy and Numba read the thread variables when they load.
    from benchmarks.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(_main())
