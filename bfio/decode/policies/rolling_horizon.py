"""The policy `rolling-horizon`: plan the whole window, start only this step's requests."""

from dataclasses import dataclass

from bfio.common.kernel_groups import load, load_if_compiled
from bfio.common.options import CheckedOptions, option, whole
from bfio.decode.option_kinds import look_ahead_option
from bfio.decode.policy import LooksAhead
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState

#: The kernel group of a single decision.
KERNELS = "rolling-horizon decisions"


@dataclass(frozen=True)
class RollingHorizonOptions(CheckedOptions):
    """Options of `rolling-horizon`."""

    look_ahead: int = look_ahead_option(40, "look-ahead steps (40)")
    moves: int = option(40_000, whole(1), "N", "exchanges tried per decision (40000)")


class RollingHorizon(LooksAhead):
    """The policy `rolling-horizon`: plans a request for each slot of the window.

    Requests planned for slots that are free now are started. `bfio.decode.rolling` describes the
    plan, its objective and the search. Of waiting requests, the plan uses only the sizes. If a
    state has fewer than ``H + 1`` columns, the window is shortened.
    """

    def __init__(self, options: RollingHorizonOptions) -> None:
        self.look_ahead, self.moves = options.look_ahead, options.moves
        load_if_compiled(KERNELS)

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign waiting requests by the plan of this step."""
        from bfio.decode.rolling import planned

        load(KERNELS)
        columns = min(self.look_ahead + 1, state.projected_loads.shape[1])
        return planned(
            state.free_slots,
            state.planned_loads(columns),
            state.projected_running[:, :columns] + state.queued[:, None],
            state.contributions[:, :columns],
            self.moves,
        )


SPEC = PolicySpec(
    name="rolling-horizon",
    factory=RollingHorizon,
    options=RollingHorizonOptions(),
    summary=(
        "a plan of all admissions in the window, found by threshold accepting; this step's "
        "admissions are made"
    ),
    source="this toolkit",
    kernel="bfio.decode.rolling:KERNEL",
    why_pooled="it plans the request of each slot, and a bound request cannot be planned",
)
