"""The policies BR-0 and BR-H: the two-stage heuristic on the state of a step (BalanceRoute).

The policies `adaptive` and `bf-io` also use functions of this module.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bfio.common.options import EXACT, CheckedOptions, option, whole
from bfio.decode.option_kinds import DISCOUNT, SMALL_RATIO, STAGE_2_KEY, look_ahead_option
from bfio.decode.policy import MARGIN, LooksAhead
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally
from bfio.step.two_stage.fscore import ScoreWeights, score
from bfio.step.two_stage.heuristic import TwoStageParameters, prepare_kernels, two_stage
from bfio.step.two_stage.limits import Limits
from formulations.arrays import BoolArray, IntArray
from formulations.errors import InputError
from formulations.step.problem import geometric_weights

#: Condition of options for choosing among requests; immediate dispatch binds them one by one.
POOLED = "dispatch=pooled"
#: Two options shared with `bf-io`, as arguments of `bfio.common.options.option`.
BENEFIT = (
    Fraction(0),
    SMALL_RATIO,
    "MU",
    "value of a cached prompt token, in imbalance tokens (0)",
)
MAX_WAIT = (None, whole(), "W", "start requests first that have waited W steps (never)")
#: Largest benefit of a placement [tokens], so that its millionths fit 64-bit integers.
MAX_WORTH = 2**42


@dataclass(frozen=True)
class StageOptions(CheckedOptions):
    """Options that control how the two-stage heuristic selects requests.

    If at most ``threshold`` slots are free in total, the heuristic selects subsets of requests
    (stage 2) from at most ``candidates`` requests. The default is 64 if all waiting requests have
    the same growth (reachable sums), else 12 (enumeration; at most 16). The ``key`` that orders
    workers in stage 2 is lexicographic (free slots, then margin) or a product.
    """

    threshold: int = option(7, whole(), "N", "θ, most free slots for stage 2 (7)", beside=POOLED)
    candidates: int | None = option(
        None, whole(1), "K", "requests per subset choice (64)", beside=POOLED
    )
    key: str = option(
        "lexicographic", STAGE_2_KEY, "K", "stage 2 order: lexicographic, product", beside=POOLED
    )

    def parameters(
        self, alpha: Fraction = Fraction(1), beta: Fraction | None = None
    ) -> TwoStageParameters:
        """Return the parameters of the heuristic, with the factors of its score."""
        return TwoStageParameters(self.threshold, self.candidates, alpha, beta, self.key)


@dataclass(frozen=True)
class ScoreOptions(StageOptions):
    """Options of the two-stage heuristic that apply with and without look-ahead."""

    max_wait: int | None = option(*MAX_WAIT, beside=POOLED)
    alpha: Fraction = option(Fraction(1), EXACT, "A", "reward scale (1)")
    benefit: Fraction = option(*BENEFIT, beside="prefix_cache")


def two_stage_of(
    state: DecodeState,
    weights: Sequence[int],
    parameters: TwoStageParameters,
    required: BoolArray | None = None,
    worth: IntArray | None = None,
) -> list[int | None]:
    """Assign waiting requests by the two-stage heuristic, within memory and worker speeds.

    If the state has fewer columns than ``weights``, the window is shortened. ``required``, shape
    (N,), marks requests that start before all others (`overdue`). ``worth``, shape (N, G), is the
    benefit of each placement, on the scale of the weights.
    """
    columns = min(len(weights), state.projected_loads.shape[1])
    return two_stage(
        state.free_slots,
        state.window_loads(columns),
        state.contributions[:, :columns],
        weights[:columns],
        parameters,
        _limits(state, columns, required, worth),
    )


def bound_by_score(
    state: DecodeState,
    weights: Sequence[int],
    parameters: TwoStageParameters,
    worth: IntArray | None = None,
) -> list[int | None]:
    """Bind one request that has just arrived, with immediate dispatch (BalanceRoute, D.6).

    The request goes to the worker of highest F-score against virtual loads, which are the
    projected loads plus the requests bound to each worker. If no worker would exceed the maximum
    load, all scores are equal. Ties go to the worker that accepts most further requests, then to
    the worker of largest least margin (the keys of stage 2), then to the lowest index. Only the
    factors of ``parameters`` are used.
    """
    columns = min(len(weights), state.projected_loads.shape[1])
    G = state.num_workers
    beta = Fraction(G) if parameters.beta is None else parameters.beta
    has_worth = worth is not None
    factors = ScoreWeights.of(parameters.alpha, beta, weights[:columns], has_benefit=has_worth)
    extra = [0] * G if worth is None else worth[0].tolist()
    time = [1] * G if state.token_time is None else state.token_time.tolist()
    rows = enumerate(state.window_loads(columns).tolist())
    loads = [[load * time[g] for load in row] for g, row in rows]
    envelope = [max(column) for column in zip(*loads, strict=True)]
    contribution = state.contributions[0, :columns].tolist()

    def rank(worker: int) -> tuple[int, int, int, int]:
        margins = [most - load for most, load in zip(envelope, loads[worker], strict=True)]
        added = [amount * time[worker] for amount in contribution]
        left = int(state.free_slots[worker])
        value = score(added, margins, factors) + extra[worker] * factors.benefit
        return value, left, min(margins), -worker

    workers = StepTally(state).open_workers(0)
    return [max(workers, key=rank, default=None)]


def overdue(state: DecodeState, max_wait: int | None) -> BoolArray | None:
    """Return which requests must start now to prevent starvation, shape (N,); None for none.

    A request must start after ``max_wait`` steps of waiting. If more such requests wait than can
    start, only the oldest are marked.
    """
    if max_wait is None:
        return None
    late = np.flatnonzero(state.ages >= max_wait)[: state.num_admissible]
    if len(late) == 0:
        return None
    required = np.zeros(state.num_waiting, dtype=np.bool_)
    required[late] = True
    return required


def cache_worth(state: DecodeState, benefit: Fraction) -> IntArray | None:
    """Return ``μ`` times the cached tokens of each placement, shape (N, G); None if μ = 0.

    The product is rounded down to whole tokens, and is in units of the objective: with unequal
    workers times the least time per token. Raises InputError if scores would exceed 64-bit
    integers.
    """
    if benefit == 0:
        return None
    worth: IntArray = state.cached_tokens * benefit.numerator // benefit.denominator
    if state.token_time is not None:
        worth = worth * state.token_time.min()
    if int(worth.max(initial=0)) > MAX_WORTH:
        what = f"{float(benefit):g} makes a placement worth more than {MAX_WORTH} tokens"
        raise InputError("benefit", what, "use a smaller benefit")
    return worth


def _limits(
    state: DecodeState, columns: int, required: BoolArray | None, worth: IntArray | None
) -> Limits | None:
    capacity, time = state.token_capacity(columns), state.token_time
    if all(given is None for given in (capacity, time, required, worth)):
        return None
    if required is None:
        required = np.zeros(state.num_waiting, dtype=np.bool_)
    if time is None:
        time = np.ones(state.num_workers, dtype=np.int64)
    return Limits(
        time=time,
        most_time=None if capacity is None else capacity * time,
        required=required,
        num_slots=int(state.free_slots.sum()),
        benefit=worth,
    )


@dataclass(frozen=True)
class BR0Options(ScoreOptions):
    """Options of `br-0`."""

    beta: Fraction | None = option(None, EXACT, "B", "overflow penalty (the number of workers)")


@dataclass(frozen=True)
class BRHOptions(ScoreOptions):
    """Options of `br-h`; default penalty and discount are those of BF-IO's released simulator."""

    beta: Fraction = option(Fraction(43), EXACT, "B", "overflow penalty (43)")
    gamma: Fraction = option(
        Fraction(43, 50), DISCOUNT, "C", "discount per look-ahead step (0.86)"
    )
    look_ahead: int = look_ahead_option(20, "look-ahead steps (20)")


class BalanceRoute(LooksAhead):
    """BalanceRoute with look-ahead ``H`` and discount ``γ``; BR-0 is BR-H at H = 0, α = 1, β = G.

    The weight of step h is ``round(γ^h·10^6)``. If a state has fewer than ``H + 1`` columns, the
    window is shortened. ``benefit`` times the prompt tokens cached on the chosen worker is added
    to the score.

    Attributes
    ----------
    weights : tuple of int
        Discount weight of each look-ahead step.
    parameters : TwoStageParameters
        Threshold, candidates, score factors, and key; with immediate dispatch only the factors are
        used.
    max_wait : int or None
        Steps after which a waiting request takes precedence.
    """

    margin = MARGIN

    def __init__(self, options: BR0Options | BRHOptions) -> None:
        self.look_ahead, gamma = 0, Fraction(1)
        if isinstance(options, BRHOptions):
            self.look_ahead, gamma = options.look_ahead, options.gamma
        self.weights, self._scale = geometric_weights(gamma, self.look_ahead + 1)
        self._benefit, self.max_wait = options.benefit, options.max_wait
        self.parameters = options.parameters(options.alpha, options.beta)
        prepare_kernels()

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign waiting requests by the loads projected over the window."""
        worth = cache_worth(state, self._benefit)
        scaled = None if worth is None else worth * self._scale
        if state.binds:
            return bound_by_score(state, self.weights, self.parameters, scaled)
        required = overdue(state, self.max_wait)
        return two_stage_of(state, self.weights, self.parameters, required, scaled)


SPECS = (
    PolicySpec(
        name="br-0",
        factory=BalanceRoute,
        options=BR0Options(),
        summary="two-stage F-score heuristic without look-ahead",
        source="BalanceRoute, section 3",
        kernel="bfio.decode.machine.two_stage:KERNEL",
    ),
    PolicySpec(
        name="br-h",
        factory=BalanceRoute,
        options=BRHOptions(),
        summary="two-stage F-score heuristic with look-ahead H",
        source="BalanceRoute, section 4",
        kernel="bfio.decode.machine.two_stage:KERNEL",
    ),
)
