"""The kernels of this package."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (KernelGroup("wait", ("bfio.wait.kernels",), "bfio.wait.compiled:compile_kernels", 8),)
