"""Small step problems of every kind for the method for windows, and their optimum."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.step import StepProblem
from formulations.step.check import brute_force
from formulations.step.problem import geometric_weights

#: Most assignments of a case, so that enumeration takes some milliseconds.
_MOST = 800
#: Largest tokens: tiny ones make ties, and those of the last come near the limits of 64 bits.
_TOKENS = (0, 1, 3, 10, 10, 50, 50, 50, 1000, 1000, 10**6, 10**9, 3 * 10**11)
_HORIZONS = (0, 0, 1, 2, 5, 20)
_INFORMATION = ("none", "active", "all", "wild", "classes")


def optimum(problem: StepProblem) -> int | None:
    """Return the least objective by enumeration, None if nothing is feasible."""
    found = brute_force(problem)
    return None if found is None else found[0]


def small_problems(seed: int, number: int) -> Iterator[StepProblem]:
    """Yield problems over all options of the class; those of equal seeds are equal."""
    rng = np.random.default_rng(seed)
    while number:
        try:
            yield small_problem(rng)
        except InputError:
            # Beyond the limits of 64 bits, which the data check.
            continue
        number -= 1


def small_problem(rng: np.random.Generator) -> StepProblem:
    """Return a problem of few workers and requests, any horizon, objective and limits.

    Among them: ties and zeros, closed workers, none open, fewer requests than slots, equal
    requests, requests with rows of their own, weights of 0, capacities below the base loads, more
    required requests than slots, and tokens near the limits of 64 bits.
    """
    G = int(rng.integers(1, 5))
    N = int(rng.integers(0, min(7, int(np.log(_MOST) / np.log(G + 1))) + 1))
    steps = 1 + int(rng.choice(_HORIZONS))
    tokens = int(rng.choice(_TOKENS))
    capacity = rng.integers(0, int(rng.integers(1, 5)), G)
    info = str(rng.choice(_INFORMATION))
    base = _base(rng, G, steps, tokens, drops=info != "none")
    contribution = _contribution(rng, N, steps, tokens, info)
    options = _options(rng, capacity, base, N, tokens)
    return StepProblem(capacity, base, contribution, **options)


def _base(rng: np.random.Generator, G: int, steps: int, tokens: int, *, drops: bool) -> IntArray:
    """Return loads that grow by the requests that run, and drop where one is known to end."""
    base = rng.integers(0, 3 * tokens + 1, (G, 1)) + rng.integers(0, 4, (G, 1)) * np.arange(steps)
    if drops:
        ends = rng.random((G, steps)) < 0.3
        base -= np.cumsum(rng.integers(0, tokens + 1, (G, steps)) * ends, axis=1)
    answer: IntArray = np.maximum(base, 0)
    return answer


def _contribution(
    rng: np.random.Generator, N: int, steps: int, tokens: int, info: str
) -> IntArray:
    """Return requests with common growth and, depending on the information, others."""
    sizes = rng.integers(0, tokens + 1, (N, 1))
    if rng.random() < 0.2:
        sizes[:] = tokens
    growth = int(rng.integers(0, 2))
    rows: IntArray = sizes + growth * np.arange(steps)
    if info == "all":
        for i in np.flatnonzero(rng.random(N) < 0.4).tolist():
            rows[i, int(rng.integers(1, steps + 1)) :] = 0
    elif info == "wild":
        rows = rng.integers(0, tokens + 1, (N, steps))
    elif info == "classes":
        # Two growths, of equally many requests or nearly so, and twins among them.
        rows = sizes + np.arange(N)[:, None] % 2 * np.arange(steps)
        rows[N // 2 :] = rows[: N - N // 2]
    return rows


def _options(
    rng: np.random.Generator, capacity: IntArray, base: IntArray, N: int, tokens: int
) -> dict[str, Any]:
    G, steps = base.shape
    options: dict[str, Any] = {
        "objective": str(rng.choice(["imbalance", "imbalance", "max-load", "gap"]))
    }
    if tokens < 10**11 and rng.random() < 0.4:
        gamma = Fraction(86, 100) if rng.random() < 0.5 else Fraction(1, 2)
        options["weights"], options["scale"] = geometric_weights(gamma, steps)
    elif rng.random() < 0.3:
        options["weights"] = [int(rng.integers(0, 3)) for _ in range(steps)]
    if rng.random() < 0.35:
        most = np.minimum(base.max(axis=1) + rng.integers(-1, 3 * tokens + 1, G), 10**12)
        options["token_capacity"] = np.maximum(most, 0)
    if rng.random() < 0.35:
        options["token_time"] = rng.integers(1, 4, G) * (10**5 if rng.random() < 0.1 else 1)
    if rng.random() < 0.35:
        options["required"] = (rng.random(N) < rng.random()).tolist()
    if rng.random() < 0.25:
        slots = int(np.minimum(capacity, N).sum())
        options["admit"] = int(rng.integers(0, min(N, slots) + 1))
    return options


def crowded_window(seed: int, G: int = 6, N: int = 18, H: int = 8, mean: int = 300) -> StepProblem:
    """Return a step of a busy cluster: few free slots, growing requests, known ends of some."""
    rng = np.random.default_rng(seed)
    steps = np.arange(H + 1)
    base = rng.integers(20 * mean, 24 * mean, (G, 1)) + 30 * steps
    for g in range(G):
        for _ in range(int(rng.poisson(2))):
            base[g, int(rng.integers(1, H + 1)) :] -= int(rng.geometric(1 / mean))
    capacity = rng.integers(0, 4, G)
    sizes = rng.geometric(1 / mean, (N, 1))
    return StepProblem(capacity, np.maximum(base, 0), sizes + steps)
