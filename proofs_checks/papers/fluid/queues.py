"""The queues of the proofs: paths and laws of waiting requests and of what dominates them.

A queue takes arrivals X and serves n at once, if n are there:
``W' = W + X − n·1{W + X >= n}``. Its dominator is reflected at a base: ``V' = max{base, V + X −
n}``.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, exp, lgamma, log

import numpy as np

from formulations.arrays import FloatArray
from proofs_checks.laws import CUT_OFF, convolved, mean


def queue_path(arrivals: Sequence[int], service: int) -> list[int]:
    """Return ``W^0 = 0, W^1, ...``."""
    path = [0]
    for x in arrivals:
        there = path[-1] + x
        path.append(there - service if there >= service else there)
    return path


def reflected_path(arrivals: Sequence[int], service: int, base: int) -> list[int]:
    """Return ``V^0 = base, V^1, ...``."""
    path = [base]
    for x in arrivals:
        path.append(max(base, path[-1] + x - service))
    return path


def poisson_law(rate: float) -> FloatArray:
    """Law of a Poisson number, cut off where less than `CUT_OFF` is left."""
    most = ceil(rate + 12 * rate**0.5 + 30)
    law = np.array([exp(k * log(rate) - rate - lgamma(k + 1)) for k in range(most)])
    return law[: int(np.flatnonzero(law > CUT_OFF * 1e-3)[-1]) + 1]


def binomial_law(trials: int, chance: float) -> FloatArray:
    """Law of a binomial number."""
    law = np.ones(1)
    for _ in range(trials):
        law = np.convolve(law, (1 - chance, chance))
    return law


def queue_laws(arrivals: Iterable[FloatArray], service: int) -> Iterator[FloatArray]:
    """Yield the laws of ``W^0, W^1, ...``, one arrival law for each step."""
    law = np.ones(1)
    yield law
    for arrival in arrivals:
        there = convolved(law, arrival)
        after = np.zeros(max(service, len(there) - service))
        after[: len(there) - service] += there[service:] if len(there) > service else 0
        after[: min(service, len(there))] += there[:service]
        law = _trimmed(after)
        yield law


def reflected_laws(arrivals: Iterable[FloatArray], service: int) -> Iterator[FloatArray]:
    """Yield the laws of ``V − base``, one arrival law for each step."""
    law = np.ones(1)
    yield law
    for arrival in arrivals:
        there = convolved(law, arrival)
        after = np.zeros(max(1, len(there) - service))
        after[0] = there[: service + 1].sum()
        after[1 : max(1, len(there) - service)] = there[service + 1 :]
        law = _trimmed(after)
        yield law


def mean_path(laws: Iterable[FloatArray]) -> list[float]:
    """Return the mean of each law."""
    return [mean(law) for law in laws]


def tail(law: FloatArray) -> FloatArray:
    """Return ``P(W >= c)`` for c = 0, 1, ..."""
    tails: FloatArray = np.cumsum(law[::-1])[::-1]
    return tails


def _trimmed(law: FloatArray) -> FloatArray:
    """Drop the far end of a law, where there is next to nothing."""
    kept = np.flatnonzero(law > CUT_OFF * 1e-3)
    return law[: int(kept[-1]) + 1]
