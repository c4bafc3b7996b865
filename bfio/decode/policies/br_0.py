"""BR-0: the two-stage heuristic without look-ahead."""

from dataclasses import dataclass
from fractions import Fraction

from bfio.common.options import option
from bfio.decode.option_kinds import EXACT
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


@dataclass(frozen=True)
class BR0Options(ScoreOptions):
    """Options of `br-0`."""

    beta: Fraction | None = option(None, EXACT, "B", "overflow penalty (the number of workers)")


class BR0:
    """BalanceRoute without prediction (BalanceRoute, section 3): BR-H at H = 0, α = 1, β = G.

    The score is then minus the change of this step's imbalance, plus ``benefit`` times the prompt
    tokens that are cached where requests are placed.

    Attributes
    ----------
    weights : tuple of int
        Weight of the step at hand, the only one.
    parameters : TwoStageParameters
        Threshold, candidates, factors, priority; with immediate dispatch the factors count alone.
    max_wait : int or None
        Steps after which a waiting request starts before others.
    margin : int
        In-flight margin of immediate dispatch unless the run has one.
    """

    margin = MARGIN

    def __init__(self, options: BR0Options) -> None:
        self.weights = (1,)
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
        """Assign by the loads of this step alone."""
        worth = cache_worth(state, self._benefit)
        if state.binds:
            return bound_by_score(state, self.weights, self.parameters, worth)
        required = overdue(state, self.max_wait)
        return two_stage_of(state, self.weights, self.parameters, required, worth)


SPEC = PolicySpec(
    name="br-0",
    factory=BR0,
    options=BR0Options(),
    summary="two-stage F-score heuristic without look-ahead",
    source="BalanceRoute, section 3",
    dispatch=BOTH_DISPATCHES,
    kernel="bfio.decode.machine.two_stage:KERNEL",
)
