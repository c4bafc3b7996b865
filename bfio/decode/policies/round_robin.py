"""Round-robin over the workers."""

from bfio.common.compilable import compilable
from bfio.common.options import CheckedOptions
from bfio.decode.machine.greedy import Greedy, greedy_kernel
from bfio.decode.machine.state import State
from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally, oldest, takes, worker_tally

#: Entry of `Greedy.numbers`: the next worker of the cycle.
NEXT = 0


class RoundRobin:
    """Oldest request to the next worker in the cycle, skipping those that do not take it.

    The cycle starts at worker 0 and goes on across steps. BF-IO, appendix A.1.1.
    """

    def __init__(self, options: CheckedOptions) -> None:
        self._next = 0

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest requests."""
        tally = StepTally(state)
        for request in oldest(state):
            for turn in range(state.num_workers):
                worker = (self._next + turn) % state.num_workers
                if takes(tally.workers[worker], tally.needs[request]):
                    tally.assign(request, worker)
                    self._next = (worker + 1) % state.num_workers
                    break
            else:
                break
        return tally.assignment


@compilable
def choose(state: State, greedy: Greedy, request: int) -> int:
    """Return the next open worker in the cycle."""
    num_workers = len(state.workers.load)
    for turn in range(num_workers):
        worker = (greedy.numbers[NEXT] + turn) % num_workers
        if takes(worker_tally(state, worker), state.requests.need[request]):
            greedy.numbers[NEXT] = (worker + 1) % num_workers
            return int(worker)
    return -1


SPEC = PolicySpec(
    name="round-robin",
    factory=RoundRobin,
    summary="oldest request to the next worker in the cycle with a free slot",
    source="BF-IO, appendix A.1.1",
    dispatch=BOTH_DISPATCHES,
    kernel=greedy_kernel(choose, numbers=lambda options: (0,)),
    breaks_ties=False,
    reads_reports=False,
)
