"""The kernels of this package."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup(
        "wait",
        (
            "bfio.wait.cohorts:run_cohorts",
            "bfio.wait.fcfs:run_first_come",
        ),
        "bfio.wait.compiled:compile_kernels",
        4,
    ),
)
