"""The kernel groups of the exact method."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup("exact", ("bfio.step.exact",), "bfio.step.exact.prepare:prepare", 16),
    KernelGroup(
        "windows",
        ("bfio.step.exact.windows",),
        "bfio.step.exact.windows.prepare:prepare_windows",
        20,
    ),
)
