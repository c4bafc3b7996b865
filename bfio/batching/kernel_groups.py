"""Compiled kernels of this package."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup(
        "batching",
        ("bfio.batching.compiled:run_slots_compiled",),
        "bfio.batching.compiled:compile_kernels",
        8,
    ),
)
