"""The guard of sticky routers: which workers are overloaded (sglang pull request 31170).

A worker takes no more of what sticks to it once its load is more than ``max_load_skew`` times the
mean of all workers, or times one token where that is less. The load is in tokens, with what is
bound and what was assigned at this step.
"""

from fractions import Fraction

from bfio.common.compilable import compilable
from bfio.decode.machine.state import State
from bfio.decode.tally import StepTally, worker_tally
from formulations.errors import InputError
from formulations.rationals import exact_rational

#: Largest total of loads, `bfio.decode.engine.MAX_STEP_TOKENS`.
MAX_TOTAL = 2**62
#: Largest numerator and denominator of factors that loads are multiplied by.
_MAX_PART = 10**6


def small_ratio(value: object, name: str) -> Fraction:
    """Return a factor exactly, if its numerator and denominator are small.

    Raises
    ------
    InputError
        If one is larger than 10^6, or it is no rational number >= 0.
    """
    ratio = exact_rational(value, name)
    if max(ratio.as_integer_ratio()) > _MAX_PART:
        remedy = f"use a/b >= 0 of whole numbers up to {_MAX_PART}"
        raise InputError(name, f"{ratio} is out of range", remedy)
    return ratio


@compilable
def is_overloaded(tokens: int, total: int, num_workers: int, over: int, under: int) -> bool:
    """Whether a load is more than ``over/under`` times the mean, in whole numbers."""
    parts = num_workers * under
    whole, rest = max(total, num_workers) // parts, max(total, num_workers) % parts
    # In two steps, so that nothing leaves 64 bits; no load exceeds the total.
    if over == 0 or whole > MAX_TOTAL // over:
        return False
    return tokens > whole * over + rest * over // parts


def total_tokens(tally: StepTally) -> int:
    """Return the tokens of all workers."""
    return sum(worker.tokens for worker in tally.workers)


@compilable
def total_of(state: State) -> int:
    """Return the same of a state in the middle of a step."""
    total = 0
    for g in range(len(state.workers.load)):
        total += worker_tally(state, g).tokens
    return int(total)
