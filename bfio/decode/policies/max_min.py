"""Max-Min on the earliest completion time.

Repeat: take the request whose best ``ECT = min_g load_g + s_i`` is largest, put it there. Any
waiting request and any worker with a free slot compete; loads count what this step has assigned.
The best worker is the least loaded one for every request, so the largest request goes first.
"""

from bfio.common.compilable import compilable
from bfio.decode.policy_spec import BOTH_DISPATCHES, greedy_policy
from bfio.decode.tally import ServingOrder, WorkerTally


@compilable
def key(worker: WorkerTally) -> int:
    """Least loaded."""
    return worker.tokens


SPEC = greedy_policy(
    "max-min",
    key,
    ServingOrder.LARGEST,
    summary="largest request of the pool to the least loaded worker",
    source="BF-IO, appendix A.1.1",
    dispatch=BOTH_DISPATCHES,
)
