"""Instances that force bad ratios: one long request, then many short ones while it runs.

The adversary of Theorem 6.2 and of the Ω(√n) bound of the later version waits until the algorithm
has started the long request and then releases short ones that no longer fit beside it; here the
algorithm is one that starts at once. Waiting with the long request would have been better.
"""

from fractions import Fraction
from math import isqrt

import numpy as np

from bfio.kvcache.simulation import serve
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.hindsight_latency import Convention, LatencyProblem


def long_and_short(
    memory: int, prompt: int, num_short: int, release: int, convention: Convention
) -> LatencyProblem:
    """Return the long request (number 0, ``o = M - s``, at 0) and short ones (``o = 1``).

    Parameters
    ----------
    memory, prompt : int
        ``M`` and the common ``s`` [tokens].
    num_short : int
        How many short requests.
    release : int
        Round of their arrival.
    convention : Convention
        Which rounds are occupied.
    """
    integer(num_short, "num_short")
    arrival = np.full(1 + num_short, release, dtype=np.int64)
    output = np.ones(1 + num_short, dtype=np.int64)
    arrival[0], output[0] = 0, memory - prompt
    return LatencyProblem(memory, arrival, np.full_like(output, prompt), output, convention)


def theorem_6_2(
    memory: int, epsilon: Fraction, convention: Convention, num_short: int | None = None
) -> LatencyProblem:
    """Return the instance of Theorem 6.2 for an algorithm that starts the long request at 0.

    Parameters
    ----------
    memory : int
        ``M`` [tokens].
    epsilon : Fraction
        ``ε`` in (0, 1/2) with ``ε·M`` whole: prompts have ``ε·M`` tokens and the short requests
        arrive at ``(1-2ε)·M``.
    convention : Convention
        Which rounds are occupied.
    num_short : int, optional
        How many short requests, by default ``ε·M``; Remark 6.3 varies it.
    """
    prompt = Fraction(epsilon) * memory
    if not 0 < epsilon < Fraction(1, 2) or prompt.denominator != 1:
        raise InputError("epsilon", f"{epsilon}", "use 0 < epsilon < 1/2 with epsilon * M whole")
    count = int(prompt) if num_short is None else num_short
    return long_and_short(memory, int(prompt), count, memory - 2 * int(prompt), convention)


def square_root_bound(memory: int, convention: Convention) -> LatencyProblem:
    """Return the Ω(√n) instance: s = 1, M/2 short requests at ``M - √M/2``.

    Parameters
    ----------
    memory : int
        ``M`` [tokens], at least 4; roots and halves are rounded down.
    convention : Convention
        Which rounds are occupied.
    """
    integer(memory, "memory", minimum=4)
    return long_and_short(memory, 1, memory // 2, memory - isqrt(memory) // 2, convention)


def delayed_starts(problem: LatencyProblem) -> list[int]:
    """Return the schedule that holds request 0 back until the others arrive, then runs MC-SF."""
    arrival = problem.arrival.copy()
    arrival[0] = arrival.max()
    held = LatencyProblem(
        problem.memory, arrival, problem.prompt, problem.output, problem.convention
    )
    starts: list[int] = serve(held, "mc-sf").start.tolist()
    return starts
