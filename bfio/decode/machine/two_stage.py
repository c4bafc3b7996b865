"""The two-stage heuristic as a kernel; the policies that use it load this with their first run."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.machine.kernel import Kernel, KernelTask
from bfio.decode.machine.phases import admit_assigned
from bfio.decode.machine.size_order import SizeOrder, new_order, put_in_order
from bfio.decode.machine.state import ACTIVE, WAITING, State
from bfio.decode.machine.window import (
    Window,
    grow_alike,
    growth_of_waiting,
    project,
    project_running,
    waiting_requests,
)
from bfio.decode.options import ArrivalMode
from bfio.step.two_stage.fscore import ScoreWeights
from bfio.step.two_stage.kernels.two_stage import DECIDED, two_stage_decide
from formulations.arrays import IntArray

#: Factors of the score from here on leave 64-bit integers at once.
LARGEST_FACTOR = 2**61
#: Most entries of the contributions of all requests that may wait (1 GiB).
MAX_CONTRIBUTIONS = 2**27


class TwoStage(NamedTuple):
    """How a two-stage policy weighs what it sees.

    Parameters
    ----------
    threshold, candidates, product_key : int
        See `bfio.step.two_stage.kernels.two_stage.two_stage_decide`.
    reward, penalty : IntArray
        Shape (H+1,): factors of the score, see `bfio.step.two_stage.fscore.ScoreWeights`.
    order : SizeOrder
        Those that wait, by size.
    by_size, assignment : IntArray
        Shape (most waiting,): the waiting requests, largest first; the worker of each, -1 for
        none.
    """

    threshold: int
    candidates: int
    product_key: int
    reward: IntArray
    penalty: IntArray
    order: SizeOrder
    by_size: IntArray
    assignment: IntArray


def memory(task: KernelTask) -> TwoStage | None:
    """Return what the kernel keeps, or None if the numbers are too large for it."""
    n, G, policy = len(task.workload), task.cluster.workers, task.policy
    most = n if task.options.arrivals is ArrivalMode.TIMED else min(n, task.options.pool)
    parameters, weights = policy.parameters, policy.weights  # type: ignore[attr-defined]
    beta = Fraction(G) if parameters.beta is None else parameters.beta
    score = ScoreWeights.of(parameters.alpha, beta, weights)
    too_large = max(*score.reward, *score.penalty) >= LARGEST_FACTOR
    if too_large or most * len(weights) > MAX_CONTRIBUTIONS:
        return None
    by_size, assignment = np.empty((2, most), dtype=np.int64)
    return TwoStage(
        threshold=parameters.threshold,
        candidates=parameters.candidates or 0,
        product_key=int(parameters.key == "product"),
        reward=np.array(score.reward, dtype=np.int64),
        penalty=np.array(score.penalty, dtype=np.int64),
        order=new_order(n, most),
        by_size=by_size,
        assignment=assignment,
    )


@compilable(allocates=True)
def decide(state: State, window: Window, rule: TwoStage) -> bool:
    """Let the two-stage heuristic admit waiting requests; False if it would not be exact."""
    counters = state.counters
    num_waiting, slots = counters[WAITING], state.settings.slots
    if num_waiting == 0 or counters[ACTIVE] == len(state.workers.load) * slots:
        return True
    waiting = waiting_requests(state)
    sizes, by_size = state.requests.prompt[waiting], rule.by_size[:num_waiting]
    put_in_order(rule.order, waiting, sizes, by_size)
    return admit_by_score(
        state,
        window,
        sizes,
        by_size,
        rule.reward,
        rule.penalty,
        rule.threshold,
        rule.candidates,
        rule.product_key != 0,
        rule.assignment[:num_waiting],
    )


@compilable(allocates=True)
def admit_by_score(
    state: State,
    window: Window,
    sizes: IntArray,
    by_size: IntArray,
    reward: IntArray,
    penalty: IntArray,
    threshold: int,
    candidates: int,
    by_product: bool,
    assignment: IntArray,
) -> bool:
    """Project, and admit as `two_stage_decide` says; False if it would not be exact.

    Its rows of contributions are written only where they are not all sizes and one growth.
    """
    num_rows = 0
    if grow_alike(state):
        project_running(state, window)
    else:
        project(state, window)
        num_rows = len(sizes)
    status = two_stage_decide(
        state.settings.slots - state.workers.running,
        window.base,
        sizes,
        growth_of_waiting(state, window),
        window.contribution[:num_rows],
        by_size,
        reward,
        penalty,
        threshold,
        candidates,
        by_product,
        assignment,
    )
    if status != DECIDED:
        return False
    admit_assigned(state, assignment)
    return True


KERNEL = Kernel(memory, decide=decide, reads_window=True)
