"""The engine and the built-in policies as one compiled loop; it decides as `engine` does.

Numba's cache on disk watches only the file of the function it keeps. So only the entry point is
kept, and it depends on a fingerprint of the sources, see
`bfio.step.two_stage.kernels.machine_code`.
"""
