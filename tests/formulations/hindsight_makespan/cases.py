"""Problems for tests: by hand, and drawn as widely as enumeration bears."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from formulations.hindsight_makespan import MakespanObjective, MakespanProblem


def makespan_problem(
    workers: int, slots: int, requests: Sequence[tuple[int, int, int]], **options: Any
) -> MakespanProblem:
    """Return a problem from (arrival, prompt, output) triples; C = 0 and t_l = 1 by default."""
    columns = np.array(requests, dtype=np.int64).reshape(-1, 3)
    times = {"step_overhead": Fraction(0), "token_time": Fraction(1)}
    return MakespanProblem(
        workers, slots, columns[:, 0], columns[:, 1], columns[:, 2], **(times | options)
    )


#: By hand: problem, optimum, starts that reach it.
HAND_CHECKED = (
    # Loads 9, 10 and 10. Deferred, the two loads of 10 meet: peaks 9 + 10.
    (makespan_problem(2, 1, [(0, 9, 2), (0, 10, 1)]), 19, (0, 1)),
    # Not deferred they do not: 10 + 10.
    (makespan_problem(2, 1, [(0, 9, 2), (0, 10, 1)], work_conserving=True), 20, (0, 0)),
    # Two busy steps of 5 besides.
    (makespan_problem(2, 1, [(0, 9, 2), (0, 10, 1)], step_overhead=Fraction(5)), 29, (0, 1)),
    # The twins first, 0, then one request alone, 1 − 0.
    (
        makespan_problem(
            2, 1, [(0, 5, 1), (0, 1, 1), (0, 5, 1)], objective=MakespanObjective.IMBALANCE
        ),
        1,
        (0, 1, 0),
    ),
    # Idling for the short request: 1 for it, 7 for the long one; conserving: 5 + 5.
    (
        makespan_problem(1, 1, [(0, 1, 5), (1, 1, 1)], objective=MakespanObjective.LATENCY),
        8,
        (2, 1),
    ),
    (
        makespan_problem(
            1, 1, [(0, 1, 5), (1, 1, 1)], objective=MakespanObjective.LATENCY, work_conserving=True
        ),
        10,
        (0, 5),
    ),
    # Two slots side by side on one worker: loads 3 + 4, then 5 alone.
    (makespan_problem(1, 2, [(0, 3, 1), (0, 4, 2)]), 12, (0, 0)),
)


@st.composite
def makespan_problems(
    draw: st.DrawFn, min_requests: int = 0, max_requests: int = 3
) -> MakespanProblem:
    """Draw tiny problems: ties, identical requests, gaps between arrivals, free or exact times."""
    objective = draw(st.sampled_from(list(MakespanObjective)))
    requests: list[tuple[int, int, int]] = []
    arrivals = draw(st.sampled_from(((0,), (0, 0, 1, 2), (0, 3, 7))))
    for _ in range(draw(st.integers(min_requests, max_requests))):
        again: bool = draw(st.booleans())
        if requests and again:
            requests.append(draw(st.sampled_from(requests)))
            continue
        arrival, prompt = draw(st.sampled_from(arrivals)), draw(st.integers(1, 6))
        requests.append((arrival, prompt, draw(st.integers(1, 3))))
    times = [Fraction(0), Fraction(1), Fraction(1, 3), Fraction(5), Fraction("0.25")]
    return makespan_problem(
        draw(st.integers(1, 3)),
        draw(st.integers(1, 2)),
        requests,
        step_overhead=draw(st.sampled_from(times)),
        token_time=draw(st.sampled_from(times[1:])),
        objective=objective,
        work_conserving=None if objective is MakespanObjective.IMBALANCE else draw(st.booleans()),
    )
