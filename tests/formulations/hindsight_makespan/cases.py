"""Problems for tests: by hand, and random ones small enough for enumeration."""

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
    # Only 6 tokens fit: 3, then 4 and 5; beside 5 there would be 3 as well.
    (makespan_problem(1, 2, [(0, 3, 1), (0, 4, 2)], memory=6), 12, (0, 1)),
    # The same with 2 a step: three busy steps instead of two.
    (
        makespan_problem(1, 2, [(0, 3, 1), (0, 4, 2)], memory=6, step_overhead=Fraction(2)),
        18,
        (0, 1),
    ),
    # 4 and 4 fit beside each other, 5 and 5 a step later do not, nor 5 and 4: 2, and 4.
    (
        makespan_problem(
            1, 2, [(0, 4, 2), (0, 4, 2)], memory=8, objective=MakespanObjective.LATENCY
        ),
        6,
        (0, 2),
    ),
    # The second is gone before that step: 2 + 1.
    (
        makespan_problem(
            1, 2, [(0, 4, 2), (0, 4, 1)], memory=8, objective=MakespanObjective.LATENCY
        ),
        3,
        (0, 0),
    ),
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
    workers = draw(st.integers(1, 3))
    conserves: bool = draw(st.booleans())
    is_imbalance = objective is MakespanObjective.IMBALANCE
    memory = None
    if not conserves and not is_imbalance and draw(st.booleans()):
        memory = draw(memories(workers, requests))
    return makespan_problem(
        workers,
        draw(st.integers(1, 2)),
        requests,
        memory=memory,
        step_overhead=draw(st.sampled_from(times)),
        token_time=draw(st.sampled_from(times[1:])),
        objective=objective,
        work_conserving=None if is_imbalance else conserves,
    )


@st.composite
def memories(
    draw: st.DrawFn, workers: int, requests: Sequence[tuple[int, int, int]]
) -> int | list[int]:
    """Draw equal or unequal memories in which every request fits somewhere."""
    least = max((s + o - 1 for _, s, o in requests), default=1)
    if draw(st.booleans()):
        return least + draw(st.integers(0, 8))
    others = [draw(st.integers(1, least + 6)) for _ in range(workers - 1)]
    return draw(st.permutations([least + draw(st.integers(0, 6)), *others]))
