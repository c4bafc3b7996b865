"""The loops of whole runs, and the kernels of decisions that these loops contain."""

from bfio.common.kernel_groups import KernelGroup

GROUPS = (
    KernelGroup(
        "baselines",
        ("bfio.decode.policy_registry:run_greedy",),
        "bfio.decode.kernel_groups:warm_up_greedy",
        20,
    ),
    KernelGroup(
        "two-stage",
        ("bfio.step.two_stage.kernels", "bfio.decode.machine.two_stage:run"),
        "bfio.decode.kernel_groups:warm_up_two_stage",
        45,
    ),
    KernelGroup(
        "rolling-horizon",
        ("bfio.decode.rolling.kernel", "bfio.decode.machine.rolling_horizon:run"),
        "bfio.decode.kernel_groups:warm_up_rolling_horizon",
        20,
    ),
    KernelGroup(
        "adaptive",
        (
            "bfio.decode.adaptive.rehearsal:_rehearse",
            "bfio.decode.machine.adaptive:run",
        ),
        "bfio.decode.kernel_groups:warm_up_adaptive",
        50,
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
    from bfio.decode.machine.whole_run import warm_up
    from bfio.decode.policy_registry import built_in

    warm_up_rehearsals()
    warm_up(built_in()["adaptive"])


def warm_up_rehearsals() -> None:
    """Compile or load the kernel of rehearsals, by one of an idle machine."""
    from bfio.decode.adaptive.memory import PAST, new_memory
    from bfio.decode.adaptive.rehearsal import rehearse
    from bfio.step.two_stage.heuristic import TwoStageParameters

    memory = new_memory(1, 1, 0, 1, TwoStageParameters())
    memory.seen.counts[PAST] = 1
    rehearse(memory, 0, False)
