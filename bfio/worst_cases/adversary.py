"""Against policies that do not know output lengths: the next long request starts when one ends.

All prompts are one token, so requests look alike until they end. Whenever no long request runs,
the next to start turns out to be long; all others end at once. G long requests then never run
together, whatever the policy does, while the optimum runs them side by side: for the sum of peaks
its ratio tends to G as they get longer (docs/worst-cases.md).
"""

import numpy as np

from bfio.worst_cases.barrier import BarrierSpace, BarrierTarget, Criterion
from bfio.worst_cases.case import against
from bfio.worst_cases.found import Found
from bfio.worst_cases.limits import MAX_REQUESTS
from formulations.errors import InputError
from formulations.hindsight_makespan import MakespanProblem, list_schedule


def adversary(target: BarrierTarget, space: BarrierSpace) -> Found:
    """Return the instance of a policy, with a schedule that runs the long requests together.

    Parameters
    ----------
    target : BarrierTarget
        A policy that does not know lengths.
    space : BarrierSpace
        Workers, slots and criterion; ``output`` is the length of long requests. There are as many
        requests as it takes.

    Raises
    ------
    InputError
        If there would be too many requests, or another criterion than peaks.
    """
    if space.criterion is not Criterion.PEAKS:
        raise InputError("criterion", f"the adversary raises no {space.criterion}", "use peaks")
    problem = _instance(target, space)
    longest_first = np.argsort(-problem.output, kind="stable").tolist()
    case = against(target, problem, list_schedule(problem, longest_first))
    told = (
        f"{problem.num_requests} requests of prompt 1, {space.workers} of output {space.output} "
        f"one after the other, {space.workers} workers of {space.slots} slots, peaks"
    )
    return Found(case, "adversary", told, space.workers + 1, 1, is_maximal=False)


def _instance(target: BarrierTarget, space: BarrierSpace) -> MakespanProblem:
    """Let the policy run, and make the first to start long whenever no long request runs."""
    length, lanes = space.output, space.workers * space.slots
    # While a long request runs all other slots can start a short one at every step.
    count = space.workers * ((lanes - 1) * length + 1)
    if count > MAX_REQUESTS:
        raise InputError("space", f"{count:,} requests", "lower output, workers or slots")
    outputs, free_from = [1] * count, 0
    problem = space.problem([(1, o) for o in outputs])
    for _ in range(space.workers):
        starts, _ = target.schedule(problem)
        coming = [i for i, start in enumerate(starts) if start >= free_from and outputs[i] == 1]
        if not coming:
            # Only a policy that knows lengths leaves none to start later.
            break
        chosen = min(coming, key=lambda i: starts[i])
        outputs[chosen], free_from = length, starts[chosen] + length
        problem = space.problem([(1, o) for o in outputs])
    return problem
