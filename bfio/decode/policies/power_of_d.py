"""Power of d choices."""

from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import Tally, oldest


class PowerOfChoices:
    """Oldest request to the worker with fewest requests among ``d`` sampled ones.

    The sample is drawn without replacement from the workers with a free slot (all of them if
    fewer than ``d``); ties go to the lowest index. BF-IO, appendix A.1.1; d = 2 by default.
    """

    def __init__(self, options: PolicyOptions) -> None:
        self._choices = options.choices

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest requests."""
        tally = Tally(state)
        for request in oldest(state):
            workers = tally.open_workers()
            if len(workers) > self._choices:
                sample = state.rng.choice(len(workers), size=self._choices, replace=False)
                workers = [workers[int(k)] for k in sample]
            tally.assign(request, min(workers, key=lambda g: (tally.requests[g], g)))
        return tally.assignment


SPEC = PolicySpec(
    name="power-of-2",
    factory=PowerOfChoices,
    summary="oldest request to the emptier of d sampled workers (--choices, 2 by default)",
    source="BF-IO, appendix A.1.1; BalanceRoute, section 6.1",
    dispatch=BOTH_DISPATCHES,
)
