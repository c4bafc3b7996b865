"""First come, first served, onto the worker with most free slots."""

from bfio.decode.policy_spec import PolicySpec, stateless
from bfio.decode.state import DecodeState
from bfio.decode.tally import assign_to_least, oldest


def assign(state: DecodeState) -> list[int | None]:
    """Pop the oldest request; give it to the worker with most free slots (ties: lowest index).

    BF-IO, Algorithm 2.
    """
    return assign_to_least(state, oldest(state), lambda tally, g: -tally.free[g])


SPEC = PolicySpec(
    name="fcfs",
    factory=stateless(assign),
    summary="oldest request to the worker with most free slots",
    source="BF-IO, Algorithm 2",
)
