"""The engine with built-in policies as compiled loops; they decide as the reference does.

Numba's cache on disk watches only the file of the function it keeps. So only the entry points are
kept, and they depend on a fingerprint of the sources, see
`bfio.step.two_stage.kernels.machine_code`.
"""
