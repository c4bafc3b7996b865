"""Strategies for instances, drawn whole, and the policies that tests run on them."""

import numpy as np
from hypothesis import strategies as st

from bfio.kvcache.instance import BatchTime, CacheInstance
from formulations.arrays import IntArray, frozen, integer
from formulations.hindsight_latency import Convention, LatencyProblem

CONVENTIONS = st.sampled_from(list(Convention))
#: Every built-in algorithm that takes any arrivals.
ALGORITHMS = (
    "mc-sf",
    "mc-sf:scan=continue",
    "mc-benchmark",
    "mc-benchmark:scan=continue",
    "mc-sf:beta=1/3:pause=2",
    "alpha-greedy:alpha=0",
    "alpha-greedy",
    "alpha-greedy:alpha=0.6",
    "alpha-greedy:alpha=0.2:cap=2",
    "alpha-greedy:alpha=0.4:admission=batch",
    "beta-clearing",
    "beta-clearing:alpha=0:beta=0.5:pause=3",
    "beta-clearing:alpha=0.3:beta=0.5:admission=batch:cap=3",
)


def problem(
    memory: int,
    requests: list[tuple[int, int, int]],
    convention: Convention = Convention.HALF_OPEN,
) -> LatencyProblem:
    """Return the problem of ``(arrival, prompt, output)`` triples."""
    columns = np.array(requests, dtype=np.int64).reshape(len(requests), 3).T
    return LatencyProblem(memory, columns[0], columns[1], columns[2], convention)


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    max_requests: int = 8,
    max_memory: int = 24,
    common_prompt: bool = False,
    all_at_once: bool = False,
) -> LatencyProblem:
    """Draw requests that fit alone, ties and limits included."""
    convention = draw(CONVENTIONS)
    memory = draw(st.integers(2, max_memory))
    slack = 1 if convention is Convention.PRINTED else 0
    shared = draw(st.integers(1, memory - 1))
    requests = []
    for _ in range(draw(st.integers(0, max_requests))):
        arrival = 0 if all_at_once else draw(st.integers(0, 12))
        prompt = shared if common_prompt else draw(st.integers(1, memory - 1))
        requests.append((arrival, prompt, draw(st.integers(1, memory - prompt + slack))))
    return problem(memory, requests, convention)


BATCH_TIMES = st.builds(
    BatchTime, st.integers(1, 9), st.integers(0, 5), st.integers(0, 3), st.integers(0, 4)
)


@st.composite
def instances(draw: st.DrawFn) -> CacheInstance:
    """Draw an instance whose batches take any time."""
    drawn = draw(problems())
    return CacheInstance(
        drawn.memory,
        drawn.arrival * draw(st.integers(1, 9)),
        drawn.prompt,
        drawn.output,
        drawn.convention,
        draw(BATCH_TIMES),
    )


def noisy_lengths(output: IntArray, error: int, rng: np.random.Generator) -> IntArray:
    """Return lengths drawn uniformly from the integers within ``error`` of the true ones.

    None is below 1, so that ``delta = error`` makes every prediction safe.

    Parameters
    ----------
    output : IntArray
        Shape (n,), true outputs [tokens].
    error : int
        ``δ >= 0`` [tokens].
    rng : numpy.random.Generator
        Source of randomness.
    """
    integer(error, "error")
    drawn = rng.integers(np.maximum(1, output - error), output + error, endpoint=True)
    return frozen(drawn.astype(np.int64))
