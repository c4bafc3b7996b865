"""Kernel groups: the compiled functions (Numba kernels) of this project, by shared compilation.

Each kind of decode policy has one compiled simulation loop. It includes the code of its policies,
so a run compiles no further kernel.
"""

from functools import partial
from typing import TYPE_CHECKING

from bfio.common.kernel_groups import KernelGroup

if TYPE_CHECKING:
    from bfio.decode.machine.whole_run import CompiledLoop

#: By kind of policy: its loop, one policy of this kind, and the compile time of the loop [s].
_LOOPS = {
    "baselines": ("bfio.decode.policy_registry:run_greedy", "fcfs", 20),
    "two-stage": ("bfio.decode.machine.two_stage:run", "br-0", 20),
    "rolling-horizon": ("bfio.decode.rolling:run", "rolling-horizon", 15),
    "adaptive": ("bfio.decode.adaptive.rehearsal:run", "adaptive", 25),
}


def _loop(policy: str) -> "CompiledLoop":
    from bfio.decode.machine.whole_run import loop_of, machine_code_of
    from bfio.decode.policy_registry import find

    return machine_code_of(loop_of(find(policy)))


def _warm_up(policy: str) -> None:
    """Compile the loop of a policy in this process, or load it from disk."""
    from bfio.decode.machine.whole_run import loop_of, warm_up
    from bfio.decode.policy_registry import find

    warm_up(loop_of(find(policy)))


GROUPS = (
    # Kernels that interpreted runs call for a single decision.
    KernelGroup(
        "two-stage decisions",
        ("bfio.step.two_stage.kernel",),
        "bfio.step.two_stage.heuristic:warm_up",
        15,
    ),
    KernelGroup(
        "rolling-horizon decisions",
        ("bfio.decode.rolling",),
        "bfio.decode.rolling:warm_up",
        5,
    ),
    KernelGroup(
        "adaptive decisions",
        ("bfio.decode.adaptive.rehearsal:rehearse",),
        "bfio.decode.adaptive.rehearsal:warm_up",
        20,
    ),
    *(
        KernelGroup(kind, (partial(_loop, policy),), partial(_warm_up, policy), seconds, (name,))
        for kind, (name, policy, seconds) in _LOOPS.items()
    ),
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
    KernelGroup("exact", ("bfio.step.exact",), "bfio.step.exact.prepare:prepare", 16),
    KernelGroup(
        "windows",
        ("bfio.step.exact.windows",),
        "bfio.step.exact.prepare:prepare_windows",
        20,
    ),
    KernelGroup("second", ("bfio.step.second",), "bfio.step.second:prepare_second", 4),
)
