"""Round-robin over the workers."""

from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import Tally, oldest


class RoundRobin:
    """Oldest request to the next worker in the cycle, skipping those without a free slot.

    The cycle starts at worker 0 and goes on across steps. BF-IO, appendix A.1.1.
    """

    def __init__(self, options: PolicyOptions) -> None:
        self._next = 0

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest requests."""
        tally = Tally(state)
        for request in oldest(state):
            while tally.free[self._next] == 0:
                self._next = (self._next + 1) % state.num_workers
            tally.assign(request, self._next)
            self._next = (self._next + 1) % state.num_workers
        return tally.assignment


SPEC = PolicySpec(
    name="round-robin",
    factory=RoundRobin,
    summary="oldest request to the next worker in the cycle with a free slot",
    source="BF-IO, appendix A.1.1",
    dispatch=BOTH_DISPATCHES,
)
