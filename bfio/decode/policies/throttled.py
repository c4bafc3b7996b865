"""Throttled: the first worker under a threshold."""

from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import Tally, oldest


class Throttled:
    """Oldest request to the first worker with a free slot and less than ``Θ`` tokens.

    When every open worker holds ``Θ`` tokens or more, the rest waits: the one policy here that
    leaves slots idle on purpose. If nothing runs or was assigned anywhere the oldest request is
    admitted all the same, to the first open worker, so that a run never stalls.

    ``Θ`` is ``cap_threshold``; without one it is the mean load per worker after a full admission,
    ``⌈(Σ loads + Σ sizes of the U oldest) / G⌉``, taken anew at each step.
    BF-IO, appendix A.1.1.
    """

    def __init__(self, options: PolicyOptions) -> None:
        self._threshold = options.cap_threshold

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign oldest first until no open worker is under the threshold."""
        tally = Tally(state)
        threshold = self._threshold if self._threshold is not None else fair_share(state)
        idle = not state.running.any()
        for request in oldest(state):
            workers = tally.open_workers()
            under = [g for g in workers if tally.tokens[g] < threshold]
            if under:
                tally.assign(request, under[0])
            elif idle and request == 0:
                tally.assign(request, workers[0])
            else:
                break
        return tally.assignment


def fair_share(state: DecodeState) -> int:
    """Mean load per worker if the ``U`` oldest requests were admitted, rounded up [tokens]."""
    admitted = int(state.sizes[: state.num_admissible].sum())
    total = int((state.loads + state.queued_tokens).sum()) + admitted
    return -(-total // state.num_workers)


SPEC = PolicySpec(
    name="throttled",
    factory=Throttled,
    summary="oldest request to the first worker under a token threshold (--cap-threshold)",
    source="BF-IO, appendix A.1.1",
)
