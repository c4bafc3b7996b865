"""Compiled runs: the engine step and the built-in policies as machine code.

`bfio.decode.engine` and `bfio.decode.policies` state what a run is; the kernels here give the
identical `Run` faster. Importing this package is cheap: Numba loads with the first compiled run.
"""
