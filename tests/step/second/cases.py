"""Random steps, small enough to enumerate, over all options."""

from typing import Any

import numpy as np

from formulations.second import Second, SecondProblem, second_problem
from formulations.step import Objective, StepProblem
from formulations.step.check import brute_force


def random_step(rng: np.random.Generator) -> StepProblem:
    """Return a step with ties, zeros, speeds, token capacities and required requests at times."""
    G, N, steps = (int(rng.integers(1, most)) for most in (4, 7, 4))
    largest = int(rng.choice([1, 3, 20, 1000]))
    rows = np.repeat(rng.integers(0, largest + 1, (N, 1)), steps, axis=1)
    if rng.random() < 0.4:
        rows += np.arange(steps)
    elif rng.random() < 0.5:
        rows = rng.integers(0, largest + 1, (N, steps))
    base = rng.integers(0, largest + 1, (G, steps))
    capacity = rng.integers(0, 4, G)
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["token_time"] = rng.integers(1, 4, G)
    if rng.random() < 0.3:
        options["required"] = rng.random(N) < 0.3
    if rng.random() < 0.3:
        options["token_capacity"] = base.max() + rng.integers(0, 4 * largest, G)
    if rng.random() < 0.3:
        options["admit"] = int(rng.integers(0, min(N, int(capacity.sum())) + 1))
    return StepProblem(
        capacity,
        base,
        rows,
        weights=tuple(rng.integers(0, 3, steps).tolist()),
        objective=rng.choice(list(Objective)),
        **options,
    )


def random_problems(seed: int, count: int) -> list[tuple[SecondProblem, tuple[int | None, ...]]]:
    """Return second programs of random steps, and the first optimum of each."""
    rng = np.random.default_rng(seed)
    found: list[tuple[SecondProblem, tuple[int | None, ...]]] = []
    while len(found) < count:
        step = random_step(rng)
        best = brute_force(step)
        if best is not None:
            slack = max(0, int(rng.integers(-3000, 3000)))
            name = rng.choice(list(Second))
            found.append((second_problem(step, best[0] + slack, name), tuple(best[1])))
    return found
