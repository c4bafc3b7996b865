"""Uniformly random worker."""

from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec, stateless
from bfio.decode.state import DecodeState
from bfio.decode.tally import Tally, oldest


def assign(state: DecodeState) -> list[int | None]:
    """Give the oldest request to a worker drawn uniformly from those with a free slot.

    BalanceRoute, section 6.1 (baseline Random).
    """
    tally = Tally(state)
    for request in oldest(state):
        workers = tally.open_workers()
        tally.assign(request, workers[int(state.rng.integers(len(workers)))])
    return tally.assignment


SPEC = PolicySpec(
    name="random",
    factory=stateless(assign),
    summary="oldest request to a random worker with a free slot",
    source="BalanceRoute, section 6.1",
    dispatch=BOTH_DISPATCHES,
)
