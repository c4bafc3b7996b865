"""The kernels of whole runs, and those of the two-stage heuristic, which such runs contain."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup(
        "baselines",
        ("bfio.decode.compiled.baseline_run",),
        "bfio.decode.compiled.plan:warm_up_baselines",
        10,
    ),
    KernelGroup(
        "two-stage",
        ("bfio.step.two_stage.kernels", "bfio.decode.compiled.two_stage_run"),
        "bfio.decode.compiled.plan:warm_up_two_stage",
        45,
    ),
)
