"""Run the command line of the benchmarks: ``python -m benchmarks``."""

import sys

from bfio.common.provenance import use_one_thread


def _main() -> int:
    use_one_thread()
    # Imported late, because numpy and Numba read the thread variables when they load.
    from benchmarks.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(_main())
