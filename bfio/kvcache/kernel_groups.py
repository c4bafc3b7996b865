"""The kernels of this package."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup(
        "kv-cache",
        ("bfio.kvcache.machine.whole_run:compiled_batches",),
        "bfio.kvcache.machine.whole_run:compile_kernel",
        5,
    ),
)
