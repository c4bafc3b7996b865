"""Join the shortest queue, counted in tokens (least loaded)."""

from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec, stateless
from bfio.decode.state import DecodeState
from bfio.decode.tally import assign_to_least, oldest


def assign(state: DecodeState) -> list[int | None]:
    """Give the oldest request to the worker with fewest tokens (ties: lowest index).

    Load, queued prompts and just assigned prompts count. What the simulator released with
    BF-IO calls JSQ; the paper's text counts requests.
    """
    return assign_to_least(state, oldest(state), lambda tally, g: tally.tokens[g])


SPEC = PolicySpec(
    name="jsq-tokens",
    factory=stateless(assign),
    summary="oldest request to the worker with fewest tokens",
    source="released simulator of BF-IO",
    dispatch=BOTH_DISPATCHES,
)
