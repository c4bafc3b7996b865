"""The loops of whole runs, and the kernels of decisions that these loops contain.

Each policy has two loops: a plain one, and one that knows the features of the machine.
"""

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from bfio.common.kernel_groups import KernelGroup

if TYPE_CHECKING:
    from bfio.decode.machine.whole_run import CompiledLoop

#: The loop of each kind of policy, one of its policies, and how long the loop takes to compile
#: without features and with them [s].
_LOOPS = {
    "baselines": ("bfio.decode.policy_registry:run_greedy", "fcfs", (12, 22)),
    "two-stage": ("bfio.decode.machine.two_stage:run", "br-0", (35, 35)),
    "rolling-horizon": ("bfio.decode.rolling.plan:run", "rolling-horizon", (15, 25)),
    "adaptive": ("bfio.decode.adaptive.rehearsal:run", "adaptive", (45, 40)),
}
#: The kernels of decisions that interpreted runs call, and the module whose `warm_up` loads them.
_DECISIONS = {
    "two-stage": ("bfio.step.two_stage.kernels", "bfio.step.two_stage.kernels.decide"),
    "rolling-horizon": ("bfio.decode.rolling.kernel", "bfio.decode.rolling.plan"),
    "adaptive": ("bfio.decode.adaptive.rehearsal:rehearse", "bfio.decode.adaptive.rehearsal"),
}


def _loop(kind: str, features: bool) -> "CompiledLoop":
    from bfio.decode.machine.whole_run import EVERY_PART, loop_of, machine_code_of
    from bfio.decode.policy_registry import built_in

    parts = EVERY_PART if features else frozenset()
    return machine_code_of(loop_of(built_in()[_LOOPS[kind][1]], parts))


def _warm_up(kind: str, features: bool) -> None:
    """Compile or load the kernels of a group in this process."""
    from bfio.decode.machine.whole_run import EVERY_PART, warm_up
    from bfio.decode.policy_registry import built_in

    if kind in _DECISIONS and not features:
        import_module(_DECISIONS[kind][1]).warm_up()
    warm_up(built_in()[_LOOPS[kind][1]], EVERY_PART if features else frozenset())


GROUPS = tuple(
    KernelGroup(
        kind + " with features" * features,
        (*(() if features else _DECISIONS.get(kind, ())[:1]), partial(_loop, kind, features)),
        partial(_warm_up, kind, features),
        seconds[features],
        made=(name + "+features" * features,),
    )
    for features in (False, True)
    for kind, (name, _, seconds) in _LOOPS.items()
)
