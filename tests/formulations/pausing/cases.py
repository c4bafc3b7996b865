"""Pausing problems for tests: one by hand, and random ones small enough for enumeration."""

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from formulations.pausing import PausingProblem

#: Two workers, one free slot on worker 0, C = 10 and one unit per token of load.
HAND: dict[str, Any] = {
    "capacity": [1, 0],
    "active": [
        {"worker": 0, "load": 4},
        {"worker": 0, "load": 5},
        {"worker": 1, "load": 6},
        {"worker": 1, "load": 20},
    ],
    "waiting": [3],
    "max_pauses": 2,
    "step_overhead": 10,
    "token_time": 1,
}


def drawn(seed: int) -> PausingProblem:
    """Draw a small problem: ties, unequal workers, memory, requests that must run or start."""
    rng = np.random.default_rng(seed)
    G, N = int(rng.integers(1, 4)), int(rng.integers(0, 4))
    J = int(rng.integers(0, 7 if G < 3 else 5))
    largest = int(rng.choice([2, 9, 100]))
    worker, load = rng.integers(0, G, J), rng.integers(1, largest + 1, J)
    held = np.bincount(worker, weights=load, minlength=G).astype(np.int64)
    given: dict[str, Any] = {}
    if rng.random() < 0.5:
        given["token_capacity"] = np.maximum(held + rng.integers(-2, 2 * largest, G), 0)
    if rng.random() < 0.3:
        given["required"] = rng.random(N) < 0.4
    denominator = int(rng.choice([1, 1, 3]))
    overheads = [Fraction(int(c), denominator) for c in rng.integers(0, 3 * largest, G)]
    rates = [Fraction(int(t)) for t in rng.integers(1, 4, G)]
    unequal = rng.random() < 0.4
    return PausingProblem(
        capacity=rng.integers(0, 3, G),
        worker=worker,
        load=load,
        paused=rng.integers(0, 4, J) * (rng.random(J) < 0.5),
        waiting=rng.integers(1, largest + 1, N),
        max_pauses=int(rng.integers(0, 4)),
        step_overhead=overheads if unequal else overheads[0],
        token_time=rates if unequal else rates[0],
        **given,
    )


def problems() -> st.SearchStrategy[PausingProblem]:
    """Return `drawn` problems."""
    return st.integers(0, 2**32).map(drawn)
