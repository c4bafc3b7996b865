"""Rolling horizon: a plan of the whole window at every step, of which only this step is kept."""

from dataclasses import dataclass
from functools import cache

from bfio.common.kernels import entry_of
from bfio.common.options import CheckedOptions, option, whole
from bfio.decode.option_kinds import look_ahead_option
from bfio.decode.policy import LooksAhead
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState


@dataclass(frozen=True)
class RollingHorizonOptions(CheckedOptions):
    """Options of `rolling-horizon`."""

    look_ahead: int = look_ahead_option(40, "look-ahead steps (40)")
    moves: int = option(40_000, whole(1), "N", "exchanges looked at per decision (40000)")


class RollingHorizon(LooksAhead):
    """Plans who fills each slot of the window, and starts who fills those that are free now.

    The plan, its objective and the search are stated in `bfio.decode.rolling`. Of the waiting
    requests it reads sizes only; a state with fewer than ``H + 1`` columns shortens the window.

    Attributes
    ----------
    look_ahead : int
        ``H``.
    moves : int
        Exchanges that a plan looks at.
    """

    def __init__(self, options: RollingHorizonOptions) -> None:
        from bfio.decode.rolling.kernel import plan_admissions

        self.look_ahead, self.moves = options.look_ahead, options.moves
        # Loading the kernel is no part of any decision.
        if entry_of(plan_admissions).is_compiled():
            _prepare()

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign as the plan of this step does."""
        from bfio.decode.rolling.plan import planned

        _prepare()
        columns = min(self.look_ahead + 1, state.projected_loads.shape[1])
        return planned(
            state.free_slots,
            state.planned_loads(columns),
            state.projected_running[:, :columns] + state.queued[:, None],
            state.contributions[:, :columns],
            self.moves,
        )


@cache
def _prepare() -> None:
    """Compile the kernel, or load it from the disk, before any clock runs."""
    from bfio.common.kernel_groups import ensure_compiled
    from bfio.decode.rolling.plan import warm_up

    ensure_compiled("rolling-horizon decisions")
    warm_up()


SPEC = PolicySpec(
    name="rolling-horizon",
    factory=RollingHorizon,
    options=RollingHorizonOptions(),
    summary="a plan of the window's admissions at each step (--horizon, 40 by default)",
    source="this toolkit, docs/policies.md",
    kernel="bfio.decode.rolling.plan:KERNEL",
    why_pooled="it plans who fills which slot when, and a bound request is past planning",
)
