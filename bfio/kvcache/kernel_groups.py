"""Compiled kernels of this package."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup(
        "kv-cache",
        ("bfio.kvcache.compiled:compiled_batches",),
        "bfio.kvcache.compiled:compile_kernel",
        5,
    ),
)
