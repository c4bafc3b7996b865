"""Balance scheduling: nobody starts anything while one worker is full."""

from bfio.common.compilable import compilable
from bfio.decode.machine.counters import TAKEN
from bfio.decode.machine.greedy import Greedy, greedy_kernel, least_by
from bfio.decode.machine.state import State
from bfio.decode.policies.jsq import key
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import assign_to_least, oldest, worker_tally

#: Where requests go that start.
emptiest = least_by(key)


def assign(state: DecodeState) -> list[int | None]:
    """Hold admission back while any worker's running queue is at its cap; then fill all of them.

    The counts compared are those at the end of the last step, so that within a step workers fill
    up to the cap. A full worker has requests that end, so a run stalls only where a worker fails
    and never recovers: its cap is 0. Requests go to the worker with fewest of them.
    """
    if not state.free_slots.all():
        return [None] * state.num_waiting
    return assign_to_least(state, oldest(state), key)


@compilable
def choose(state: State, greedy: Greedy, request: int) -> int:
    """Return the worker with fewest requests, unless some worker was full before this step."""
    if state.counters[TAKEN] == 0:
        for g in range(len(state.workers.load)):
            if worker_tally(state, g).free == 0:
                return -1
    return emptiest(state, greedy, request)


SPEC = PolicySpec(
    name="balance-scheduling",
    factory=lambda _: assign,
    summary="jsq, but nothing starts while some worker is full",
    source="vllm-ascend pull request 5212",
    kernel=greedy_kernel(choose),
    why_pooled="it holds starts back, which workers do not once a request is bound to them",
)
