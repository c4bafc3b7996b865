"""The loops of whole runs, and the kernels of decisions that these loops contain.

Each policy has two loops: a plain one, and one that knows the features of the machine.
"""

from functools import partial
from importlib import import_module

from bfio.common.kernel_groups import KernelGroup

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
    "adaptive": ("bfio.decode.adaptive.rehearsal:_rehearse", "bfio.decode.adaptive.rehearsal"),
}


def _warm_up(kind: str, *, features: bool) -> None:
    """Compile or load the kernels of a group in this process."""
    from bfio.decode.machine.whole_run import EVERY_PART, warm_up
    from bfio.decode.policy_registry import built_in

    if kind in _DECISIONS and not features:
        import_module(_DECISIONS[kind][1]).warm_up()
    warm_up(built_in()[_LOOPS[kind][1]], EVERY_PART if features else frozenset())


GROUPS = (
    *(
        KernelGroup(
            kind,
            (*_DECISIONS.get(kind, ())[:1], loop),
            partial(_warm_up, kind, features=False),
            seconds[0],
        )
        for kind, (loop, _, seconds) in _LOOPS.items()
    ),
    *(
        KernelGroup(
            f"{kind} with features",
            (f"{loop}+features",),
            partial(_warm_up, kind, features=True),
            seconds[1],
        )
        for kind, (loop, _, seconds) in _LOOPS.items()
    ),
)
