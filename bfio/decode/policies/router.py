"""The score of production routers: four times waiting plus running."""

from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec, stateless
from bfio.decode.state import DecodeState
from bfio.decode.tally import assign_to_least, oldest

#: Weight of a waiting request against a running one.
WAITING_WEIGHT = 4


def assign(state: DecodeState) -> list[int | None]:
    """Give the oldest request to the worker with least ``4·waiting + running``.

    Waiting requests are those bound to the worker that do not run yet (none with pooled
    dispatch); a request assigned at this step takes a free slot and counts as running. Ties go to
    the lowest index. The default load balancer of vLLM's data-parallel deployment.
    """
    queued: list[int] = state.queued.tolist()
    return assign_to_least(
        state,
        oldest(state),
        lambda tally, g: (WAITING_WEIGHT - 1) * queued[g] + tally.requests[g],
    )


SPEC = PolicySpec(
    name="router",
    factory=stateless(assign),
    summary="oldest request to the worker with least 4·waiting + running",
    source="vLLM data-parallel load balancer",
    dispatch=BOTH_DISPATCHES,
)
