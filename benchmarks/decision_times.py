"""Rows that time single decisions of a policy, from the first step with a full cluster on."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.requests import SYNTHETIC, draw
from bfio.common.clock import timed
from bfio.decode.cluster import Cluster
from bfio.decode.observers import StepView
from bfio.decode.policy import LooksAhead, Policy, look_ahead_of, policy_name
from bfio.decode.policy_registry import choose
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments
from formulations.errors import InputError

ARGUMENTS = (
    "policy", "workers", "slots", "pool_at_least", "output_mean", "decisions", "predictor", "seed",
)  # fmt: skip
#: Minimum number of requests in the pool per worker, as in the published BF-IO simulator.
_POOL_PER_WORKER = 4


class TimedPolicy(LooksAhead):
    """Policy wrapper that times decisions; as an observer it detects the first full cluster.

    It uses the processor time of its thread: decisions have one thread, and other load has no
    effect.

    Parameters
    ----------
    policy : Policy
        The policy to time.
    total_slots : int
        ``G·B``.
    decisions : int
        Number of decisions to time.
    """

    def __init__(self, policy: Policy, total_slots: int, decisions: int) -> None:
        self.look_ahead = look_ahead_of(policy)
        self.seconds: list[float] = []
        self.admitted = 0
        self._policy, self._total_slots, self._decisions = policy, total_slots, decisions
        self._is_full = False

    @property
    def is_done(self) -> bool:
        """Whether enough decisions have been timed."""
        return len(self.seconds) >= self._decisions

    def __call__(self, state: DecodeState) -> Sequence[int | None]:
        """Return the wrapped policy's decision; time it once the cluster has been full."""
        answer, seconds = timed(lambda: self._policy(state), time.thread_time)
        if self._is_full:
            self.seconds.append(seconds)
            self.admitted += sum(worker is not None for worker in answer)
        return answer

    def on_step(self, view: StepView) -> None:
        """Detect the first full step."""
        self._is_full = self._is_full or int(view.running.sum()) == self._total_slots


def time_decisions(
    policy: str | Policy,
    cluster: Cluster,
    pool: int,
    output_mean: int,
    decisions: int,
    seed: int,
    predictor: str = "none",
    projection: str = "constant",
) -> TimedPolicy:
    """Run a policy on synthetic requests until the given number of decisions is timed.

    Raises
    ------
    InputError
        If the run ends earlier.
    """
    made = choose(policy).make()
    asked = TimedPolicy(made, cluster.total_slots, decisions)
    # A slot frees once per mean output length: requests for filling, the decisions and the pool.
    served = cluster.total_slots * (2 + 2 * decisions // output_mean)
    simulate(
        draw(SYNTHETIC, served + 4 * pool, output_mean, seed, Path()),
        asked,
        cluster,
        pool=pool,
        predictor=predictor,
        projection=projection,
        seed=seed,
        observers=[asked],
        keep_trajectory=False,
        stop=lambda: asked.is_done,
    )
    if not asked.is_done:
        what = f"the run ended after {len(asked.seconds)} of {decisions} decisions"
        raise InputError(policy_name(made), what, "lower decisions or raise pool")
    return asked


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Check the arguments of a row; requests are drawn from its seed."""
    given = Arguments(arguments, ARGUMENTS)
    choose(given.text("policy", "br-0"))
    return Planned("", lambda: measure(given))


def measure(given: Arguments) -> RowResult:
    """Time the decisions of one policy, after a small warm-up run that loads the kernels."""
    policy = given.text("policy", "br-0")
    cluster = Cluster(given.whole("workers", 16), given.whole("slots", 72))
    pool = max(given.whole("pool_at_least", 128), _POOL_PER_WORKER * cluster.workers)
    mean, decisions = given.whole("output_mean", 300), given.whole("decisions", 300)
    predictor = given.text("predictor", "none")
    time_decisions(policy, Cluster(2, 4), 8, output_mean=12, decisions=5, seed=0)
    seed = given.whole("seed", 0)
    asked = time_decisions(policy, cluster, pool, mean, decisions, seed, predictor)
    seconds = np.array(asked.seconds)
    return RowResult(
        values={
            "pool": pool,
            "decisions": len(seconds),
            "admitted_mean": asked.admitted / len(seconds),
        },
        timings={
            "decision_median_s": float(np.median(seconds)),
            "decision_p99_s": float(np.percentile(seconds, 99, method="higher")),
            "decision_max_s": float(seconds.max()),
        },
    )


KIND = planned_kind(
    "decision-times",
    "time of single decisions of a policy",
    plan,
    descriptions("""
        pool | requests | waiting requests that the policy sees
        decisions | | number of timed decisions, from the first full step on
        admitted_mean | requests | requests admitted by a decision
        decision_median_s | s | median time of a decision
        decision_p99_s | s | 99th percentile, as a time that was observed
        decision_max_s | s | longest decision
    """),
)
