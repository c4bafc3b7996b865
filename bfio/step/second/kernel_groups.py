"""The kernel groups of the secondary objective."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup("second", ("bfio.step.second",), "bfio.step.second.search:prepare_second", 4),
)
