"""BR-H: the two-stage heuristic with a short look-ahead."""

from fractions import Fraction

from bfio.decode.policy import MARGIN
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.score_choice import (
    POOLED_OPTIONS,
    SCORE_OPTIONS,
    bound_by_score,
    cache_worth,
    overdue,
    two_stage_of,
)
from bfio.decode.state import DecodeState
from bfio.step.two_stage.heuristic import TwoStageParameters, prepare_kernels
from formulations.step.problem import geometric_weights

DEFAULT_HORIZON = 20
#: Values of the simulator released with BF-IO.
DEFAULT_BETA = Fraction(43)
DEFAULT_GAMMA = Fraction(43, 50)


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

    def __init__(self, options: PolicyOptions) -> None:
        self.horizon = DEFAULT_HORIZON if options.horizon is None else options.horizon
        gamma = DEFAULT_GAMMA if options.gamma is None else options.gamma
        self.weights, self._scale = geometric_weights(gamma, self.horizon + 1)
        self._benefit = options.benefit
        self.parameters = TwoStageParameters(
            threshold=options.threshold,
            candidates=options.candidates,
            alpha=options.alpha,
            beta=DEFAULT_BETA if options.beta is None else options.beta,
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
    summary="two-stage F-score heuristic with look-ahead (--horizon, 20 by default)",
    source="BalanceRoute, section 4",
    uses_horizon=True,
    default_horizon=DEFAULT_HORIZON,
    defaults={"beta": DEFAULT_BETA, "gamma": DEFAULT_GAMMA},
    reads=lambda options: (*SCORE_OPTIONS, "gamma", "horizon"),
    pooled_reads=POOLED_OPTIONS,
    dispatch=BOTH_DISPATCHES,
    kernel="bfio.decode.machine.two_stage:KERNEL",
    needs_caches=lambda options: options.benefit > 0,
)
