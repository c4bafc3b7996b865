"""Throttled: the first worker under a threshold."""

from dataclasses import dataclass

from bfio.common.compilable import compilable
from bfio.common.options import CheckedOptions, option, whole
from bfio.decode.features.telemetry.phases import nobody_runs
from bfio.decode.machine.counters import TAKEN, WAITING
from bfio.decode.machine.greedy import Greedy, greedy_kernel
from bfio.decode.machine.state import State
from bfio.decode.machine.waiting import first_waiting
from bfio.decode.policy_spec import BOTH_DISPATCHES, PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally, oldest, takes, worker_tally
from formulations.scalars import MAX_TOKENS

# Entries of `Greedy.numbers`: the threshold given, 0 for none, and the threshold of this step.
(GIVEN, SHARE) = range(2)


@dataclass(frozen=True)
class ThrottledOptions(CheckedOptions):
    """Options of `throttled`."""

    cap_threshold: int | None = option(
        None, whole(1, MAX_TOKENS), "N", "load limit [tokens] (the mean load)"
    )


class Throttled:
    """Oldest request to the first worker with a free slot and less than ``Θ`` tokens.

    When every open worker holds ``Θ`` tokens or more, the rest waits: the one policy here that
    leaves slots idle on purpose. If nothing runs or was assigned anywhere the oldest request is
    admitted all the same, to the first open worker, so that a run never stalls.

    ``Θ`` is ``cap_threshold``; without one it is the mean load per worker after a full admission,
    ``⌈(Σ loads + Σ sizes of the U oldest) / G⌉``, taken anew at each step.
    BF-IO, appendix A.1.1. With immediate dispatch tokens are those held and bound.
    """

    binds_together = True

    def __init__(self, options: ThrottledOptions) -> None:
        self._threshold = options.cap_threshold

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign oldest first until no open worker is under the threshold."""
        tally = StepTally(state)
        threshold = self._threshold if self._threshold is not None else fair_share(state)
        idle = not state.running.any()
        for request in oldest(state):
            workers = tally.open_workers(request)
            under = [g for g in workers if tally.workers[g].tokens < threshold]
            if under:
                tally.assign(request, under[0])
            elif workers and idle and request == 0:
                tally.assign(request, workers[0])
            else:
                break
        return tally.assignment


def fair_share(state: DecodeState) -> int:
    """Mean load per worker if the ``U`` oldest requests were admitted, rounded up [tokens]."""
    admitted = int(state.sizes[: state.num_admissible].sum())
    total = int((state.loads + state.queued_tokens).sum()) + admitted
    return -(-total // state.num_workers)


@compilable
def choose(state: State, greedy: Greedy, request: int) -> int:
    """Return the first open worker under the threshold; any if nothing runs."""
    if state.counters[TAKEN] == 0:
        greedy.numbers[SHARE] = greedy.numbers[GIVEN] or share_of(state)
    first = -1
    for g in range(len(state.workers.load)):
        worker = worker_tally(state, g)
        if takes(worker, state.requests.need[request]):
            if worker.tokens < greedy.numbers[SHARE]:
                return g
            if first < 0:
                first = g
    return first if state.counters[TAKEN] == 0 and nobody_runs(state.reports) else -1


@compilable
def share_of(state: State) -> int:
    """Return `fair_share` of the state before any request is admitted."""
    num_workers = len(state.workers.load)
    # With those whose start takes effect later: they hold slots, and their tokens are to come.
    num_free = total = 0
    for g in range(num_workers):
        worker = worker_tally(state, g)
        num_free += worker.free
        total += worker.tokens
    first = first_waiting(state)
    for position in range(first, first + min(state.counters[WAITING], num_free)):
        total += state.requests.size[state.pool[position]]
    return int((total + num_workers - 1) // num_workers)


SPEC = PolicySpec(
    name="throttled",
    factory=Throttled,
    options=ThrottledOptions(),
    summary="oldest request to the first worker under a token threshold (--cap-threshold)",
    source="BF-IO, appendix A.1.1",
    dispatch=BOTH_DISPATCHES,
    kernel=greedy_kernel(choose, numbers=lambda options: (options.cap_threshold or 0, 0)),
)
