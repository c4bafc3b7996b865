"""The loops of whole runs, and the kernels of decisions that these loops contain.

Each policy has two loops: a plain one, and one that knows the features of the machine.
"""

from functools import partial

from bfio.common.kernel_groups import KernelGroup


def _warm_up(policy: str, *, with_features: bool = False) -> None:
    """Compile or load a loop of a policy, and what it calls besides."""
    from bfio.decode.machine.parts import EVERY_PART
    from bfio.decode.machine.whole_run import warm_up
    from bfio.decode.policy_registry import built_in

    warm_up(built_in()[policy], EVERY_PART if with_features else frozenset())


def _warm_up_two_stage() -> None:
    from bfio.step.two_stage.kernels.decide import warm_up

    warm_up()
    _warm_up("br-0")


def _warm_up_rolling_horizon() -> None:
    from bfio.decode.rolling.plan import warm_up

    warm_up()
    _warm_up("rolling-horizon")


def _warm_up_adaptive() -> None:
    from bfio.decode.adaptive.rehearsal import warm_up

    warm_up()
    _warm_up("adaptive")


#: The loop of each group; all policies that serve one request after the other share the first.
_LOOPS = {
    "baselines": "bfio.decode.policy_registry:run_greedy",
    "two-stage": "bfio.decode.machine.two_stage:run",
    "rolling-horizon": "bfio.decode.machine.rolling_horizon:run",
    "adaptive": "bfio.decode.machine.adaptive:run",
}
_KNOWING = {
    "baselines": ("fcfs", 22),
    "two-stage": ("br-0", 35),
    "rolling-horizon": ("rolling-horizon", 25),
    "adaptive": ("adaptive", 40),
}

GROUPS = (
    KernelGroup("baselines", (_LOOPS["baselines"],), partial(_warm_up, "fcfs"), 12),
    KernelGroup(
        "two-stage",
        ("bfio.step.two_stage.kernels", _LOOPS["two-stage"]),
        _warm_up_two_stage,
        35,
    ),
    KernelGroup(
        "rolling-horizon",
        ("bfio.decode.rolling.kernel", _LOOPS["rolling-horizon"]),
        _warm_up_rolling_horizon,
        15,
    ),
    KernelGroup(
        "adaptive",
        ("bfio.decode.adaptive.rehearsal:_rehearse", _LOOPS["adaptive"]),
        _warm_up_adaptive,
        45,
    ),
    *(
        KernelGroup(
            f"{name} with features",
            (f"{_LOOPS[name]}+features",),
            partial(_warm_up, policy, with_features=True),
            seconds,
        )
        for name, (policy, seconds) in _KNOWING.items()
    ),
)
