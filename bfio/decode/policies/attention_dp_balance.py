"""Attention-DP balance: starts are held back a bounded time, so that they happen together."""

from dataclasses import dataclass

from bfio.common.compilable import compilable
from bfio.common.options import CheckedOptions, option, whole
from bfio.decode.machine.counters import TAKEN, WAITING
from bfio.decode.machine.greedy import Greedy, greedy_kernel, least_by
from bfio.decode.machine.state import State
from bfio.decode.policies.jsq import key
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import assign_to_least, oldest, worker_tally

# Entries of `Greedy.numbers`: both limits, and how many decisions each has held back so far.
(TIMEOUT, BATCHING, WAITED, GATHERED) = range(4)
#: Where requests go that start.
emptiest = least_by(key)


@dataclass(frozen=True)
class AttentionDPBalanceOptions(CheckedOptions):
    """Options of `attention-dp-balance`."""

    timeout_steps: int = option(50, whole(), "N", "steps it waits for all workers (50)")
    batching_steps: int = option(10, whole(), "N", "steps it gathers requests (10)")


class AttentionDPBalance:
    """Requests start when every worker can start one, or after so many decisions without.

    Every worker can if each has a free slot and a request waits for each. Once they can, starts
    are held back for another ``batching_steps`` decisions, so that more come together. If they
    cannot for ``timeout_steps`` decisions, or some worker runs nothing, requests start anyway.
    Those that start go to the worker with fewest requests.

    Parameters
    ----------
    options : AttentionDPBalanceOptions
        Its limits.
    """

    def __init__(self, options: AttentionDPBalanceOptions) -> None:
        self._timeout, self._batching = options.timeout_steps, options.batching_steps
        self._waited = self._gathered = 0

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the oldest requests, or nothing."""
        if self._is_held(state):
            return [None] * state.num_waiting
        return assign_to_least(state, oldest(state), key)

    def _is_held(self, state: DecodeState) -> bool:
        all_run = bool(state.running.all())
        if state.free_slots.all() and state.num_waiting >= state.num_workers:
            self._waited = 0
            if not all_run:
                return False
            gathers = self._gathered < self._batching
            self._gathered = self._gathered + 1 if gathers else 0
            return gathers
        self._waited += 1
        if self._waited >= self._timeout or not all_run:
            self._waited = 0
            return False
        return True


@compilable
def choose(state: State, greedy: Greedy, request: int) -> int:
    """Return the worker with fewest requests, unless this step is held back."""
    if state.counters[TAKEN] == 0 and is_held(state, greedy):
        return -1
    return emptiest(state, greedy, request)


@compilable
def is_held(state: State, greedy: Greedy) -> bool:
    """Whether nothing starts in this step; counts the decisions held back."""
    numbers, num_workers = greedy.numbers, len(state.workers.load)
    all_free = all_run = True
    for g in range(num_workers):
        worker = worker_tally(state, g)
        all_free = all_free and worker.free > 0
        all_run = all_run and worker.requests > worker.queued
    if all_free and state.counters[WAITING] >= num_workers:
        numbers[WAITED] = 0
        if not all_run:
            return False
        gathers = numbers[GATHERED] < numbers[BATCHING]
        numbers[GATHERED] = numbers[GATHERED] + 1 if gathers else 0
        return bool(gathers)
    numbers[WAITED] += 1
    if numbers[WAITED] >= numbers[TIMEOUT] or not all_run:
        numbers[WAITED] = 0
        return False
    return True


SPEC = PolicySpec(
    name="attention-dp-balance",
    factory=AttentionDPBalance,
    options=AttentionDPBalanceOptions(),
    summary="jsq, but starts are held back until all workers can start one (--timeout-steps)",
    source="TensorRT-LLM, blog 10 (pull request 7213)",
    kernel=greedy_kernel(
        choose, numbers=lambda options: (options.timeout_steps, options.batching_steps, 0, 0)
    ),
    why_pooled="it holds starts back, which workers do not once a request is bound to them",
)
