"""First come, first served, filling workers in index order."""

from bfio.decode.policy_spec import PolicySpec, stateless
from bfio.decode.state import DecodeState
from bfio.decode.tally import assign_to_least, oldest


def assign(state: DecodeState) -> list[int | None]:
    """Fill all free slots of worker 0 with the oldest requests, then worker 1, and so on.

    BF-IO, text of appendix B, which differs from its Algorithm 2.
    """
    return assign_to_least(state, oldest(state), lambda tally, g: g)


SPEC = PolicySpec(
    name="fcfs-by-index",
    factory=stateless(assign),
    summary="oldest request to the first worker with a free slot",
    source="BF-IO, appendix B (text)",
)
