"""Hypothesis strategies of step problems, over all options of the program."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from formulations.step import Objective, StepProblem
from formulations.step.problem import discount_weights

#: Largest token counts tried: tiny ones make ties, huge ones strain floating point.
_SCALES = st.sampled_from([1, 3, 20, 1000, 1_000_000])


def step_problem(
    capacity: list[int], base: list[list[int]], contribution: list[list[int]], **options: Any
) -> StepProblem:
    """Build a step problem from plain lists."""
    document = {"capacity": capacity, "base": base, "contribution": contribution}
    return StepProblem.from_mapping(document | options)


@st.composite
def step_problems(
    draw: st.DrawFn,
    *,
    max_workers: int = 4,
    max_requests: int = 6,
    max_horizon: int = 3,
    options: bool = True,
    benefit: bool = True,
) -> StepProblem:
    """Any step problem: ties, zero slots, no requests, one worker, zero and huge loads."""
    G = draw(st.integers(1, max_workers))
    N = draw(st.integers(0, max_requests))
    steps = 1 + draw(st.integers(0, max_horizon))
    largest = draw(_SCALES)
    tokens = st.integers(0, largest)
    row = st.lists(tokens, min_size=steps, max_size=steps)
    base = draw(st.lists(row, min_size=G, max_size=G))
    capacity = draw(st.lists(st.integers(0, 4), min_size=G, max_size=G))
    document: dict[str, Any] = {
        "capacity": capacity,
        "base": base,
        "contribution": draw(_contributions(N, steps, largest)),
        "objective": draw(st.sampled_from(list(Objective))),
    }
    if draw(st.booleans()):
        discounts = st.lists(
            st.fractions(0, 1, max_denominator=100), min_size=steps, max_size=steps
        )
        document["weights"], document["scale"] = discount_weights(draw(discounts))
    if options:
        document |= draw(_options(N, capacity, base, largest))
    if options and benefit and draw(st.booleans()):
        # Whole and half tokens.
        unit = max(1, document.get("scale", 1) // 2)
        worth = st.integers(0, 4 * largest).map(lambda half: half * unit)
        row = st.lists(st.just(0) | worth, min_size=G, max_size=G)
        document["benefit"] = np.array(draw(st.lists(row, min_size=N, max_size=N))).reshape(N, G)
    return StepProblem(**document)


@st.composite
def _contributions(draw: st.DrawFn, N: int, steps: int, largest: int) -> list[list[int]]:
    """General rows, or the papers' own ``s_i + h`` and ``s_i``."""
    kind = draw(st.sampled_from(["general", "growing", "constant", "equal"]))
    if kind == "general":
        row = st.lists(st.integers(0, largest), min_size=steps, max_size=steps)
        return draw(st.lists(row, min_size=N, max_size=N))
    sizes = draw(st.lists(st.integers(1, max(1, largest)), min_size=N, max_size=N))
    if kind == "equal" and sizes:
        sizes = [sizes[0]] * N
    slope = 1 if kind == "growing" else 0
    return [[s + slope * h for h in range(steps)] for s in sizes]


@st.composite
def _options(
    draw: st.DrawFn, N: int, capacity: list[int], base: list[list[int]], largest: int
) -> dict[str, Any]:
    """Draw optional token capacities, required requests, worker speeds, and fewer admissions."""
    options: dict[str, Any] = {}
    G = len(capacity)
    if draw(st.booleans()):
        options["token_time"] = draw(st.lists(st.integers(1, 3), min_size=G, max_size=G))
    if draw(st.booleans()):
        room = st.integers(0, 4 * largest)
        options["token_capacity"] = [max(row) + draw(room) for row in base]
    if draw(st.booleans()):
        options["required"] = draw(st.lists(st.booleans(), min_size=N, max_size=N))
    if draw(st.booleans()):
        options["admit"] = draw(st.integers(0, min(N, sum(capacity))))
    return options
