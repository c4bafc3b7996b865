"""The kernel groups of the methods for a step.

They stand above the packages that hold the kernels, whose import takes a tenth of a second.
"""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup("exact", ("bfio.step.exact",), "bfio.step.exact.prepare:prepare", 16),
    KernelGroup(
        "windows",
        ("bfio.step.exact.windows",),
        "bfio.step.exact.windows.prepare:prepare_windows",
        20,
    ),
    KernelGroup("second", ("bfio.step.second",), "bfio.step.second:prepare_second", 4),
)
