"""Time every decision of a policy in a run, from the first full step on."""

import time
from collections.abc import Sequence
from typing import Any

from benchmarks.case import DEFAULT_DATA
from benchmarks.summary import median, p99
from benchmarks.workloads import SYNTHETIC, draw
from bfio.decode import policy_registry as registry
from bfio.decode.cluster import Cluster
from bfio.decode.observers import StepView
from bfio.decode.policy import Policy
from bfio.decode.simulation import simulate
from bfio.decode.state import DecodeState
from formulations.errors import InputError


class TimedPolicy:
    """A policy that times itself; as an observer it learns when the cluster is first full.

    Parameters
    ----------
    policy : Policy
        Decides.
    total_slots : int
        ``G·B``.
    decisions : int
        Decisions to time.
    """

    def __init__(self, policy: Policy, total_slots: int, decisions: int) -> None:
        self.horizon: int = getattr(policy, "horizon", 0)
        self.seconds: list[float] = []
        self.admitted = 0
        self._policy, self._total_slots, self._decisions = policy, total_slots, decisions
        self._is_full = False

    @property
    def is_done(self) -> bool:
        """Whether enough decisions are timed."""
        return len(self.seconds) >= self._decisions

    def __call__(self, state: DecodeState) -> Sequence[int | None]:
        """Decide, and keep the time if the cluster has been full."""
        began = time.perf_counter()
        answer = self._policy(state)
        seconds = time.perf_counter() - began
        if self._is_full:
            self.seconds.append(seconds)
            self.admitted += sum(worker is not None for worker in answer)
        return answer

    def on_step(self, view: StepView) -> None:
        """Notice the first full step."""
        self._is_full = self._is_full or int(view.running.sum()) == self._total_slots


def time_decisions(
    policy: str, cluster: Cluster, pool: int, output_mean: int, decisions: int, seed: int
) -> dict[str, Any]:
    """Run a policy on synthetic requests until so many decisions are timed.

    Returns
    -------
    dict
        Median, p99 and maximum time of a decision [s], and the mean number admitted.

    Raises
    ------
    InputError
        If the run ends before.
    """
    timed = TimedPolicy(registry.build(policy), cluster.total_slots, decisions)
    # A slot frees once in a mean output length: requests for the fill, the decisions and the pool.
    served = cluster.total_slots * (2 + 2 * decisions // output_mean)
    simulate(
        draw(SYNTHETIC, served + 4 * pool, output_mean, seed, DEFAULT_DATA),
        timed,
        cluster,
        pool=pool,
        seed=seed,
        observers=[timed],
        keep_trajectory=False,
        stop=lambda: timed.is_done,
    )
    if not timed.is_done:
        raise InputError(policy, f"only {len(timed.seconds)} decisions", "ask for fewer")
    return {
        "decisions": len(timed.seconds),
        "median_s": median(timed.seconds),
        "p99_s": p99(timed.seconds),
        "max_s": max(timed.seconds),
        "admitted_mean": timed.admitted / len(timed.seconds),
    }
