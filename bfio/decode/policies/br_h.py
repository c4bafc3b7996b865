"""BR-H: the two-stage heuristic with a short look-ahead."""

from dataclasses import dataclass
from fractions import Fraction

from bfio.common.options import option
from bfio.decode.option_kinds import DISCOUNT, EXACT, HORIZON
from bfio.decode.policy import MARGIN
from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.score_choice import (
    ScoreOptions,
    bound_by_score,
    cache_worth,
    overdue,
    two_stage_of,
)
from bfio.decode.state import DecodeState
from bfio.step.two_stage.heuristic import TwoStageParameters, prepare_kernels
from formulations.step.problem import geometric_weights


@dataclass(frozen=True)
class BRHOptions(ScoreOptions):
    """Options of `br-h`; penalty and discount are those of the simulator released with BF-IO."""

    beta: Fraction = option(Fraction(43), EXACT, "B", "overflow penalty (43)")
    gamma: Fraction = option(
        Fraction(43, 50), DISCOUNT, "C", "discount per look-ahead step (0.86)"
    )
    horizon: int = option(20, HORIZON, "H", "look-ahead steps (20)")


class BRH:
    """BalanceRoute with look-ahead ``H`` and discount ``γ`` (BalanceRoute, section 4).

    Weights are ``round(γ^h·10^6)``. A state with fewer than ``H + 1`` columns shortens the window.
    To the score ``benefit`` times the prompt tokens is added that are cached where requests are
    placed.

    Attributes
    ----------
    horizon : int
        ``H``.
    weights : tuple of int
        Discount weight of each look-ahead step.
    parameters : TwoStageParameters
        Threshold, candidates, factors, priority; with immediate dispatch the factors count alone.
    max_wait : int or None
        Steps after which a waiting request starts before others.
    margin : int
        In-flight margin of immediate dispatch unless the run has one.
    """

    margin = MARGIN

    def __init__(self, options: BRHOptions) -> None:
        self.horizon = options.horizon
        self.weights, self._scale = geometric_weights(options.gamma, self.horizon + 1)
        self._benefit = options.benefit
        self.parameters = TwoStageParameters(
            threshold=options.threshold,
            candidates=options.candidates,
            alpha=options.alpha,
            beta=options.beta,
            key=options.key,
        )
        self.max_wait = options.max_wait
        prepare_kernels()

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign by the loads projected over the window."""
        worth = cache_worth(state, self._benefit)
        scaled = None if worth is None else worth * self._scale
        if state.binds:
            return bound_by_score(state, self.weights, self.parameters, scaled)
        required = overdue(state, self.max_wait)
        return two_stage_of(state, self.weights, self.parameters, required, scaled)


SPEC = PolicySpec(
    name="br-h",
    factory=BRH,
    options=BRHOptions(),
    summary="two-stage F-score heuristic with look-ahead (--horizon, 20 by default)",
    source="BalanceRoute, section 4",
    dispatch=BOTH_DISPATCHES,
    kernel="bfio.decode.machine.two_stage:KERNEL",
)
