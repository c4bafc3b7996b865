"""The engine for any policy: the phases of the machine as they are, around its decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bfio.common.answers import checked_choice
from bfio.common.engine_choice import Engine
from bfio.common.users_code import policy_statistics
from bfio.kvcache.machine import (
    BATCH,
    CHANGES,
    CLOCK,
    RUNNING,
    USED,
    WAITING,
    MachineState,
    admit,
    close_gaps,
    finished_run,
    new_record,
    new_state,
    order_of,
    run_batches,
    settings_of,
)
from bfio.kvcache.policy import CacheState, Waiting
from formulations.arrays import IntArray, frozen
from formulations.errors import InputError
from formulations.named_objects import users_code

if TYPE_CHECKING:
    from bfio.kvcache.instance import CacheInstance
    from bfio.kvcache.policy import CachePolicy
    from bfio.kvcache.run import CacheLimits, CacheRun


def run_reference(
    instance: CacheInstance,
    policy: CachePolicy,
    name: str,
    believed: IntArray,
    rng: np.random.Generator,
    limits: CacheLimits,
) -> CacheRun:
    """Serve the instance.

    Parameters
    ----------
    instance : CacheInstance
        What to serve.
    policy : CachePolicy
        Who starts when.
    name : str
        Its name.
    believed : IntArray
        Shape (n,): batches each request is believed to occupy.
    rng : numpy.random.Generator
        The only source of randomness.
    limits : CacheLimits
        When to give up.
    """
    settings = settings_of(instance, policy, limits, shortest_first=False)
    state = new_state(instance, believed, settings, interpreted=True)
    decisions = _Decisions(order_of(instance), policy, name, rng)
    ended, record = run_batches(state, new_record(), decisions.start_requests, rng)
    statistics = policy_statistics(policy, name)
    return finished_run(
        instance, name, state, record, ended, engine=Engine.REFERENCE, statistics=statistics
    )


class _Decisions:
    """What the policy is shown and what it answers."""

    def __init__(
        self, order: IntArray, policy: CachePolicy, name: str, rng: np.random.Generator
    ) -> None:
        self.order, self.policy, self.name, self.rng = order, policy, name, rng
        self.seen: tuple[int, Waiting] | None = None

    def start_requests(self, state: MachineState) -> None:
        """Let the requests start that the policy chooses.

        Raises
        ------
        InputError
            If the policy raises, or its answer is no choice or does not fit.
        """
        counters = state.counters
        num_waiting = int(counters[WAITING])
        if num_waiting == 0:
            return
        where = f"policy {self.name}, clock {int(counters[CLOCK])}"
        with users_code(where, remedy="mend the policy"):
            answer = self.policy(self.shown(state))
        positions = checked_choice(answer, range(num_waiting), where, "position")
        if not positions:
            return
        needed = counters[USED] + state.requests.need[state.queue[positions]].sum()
        if needed > state.settings.memory:
            excess = needed - state.settings.memory
            what = f"the batch would exceed the memory by {excess} tokens"
            raise InputError(where, what, "start fewer requests")
        for position in positions:
            admit(state, position)
        close_gaps(state)

    def shown(self, state: MachineState) -> CacheState:
        """Return read-only copies, so that nothing a policy does reaches the run."""
        counters = state.counters
        numbers = state.running.request[: counters[RUNNING]]
        by_arrival = np.argsort(numbers)
        return CacheState(
            clock=int(counters[CLOCK]),
            memory=state.settings.memory,
            waiting=self.waiting(state),
            running=frozen(self.order[numbers[by_arrival]]),
            need=frozen(state.running.level[by_arrival] + counters[BATCH]),
            batches_left=frozen(state.running.end[by_arrival] - counters[BATCH]),
            rng=self.rng,
        )

    def waiting(self, state: MachineState) -> Waiting:
        """Return those who wait, in order of arrival: the same object until they change."""
        changes = int(state.counters[CHANGES])
        if self.seen is None or self.seen[0] != changes:
            numbers, requests = state.queue[: state.counters[WAITING]], state.requests
            rows = (self.order, requests.arrival, requests.need, requests.believed)
            self.seen = changes, Waiting(*(frozen(row[numbers]) for row in rows))
        return self.seen[1]
