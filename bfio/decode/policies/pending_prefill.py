"""The policy `pending-prefill`: least prefill backlog, fewest requests, earliest free slot."""

from dataclasses import dataclass

import numpy as np

from bfio.common.options import CheckedOptions
from bfio.decode.option_kinds import look_ahead_option
from bfio.decode.policy import LooksAhead
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally, assign_each


@dataclass(frozen=True)
class PendingPrefillOptions(CheckedOptions):
    """Options of `pending-prefill`."""

    look_ahead: int = look_ahead_option(20, "look-ahead steps (20)")


class PendingPrefill(LooksAhead):
    """The policy `pending-prefill`: oldest request to the worker with the least prefill backlog.

    The backlog [tokens] sums the prompts bound to a worker but not running, the prompts assigned
    in this step and, with token budgets, the uncomputed part of running prompts. Ties go to the
    worker with fewest requests, then to the worker on which a running request ends soonest. Ends
    are known only with a predictor, and only within the window.
    """

    def __init__(self, options: PendingPrefillOptions) -> None:
        self.look_ahead = options.look_ahead

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest waiting requests, where ``U`` is the number that can start."""
        backlog: list[int] = (state.queued_tokens + state.pending_prefill).tolist()
        ends = first_ends(state)

        def choose(tally: StepTally, request: int, workers: list[int]) -> int:
            keys = [(backlog[g], tally.workers[g].requests, ends[g], g) for g in workers]
            worker = min(keys)[-1]
            backlog[worker] += tally.sizes[request]
            return worker

        return assign_each(state, choose)


def first_ends(state: DecodeState) -> list[int]:
    """Return the steps until a running request of each worker ends; H + 1 if no end is known."""
    has_ended = state.projected_running < state.projected_running[:, :1]
    ends = np.where(has_ended.any(axis=1), has_ended.argmax(axis=1), has_ended.shape[1])
    found: list[int] = ends.tolist()
    return found


SPEC = PolicySpec(
    name="pending-prefill",
    factory=PendingPrefill,
    options=PendingPrefillOptions(),
    summary=(
        "oldest request to the worker with least pending prefill, then fewest requests, then the "
        "earliest end"
    ),
    source="tpu-inference pull requests 2577, 2780, 3315",
)
