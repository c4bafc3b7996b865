"""From a policy's name and options to a kernel and the arrays it works on."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np

from bfio.common.kernel_groups import ensure_compiled
from bfio.decode.cluster import Cluster
from bfio.decode.compiled.baselines import OLDEST, ORDER_AND_RULE
from bfio.decode.compiled.records import Chunks
from bfio.decode.compiled.scope import TWO_STAGE
from bfio.decode.compiled.setup import new_state, settings_of
from bfio.decode.compiled.state import Record, State
from bfio.decode.compiled.window import Window
from bfio.decode.options import Arrivals, Projection, RunOptions
from bfio.decode.policies.br_0 import BR0
from bfio.decode.policies.br_h import BRH
from bfio.decode.policy_options import PolicyOptions
from bfio.step.two_stage.fscore import ScoreWeights
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray

#: One kernel call: run steps until the record is full; return how many, or -1 to give up.
Advance: TypeAlias = Callable[[Record], int]

#: Factors of the score from here on leave 64-bit integers at once.
LARGEST_FACTOR = 2**61
#: Most entries of the contributions of all requests that may wait (1 GiB).
MAX_CONTRIBUTIONS = 2**27


class Plan(NamedTuple):
    """A run about to begin.

    Parameters
    ----------
    state : State
        Its arrays.
    advance : callable
        What brings it forward by a chunk of steps.
    """

    state: State
    advance: Advance


def plan_run(
    workload: Workload,
    name: str,
    policy_options: PolicyOptions,
    cluster: Cluster,
    options: RunOptions,
    arrival_s: FloatArray | None,
) -> Plan | None:
    """Return the plan of a run, or None if its numbers are too large for the kernels.

    Parameters
    ----------
    workload, name, policy_options, cluster
        What is simulated; see `bfio.decode.compiled.engine.run_compiled`.
    options : RunOptions
        How, checked.
    arrival_s : FloatArray or None
        Shape (n,): arrival times [s], with timed arrivals.
    """
    if name not in TWO_STAGE:
        return _baseline_plan(workload, name, policy_options, cluster, options, arrival_s)
    policy = BR0(policy_options) if name == "br-0" else BRH(policy_options)
    return _two_stage_plan(workload, policy, cluster, options, arrival_s)


def _baseline_plan(
    workload: Workload,
    name: str,
    policy_options: PolicyOptions,
    cluster: Cluster,
    options: RunOptions,
    arrival_s: FloatArray | None,
) -> Plan:
    from bfio.decode.compiled.baseline_run import run_baseline

    order, rule = ORDER_AND_RULE[name]
    settings = settings_of(
        cluster, options, order, rule, policy_options.choices, policy_options.cap_threshold or 0
    )
    sorts = order != OLDEST
    state = new_state(workload, cluster, options, settings, arrival_s, sorts=sorts)
    return Plan(state, lambda record: run_baseline(state, record))


def _two_stage_plan(
    workload: Workload,
    policy: BR0 | BRH,
    cluster: Cluster,
    options: RunOptions,
    arrival_s: FloatArray | None,
) -> Plan | None:
    from bfio.decode.compiled.two_stage_run import run_two_stage

    window = _window(workload, policy, cluster, options)
    if window is None:
        return None
    settings = settings_of(cluster, options, order=OLDEST, rule=0, choices=0, cap=0)
    state = new_state(workload, cluster, options, settings, arrival_s)
    return Plan(state, lambda record: run_two_stage(state, window, record))


def _window(
    workload: Workload, policy: BR0 | BRH, cluster: Cluster, options: RunOptions
) -> Window | None:
    n = len(workload)
    most_waiting = n if options.arrivals is Arrivals.TIMED else min(n, options.pool)
    G, columns = cluster.workers, len(policy.weights)
    beta = policy.parameters.beta
    score = ScoreWeights.of(
        policy.parameters.alpha, Fraction(G) if beta is None else beta, policy.weights
    )
    too_large = max(*score.reward, *score.penalty) >= LARGEST_FACTOR
    if too_large or most_waiting * columns > MAX_CONTRIBUTIONS:
        return None
    return Window(
        options=_window_options(policy, options),
        reward=np.array(score.reward, dtype=np.int64),
        penalty=np.array(score.penalty, dtype=np.int64),
        growth=np.zeros(columns, dtype=np.int64),
        base=np.zeros((G, columns), dtype=np.int64),
        contribution=np.empty((most_waiting, columns), dtype=np.int64),
        by_size=np.empty(most_waiting, dtype=np.int64),
        assignment=np.empty(most_waiting, dtype=np.int64),
        ending_load=np.zeros((G, columns - 1), dtype=np.int64),
        ending_count=np.zeros((G, columns - 1), dtype=np.int64),
    )


def _window_options(policy: BR0 | BRH, options: RunOptions) -> IntArray:
    parameters = policy.parameters
    return np.array(
        [
            options.projection is Projection.GROWING,
            options.predictor == "oracle",
            parameters.threshold,
            parameters.candidates or 0,
            parameters.key == "product",
        ],
        dtype=np.int64,
    )


def compile_kernel(name: str) -> None:
    """Compile the kernel of a policy, or load it from the cache on disk."""
    if name in TWO_STAGE:
        ensure_compiled("two-stage")
        warm_up_two_stage()
    else:
        ensure_compiled("baselines")
        warm_up_baselines()


@cache
def warm_up_baselines() -> None:
    """Compile or load the kernel of the baselines, in this process."""
    _run_nothing("fcfs")


@cache
def warm_up_two_stage() -> None:
    """Compile or load the kernels of the two-stage heuristic, in this process."""
    from bfio.step.two_stage.kernels.decide import warm_up

    warm_up()
    _run_nothing(TWO_STAGE[0])


def _run_nothing(name: str) -> None:
    """Run a kernel on no requests, which compiles it."""
    none = np.zeros(0, dtype=np.int64)
    machine = Cluster(1, 1)
    plan = plan_run(Workload(none, none), name, PolicyOptions(), machine, RunOptions(), None)
    if plan is not None:
        plan.advance(Chunks(1, keep_trajectory=True).new(1))
