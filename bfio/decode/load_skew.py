"""The guard of sticky routers: which workers are overloaded (sglang pull request 31170).

A worker takes no more of what sticks to it once its load is more than ``max_load_skew`` times the
mean of all workers, or times one token where that is less. The load is in tokens, with what is
bound and what was assigned at this step.
"""

from bfio.common.compilable import compilable
from bfio.decode.machine.state import State
from bfio.decode.tally import StepTally, worker_tally

#: Largest total of loads, `bfio.decode.engine.MAX_STEP_TOKENS`.
MAX_TOTAL = 2**62


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
