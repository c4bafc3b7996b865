"""The kernels of this package."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup(
        "batching",
        ("bfio.batching.phases:run_slots",),
        "bfio.batching.compiled:compile_kernels",
        8,
    ),
)
