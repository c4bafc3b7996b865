"""Problems by hand."""

from fractions import Fraction

from bfio.testing.instances import makespan_problem
from formulations.hindsight_makespan import MakespanObjective

LATENCY, IMBALANCE = MakespanObjective.LATENCY, MakespanObjective.IMBALANCE
#: By hand: problem, optimum, starts that reach it.
HAND_CHECKED = (
    # Loads 9, 10 and 10. Deferred, the two loads of 10 meet: peaks 9 + 10.
    (makespan_problem(2, 1, [(0, 9, 2), (0, 10, 1)]), 19, (0, 1)),
    # Not deferred they do not: 10 + 10.
    (makespan_problem(2, 1, [(0, 9, 2), (0, 10, 1)], work_conserving=True), 20, (0, 0)),
    # Two busy steps of 5 besides.
    (makespan_problem(2, 1, [(0, 9, 2), (0, 10, 1)], step_overhead=Fraction(5)), 29, (0, 1)),
    # The twins first, 0, then one request alone, 1 − 0.
    (makespan_problem(2, 1, [(0, 5, 1), (0, 1, 1), (0, 5, 1)], objective=IMBALANCE), 1, (0, 1, 0)),
    # Idling for the short request: 1 for it, 7 for the long one; conserving: 5 + 5.
    (makespan_problem(1, 1, [(0, 1, 5), (1, 1, 1)], objective=LATENCY), 8, (2, 1)),
    (
        makespan_problem(1, 1, [(0, 1, 5), (1, 1, 1)], objective=LATENCY, work_conserving=True),
        10,
        (0, 5),
    ),
    # Two slots side by side on one worker: loads 3 + 4, then 5 alone.
    (makespan_problem(1, 2, [(0, 3, 1), (0, 4, 2)]), 12, (0, 0)),
    # Only 6 tokens fit: 3, then 4 and 5; beside 5 there would be 3 as well.
    (makespan_problem(1, 2, [(0, 3, 1), (0, 4, 2)], memory=6), 12, (0, 1)),
    # The same with 2 a step: three busy steps instead of two.
    (
        makespan_problem(1, 2, [(0, 3, 1), (0, 4, 2)], memory=6, step_overhead=Fraction(2)),
        18,
        (0, 1),
    ),
    # 4 and 4 fit beside each other, 5 and 5 a step later do not, nor 5 and 4: 2, and 4.
    (makespan_problem(1, 2, [(0, 4, 2), (0, 4, 2)], memory=8, objective=LATENCY), 6, (0, 2)),
    # The second is gone before that step: 2 + 1.
    (makespan_problem(1, 2, [(0, 4, 2), (0, 4, 1)], memory=8, objective=LATENCY), 3, (0, 0)),
)
