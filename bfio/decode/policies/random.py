"""Uniformly random worker."""

from bfio.common.compilable import compilable
from bfio.decode.machine.greedy import Greedy, greedy_kernel, list_open
from bfio.decode.machine.state import State
from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally, oldest


def assign(state: DecodeState) -> list[int | None]:
    """Give the oldest request to a worker drawn uniformly from those that take it.

    BalanceRoute, section 6.1 (baseline Random).
    """
    tally = StepTally(state)
    for request in oldest(state):
        workers = tally.open_workers(request)
        if not workers:
            break
        tally.assign(request, workers[int(state.rng.integers(len(workers)))])
    return tally.assignment


@compilable(allocates=True)
def choose(state: State, greedy: Greedy, request: int) -> int:
    """Draw an open worker uniformly."""
    num_open = list_open(state, greedy, request)
    return int(greedy.sampled[0, greedy.rng.integers(0, num_open)]) if num_open > 0 else -1


SPEC = PolicySpec(
    name="random",
    factory=lambda _: assign,
    summary="oldest request to a random worker with a free slot",
    source="BalanceRoute, section 6.1",
    dispatch=BOTH_DISPATCHES,
    kernel=greedy_kernel(choose),
    draws=True,
    breaks_ties=False,
    reads_reports=False,
)
