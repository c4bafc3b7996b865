"""The kernels of this package."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup("kv-cache", ("bfio.kvcache.kernel",), "bfio.kvcache.compiled:compile_kernel", 8),
)
