"""Join the shortest queue, counted in requests."""

from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec, stateless
from bfio.decode.state import DecodeState
from bfio.decode.tally import assign_to_least, oldest


def assign(state: DecodeState) -> list[int | None]:
    """Give the oldest request to the worker with fewest requests (ties: lowest index).

    Running, queued and just assigned requests count alike. BF-IO, appendix A.1.1.
    """
    return assign_to_least(state, oldest(state), lambda tally, g: tally.requests[g])


SPEC = PolicySpec(
    name="jsq",
    factory=stateless(assign),
    summary="oldest request to the worker with fewest requests",
    source="BF-IO, appendix A.1.1",
    dispatch=BOTH_DISPATCHES,
)
