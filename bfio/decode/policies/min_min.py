"""Min-Min on the earliest completion time.

Repeat: take the pair of least ``ECT = load_g + s_i``, until slots or requests run out. Any waiting
request and any worker with a free slot compete; loads count what this step has assigned. As every
worker would add the same ``s_i``, that pair is the smallest request on the least loaded worker.
"""

from bfio.common.compilable import compilable
from bfio.decode.policy_spec import BOTH_DISPATCHES, greedy_policy
from bfio.decode.tally import ServingOrder, WorkerTally


@compilable
def key(worker: WorkerTally) -> int:
    """Least loaded."""
    return worker.tokens


SPEC = greedy_policy(
    "min-min",
    key,
    ServingOrder.SMALLEST,
    summary="smallest request of the pool to the least loaded worker",
    source="BF-IO, appendix A.1.1",
    dispatch=BOTH_DISPATCHES,
)
