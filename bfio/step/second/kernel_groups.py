"""Registration of this package's kernels."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup("second", ("bfio.step.second",), "bfio.step.second.search:prepare_second", 4),
)
