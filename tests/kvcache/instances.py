"""Strategies for instances, drawn whole, and the policies that tests run on them."""

import numpy as np
from hypothesis import strategies as st

from bfio.kvcache.instance import BatchTime, CacheInstance
from bfio.testing.instances import latency_problems
from formulations.arrays import IntArray, frozen, integer
from formulations.hindsight_latency import Convention

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


BATCH_TIMES = st.builds(
    BatchTime, st.integers(1, 9), st.integers(0, 5), st.integers(0, 3), st.integers(0, 4)
)


@st.composite
def instances(draw: st.DrawFn) -> CacheInstance:
    """Draw an instance whose batches take any time."""
    drawn = draw(latency_problems(max_requests=8, max_memory=24, max_output=24))
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
