"""Rows that time the stages of a decision of BR-H separately (BalanceRoute, figure 5).

The heuristic has no clock. Each decision of a run is repeated in three ways: with no slot to fill,
for the cost of every call (arrays, order by size); with the slots that stage 1 fills, all filled
by stage 1; and with all slots. The differences are the times of the stages.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.decision_times import TimedPolicy, time_decisions
from bfio.decode.cluster import Cluster
from bfio.decode.policies.balance_route import BalanceRoute, BRHOptions
from bfio.decode.state import DecodeState
from bfio.step.two_stage.heuristic import TwoStageParameters, two_stage
from bfio.step.two_stage.limits import Limits
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments

ARGUMENTS = (
    "workers", "slots", "horizon", "pool_per_worker", "output_mean", "decisions", "seed",
)  # fmt: skip
#: The timed parts, in order.
PARTS = ("call", "stage_1", "stage_2")
#: Calls of each kind. The least time of several is little affected by interruptions.
_REPEATS = 5


class StagedPolicy:
    """BR-H policy that times each stage of each decision.

    Parameters
    ----------
    look_ahead : int
        ``H``.
    """

    def __init__(self, look_ahead: int) -> None:
        self._policy = BalanceRoute(BRHOptions(look_ahead=look_ahead))
        self.horizon = look_ahead
        #: For each decision, the times of `PARTS` [s].
        self.parts: list[tuple[float, float, float]] = []

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Return the decision of BR-H, and time its stages."""
        chosen = self._policy.parameters
        first = stage_1_slots(state, chosen.threshold)
        call = self._seconds(state, replace(chosen, threshold=0), 0)
        # If stage 1 has no slot, another call would only measure noise.
        until_1 = self._seconds(state, replace(chosen, threshold=0), first) if first else call
        until_2 = self._seconds(state, chosen, int(state.free_slots.sum()))
        self.parts.append((call, until_1 - call, until_2 - until_1))
        return self._policy(state)

    def _seconds(self, state: DecodeState, parameters: TwoStageParameters, slots: int) -> float:
        """Return the least processor time [s] of several calls of the heuristic."""
        limits = Limits.none(len(state.free_slots), state.num_waiting, slots)
        seconds = []
        for _ in range(_REPEATS):
            began = time.thread_time()
            two_stage(
                state.free_slots, state.projected_loads, state.contributions,
                self._policy.weights, parameters, limits,
            )  # fmt: skip
            seconds.append(time.thread_time() - began)
        return min(seconds)


def stage_1_slots(state: DecodeState, threshold: int) -> int:
    """Return the number of requests that stage 1 admits, until ``θ`` slots are free."""
    return min(state.num_waiting, max(0, int(state.free_slots.sum()) - threshold))


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Check the arguments of a row; requests are drawn from its seed."""
    given = Arguments(arguments, ARGUMENTS)
    return Planned("", lambda: measure(given))


def measure(given: Arguments) -> RowResult:
    """Time the stages of the decisions of one run, after a warm-up run that loads the kernels."""
    cluster = Cluster(given.whole("workers", 8), given.whole("slots", 72))
    look_ahead, decisions = given.whole("horizon", 20), given.whole("decisions", 300)
    mean, seed = given.whole("output_mean", 300), given.whole("seed", 0)
    pool = cluster.workers * given.whole("pool_per_worker", 16)
    _stages(look_ahead, Cluster(2, 4), 8, mean=12, decisions=5, seed=0)
    timed, parts = _stages(look_ahead, cluster, pool, mean=mean, decisions=decisions, seed=seed)
    medians, means = 1e6 * np.median(parts, axis=0), 1e6 * parts.mean(axis=0)
    timings = {f"{name}_median_us": float(x) for name, x in zip(PARTS, medians, strict=True)}
    timings |= {f"{name}_mean_us": float(x) for name, x in zip(PARTS, means, strict=True)}
    return RowResult(
        values={"decisions": len(parts), "admitted_mean": timed.admitted / len(timed.seconds)},
        timings=timings | {"stage_2_share": float(means[2] / means.sum())},
    )


def _stages(
    look_ahead: int, cluster: Cluster, pool: int, *, mean: int, decisions: int, seed: int
) -> tuple[TimedPolicy, Any]:
    """Return the timed policy, and the times of its full steps, shape (decisions, 3) [s]."""
    staged = StagedPolicy(look_ahead)
    timed = time_decisions(
        staged, cluster, pool, mean, decisions, seed, predictor="oracle", projection="growing"
    )
    return timed, np.array(staged.parts[-len(timed.seconds) :])


KIND = planned_kind(
    "dispatch-stages",
    "time of the stages of decisions of BR-H",
    plan,
    descriptions("""
        decisions | | number of timed decisions, from the first full step on
        admitted_mean | requests | requests admitted by a decision
        call_median_us | µs | median of what every call costs: arrays, order by size
        stage_1_median_us | µs | median of stage 1
        stage_2_median_us | µs | median of stage 2
        call_mean_us | µs | mean of what every call costs
        stage_1_mean_us | µs | mean of stage 1
        stage_2_mean_us | µs | mean of stage 2
        stage_2_share | share | share of stage 2 in the sum of means
    """),
)
