"""Offered load of timed requests, as a share of the capacity of a machine.

With all slots full and the load spread so that all workers end a step together, a step takes

    T = max(max_g C_g, (L + Σ_g C_g/t_g) / Σ_g 1/t_g) + t_m·L/G,   L = S·w,

for S slots and the mean load w of an active request over its lifetime, and emits S tokens. No
schedule of the same requests emits more tokens per second in the long run, so S/T is the capacity.
With limited memory, S is at most Σ_g κ_g / w. The offered load is ρ = (requested tokens per
second)/capacity. Constant ρ for a growing cluster is BalanceRoute's constant load per worker (its
Table 2).
"""

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from bfio.decode.drift import Drift
from formulations.errors import InputError

if TYPE_CHECKING:
    from bfio.decode.cluster import Cluster
    from bfio.decode.options import RunOptions
    from bfio.workloads.workload import Workload

#: Significant digits of the rate factor, so that the run can use it as an exact fraction.
_DIGITS = 9


def capacity_tokens_per_s(workload: "Workload", cluster: "Cluster", drift: Drift) -> float:
    """Return the long-run capacity of a machine for these requests [tokens/s].

    Drift by global step is treated like drift by age. Raises InputError if a step takes no time.
    """
    slots, step_s = _when_full(workload, cluster, drift)
    if not step_s > 0:
        raise InputError(
            "load", "a step takes no time", "give step_overhead_s=SECONDS or token_time_s=SECONDS"
        )
    return slots / step_s


def full_step_s(workload: "Workload", cluster: "Cluster", drift: Drift) -> float:
    """Return T, the duration of a step with all slots full and balanced load [s]."""
    return _when_full(workload, cluster, drift)[1]


def _when_full(workload: "Workload", cluster: "Cluster", drift: Drift) -> tuple[float, float]:
    """Return the slots S and the step duration T of the module docstring."""
    load = mean_active_load(workload, drift)
    slots = float(cluster.total_slots)
    if cluster.memory is not None:
        slots = min(slots, float(cluster.worker_memory().sum()) / load)
    total, (overhead, token_time) = slots * load, cluster.worker_times()
    step_s = float(overhead.max())
    if (token_time > 0).all():
        paces = 1.0 / token_time
        step_s = max(step_s, float((total + overhead @ paces) / paces.sum()))
    return slots, step_s + cluster.mean_time_s * total / cluster.workers


def mean_active_load(workload: "Workload", drift: Drift) -> float:
    """Return the mean load of an active request over the steps of its lifetime [tokens]."""
    outputs, prompts = workload.output_tokens, workload.prompt_tokens
    steps = outputs.astype(np.float64)
    if drift.is_uniform:
        grown = drift.increments[0] * steps * (steps - 1) / 2
    else:
        gained = drift.cumulative(np.arange(int(outputs.max()), dtype=np.int64))
        grown = np.concatenate(([0.0], np.cumsum(gained, dtype=np.float64)))[outputs]
    return float((prompts * steps + grown).sum() / steps.sum())


def rate_factor(workload: "Workload", cluster: "Cluster", options: "RunOptions") -> Fraction:
    """Return the factor by which a run multiplies the rate of timed arrivals.

    If ``options.load`` is set, the factor gives this offered load. Raises InputError if all
    requests arrive at the same time.
    """
    if options.load is None:
        return options.rate_scale
    times = workload.exact_arrivals()
    if len(times) < 2 or times[0] == times[-1]:
        remedy = "give requests with different arrival times, or rate_scale=FACTOR"
        raise InputError("load", "all requests arrive at the same time", remedy)
    # The n-th arrival ends the n-1 gaps that the rate is counted over.
    asked = workload.total_output_tokens * (1 - 1 / len(times)) / float(times[-1] - times[0])
    wanted = float(options.load) * capacity_tokens_per_s(workload, cluster, options.drift)
    return Fraction(f"{wanted / asked:.{_DIGITS}g}")
