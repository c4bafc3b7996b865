"""Problems for tests: by hand, and random ones small enough for enumeration."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from formulations.hindsight_latency import Convention, LatencyProblem

#: Spec kv_cache, section 4.2: shortest first is not optimal. Convention, memory, outputs,
#: shortest-first total latency, optimum. All prompts 1, all arrivals 0.
COUNTEREXAMPLES = (
    ("A", 4, (1, 1, 2, 2), 12, 11),
    ("B", 4, (2, 2, 3, 3), 16, 15),
    ("C", 5, (1, 1, 3, 3), 13, 12),
)


def latency_problem(
    memory: int,
    requests: Sequence[tuple[int, int, int]],
    convention: str = "C",
) -> LatencyProblem:
    """Return a problem from (arrival, prompt, output) triples."""
    columns = np.array(requests, dtype=np.int64).reshape(-1, 3)
    return LatencyProblem(
        memory, columns[:, 0], columns[:, 1], columns[:, 2], Convention(convention)
    )


def common_prompt(memory: int, outputs: Sequence[int], convention: str) -> LatencyProblem:
    """Return a problem with prompts of 1 token, all at once."""
    return latency_problem(memory, [(0, 1, output) for output in outputs], convention)


@st.composite
def latency_problems(
    draw: st.DrawFn, min_requests: int = 0, max_requests: int = 4
) -> LatencyProblem:
    """Draw tiny problems: ties, identical requests, full memory, arrivals near and far."""
    convention = draw(st.sampled_from(list(Convention)))
    # The least request has a peak of 1 token under B and of 2 under A and C.
    memory = draw(st.integers(2, 9))
    requests: list[tuple[int, int, int]] = []
    for _ in range(draw(st.integers(min_requests, max_requests))):
        again: bool = draw(st.booleans())
        if requests and again:
            requests.append(draw(st.sampled_from(requests)))
            continue
        prompt = draw(st.integers(1, memory - 1))
        longest = memory - prompt + (convention is Convention.PRINTED)
        output = draw(st.integers(1, min(longest, 5)))
        arrival = draw(st.sampled_from((0, 0, 0, 1, 2, 5)))
        requests.append((arrival, prompt, output))
    return latency_problem(memory, requests, convention.value)
