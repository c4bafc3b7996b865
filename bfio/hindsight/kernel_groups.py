"""Compiled kernels of these packages."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup(
        "hindsight",
        ("bfio.hindsight.latency",),
        "bfio.hindsight.latency.solve:prepare",
        10,
    ),
    KernelGroup(
        "makespan",
        ("bfio.hindsight.makespan",),
        "bfio.hindsight.makespan.solve:prepare",
        5,
    ),
)
