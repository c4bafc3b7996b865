"""Second programs to test with."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from bfio.testing.instances import step_problem, step_problems
from formulations.second import Second, SecondProblem, second_problem
from formulations.step import Objective, StepProblem
from formulations.step.check import brute_force

#: Loads 10, 12 and 30 and a free slot on the first two: 5 and 3 fill up to 15 and 17 or 13 and 15.
HAND = step_problem([1, 1, 0], [[10, 0], [12, 4], [30, 9]], [[5, 6], [3, 0], [5, 1], [3, 3]])


@st.composite
def second_problems(draw: st.DrawFn) -> SecondProblem:
    """Any step with a solution, its optimum plus some ε, and any second objective."""
    step = draw(step_problems(max_workers=3, max_requests=5, benefit=False).filter(_has_choice))
    best = brute_force(step)
    assert best is not None
    most = best[0] + draw(st.sampled_from([0, 0, 0, 1, 40, 5000]))
    name = draw(st.sampled_from([*Second, None]))
    if name is not None:
        return second_problem(step, most, name)
    cost = draw(
        st.lists(st.integers(0, 9), min_size=step.num_requests, max_size=step.num_requests)
    )
    return SecondProblem(step, most, np.array(cost), draw(_windows(step)))


@st.composite
def _windows(draw: st.DrawFn, step: StepProblem) -> StepProblem | None:
    if draw(st.booleans()):
        return None
    columns = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    return replace(
        step,
        base=rng.integers(0, 20, (step.num_workers, columns)),
        contribution=rng.integers(0, 9, (step.num_requests, columns)),
        weights=tuple(rng.integers(0, 4, columns).tolist()),
        scale=1,
        objective=draw(st.sampled_from(list(Objective))),
        token_capacity=None,
    )


def _has_choice(step: StepProblem) -> bool:
    return step.num_requests > 0 and brute_force(step) is not None
