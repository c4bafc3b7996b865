"""List the kernel groups of the sub-packages that are compiled as a whole."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup(
        "batching",
        ("bfio.batching.engine:run_slots_compiled",),
        "bfio.batching.engine:compile_kernels",
        8,
    ),
    KernelGroup(
        "hindsight",
        ("bfio.hindsight.latency",),
        "bfio.hindsight.latency.solve:prepare",
        10,
    ),
    KernelGroup(
        "makespan",
        ("bfio.hindsight.makespan",),
        "bfio.hindsight.makespan.solve:prepare",
        5,
    ),
    KernelGroup(
        "kv-cache",
        ("bfio.kvcache.simulation:compiled_batches",),
        "bfio.kvcache.simulation:compile_kernel",
        5,
    ),
    KernelGroup(
        "wait",
        (
            "bfio.wait.simulation:run_cohorts_compiled",
            "bfio.wait.simulation:run_first_come_compiled",
        ),
        "bfio.wait.simulation:compile_kernels",
        4,
    ),
)
