"""Compiled kernels of this package."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup(
        "wait",
        (
            "bfio.wait.compiled:run_cohorts_compiled",
            "bfio.wait.compiled:run_first_come_compiled",
        ),
        "bfio.wait.compiled:compile_kernels",
        4,
    ),
)
