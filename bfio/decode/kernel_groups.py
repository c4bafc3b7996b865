"""The loops of whole runs, and the kernels of decisions that these loops contain.

Each policy has two loops: a plain one, and one that knows the features of the machine.
"""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup(
        "baselines",
        ("bfio.decode.policy_registry:run_greedy",),
        "bfio.decode.kernel_groups:warm_up_greedy",
        12,
    ),
    KernelGroup(
        "two-stage",
        ("bfio.step.two_stage.kernels", "bfio.decode.machine.two_stage:run"),
        "bfio.decode.kernel_groups:warm_up_two_stage",
        35,
    ),
    KernelGroup(
        "rolling-horizon",
        ("bfio.decode.rolling.kernel", "bfio.decode.machine.rolling_horizon:run"),
        "bfio.decode.kernel_groups:warm_up_rolling_horizon",
        15,
    ),
    KernelGroup(
        "adaptive",
        (
            "bfio.decode.adaptive.rehearsal:_rehearse",
            "bfio.decode.machine.adaptive:run",
        ),
        "bfio.decode.kernel_groups:warm_up_adaptive",
        45,
    ),
    KernelGroup(
        "baselines with features",
        ("bfio.decode.policy_registry:run_greedy+features",),
        "bfio.decode.kernel_groups:warm_up_greedy_with_features",
        22,
    ),
    KernelGroup(
        "two-stage with features",
        ("bfio.decode.machine.two_stage:run+features",),
        "bfio.decode.kernel_groups:warm_up_two_stage_with_features",
        35,
    ),
    KernelGroup(
        "rolling-horizon with features",
        ("bfio.decode.machine.rolling_horizon:run+features",),
        "bfio.decode.kernel_groups:warm_up_rolling_horizon_with_features",
        25,
    ),
    KernelGroup(
        "adaptive with features",
        ("bfio.decode.machine.adaptive:run+features",),
        "bfio.decode.kernel_groups:warm_up_adaptive_with_features",
        40,
    ),
)


def warm_up_greedy() -> None:
    """Compile or load the loop of all policies that serve one request after the other."""
    from bfio.decode.machine.whole_run import greedy_policies, warm_up

    warm_up(greedy_policies()[0])


def warm_up_two_stage() -> None:
    """Compile or load the kernels of the two-stage heuristic and the loop around it."""
    from bfio.decode.machine.whole_run import warm_up
    from bfio.decode.policy_registry import built_in
    from bfio.step.two_stage.kernels.decide import warm_up as warm_up_decisions

    warm_up_decisions()
    warm_up(built_in()["br-0"])


def warm_up_rolling_horizon() -> None:
    """Compile or load the kernel of plans and the loop around it."""
    from bfio.decode.machine.whole_run import warm_up
    from bfio.decode.policy_registry import built_in
    from bfio.decode.rolling.plan import warm_up as warm_up_plans

    warm_up_plans()
    warm_up(built_in()["rolling-horizon"])


def warm_up_adaptive() -> None:
    """Compile or load the kernel of rehearsals and the loop around it."""
    from bfio.decode.adaptive.rehearsal import warm_up as warm_up_rehearsals
    from bfio.decode.machine.whole_run import warm_up
    from bfio.decode.policy_registry import built_in

    warm_up_rehearsals()
    warm_up(built_in()["adaptive"])


def warm_up_greedy_with_features() -> None:
    """Compile or load the loop of `warm_up_greedy` that knows the features of the machine."""
    _with_features("fcfs")


def warm_up_two_stage_with_features() -> None:
    """Compile or load the loop of the two-stage heuristic that knows the features."""
    _with_features("br-0")


def warm_up_rolling_horizon_with_features() -> None:
    """Compile or load the loop of plans that knows the features."""
    _with_features("rolling-horizon")


def warm_up_adaptive_with_features() -> None:
    """Compile or load the loop around rehearsals that knows the features."""
    _with_features("adaptive")


def _with_features(policy: str) -> None:
    from bfio.decode.machine.parts import EVERY_PART
    from bfio.decode.machine.whole_run import warm_up
    from bfio.decode.policy_registry import built_in

    warm_up(built_in()[policy], EVERY_PART)
