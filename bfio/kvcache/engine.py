"""The engine for any policy: the phases of the machine as they are, around its decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bfio.common.answers import checked_choice
from bfio.common.engine_choice import Engine
from bfio.common.users_code import policy_statistics, users_code
from bfio.kvcache.machine.phases import (
    admit,
    close_batch,
    close_gaps,
    is_over,
    leave_open,
    open_batch,
)
from bfio.kvcache.machine.state import (
    ARRIVAL,
    BATCH,
    BELIEVED,
    CHANGES,
    CLOCK,
    END,
    GOES_ON,
    LEVEL,
    NEED,
    REQUEST,
    RUNNING,
    USED,
    WAITING,
    State,
    enlarged,
    is_full,
    new_record,
    new_state,
    order_of,
    settings_of,
)
from bfio.kvcache.record import finished_run
from bfio.kvcache.state import CacheState, Waiting
from formulations.arrays import IntArray, frozen
from formulations.errors import InputError

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
    record = new_record()
    decisions = _Decisions(state, order_of(instance), policy, name, rng)
    ended = GOES_ON
    while ended == GOES_ON and not is_over(state):
        if is_full(record, state):
            record = enlarged(record, state)
        ended = open_batch(state, record, rng)
        if ended == GOES_ON:
            decisions.start_requests()
            ended = close_batch(state, record)
    leave_open(state, record)
    statistics = policy_statistics(policy, name)
    return finished_run(
        instance, name, state, record, ended, engine=Engine.REFERENCE, statistics=statistics
    )


class _Decisions:
    """What the policy is shown and what it answers."""

    def __init__(
        self,
        state: State,
        order: IntArray,
        policy: CachePolicy,
        name: str,
        rng: np.random.Generator,
    ) -> None:
        self.state, self.order, self.rng = state, order, rng
        self.policy, self.name = policy, name
        self.seen: tuple[int, Waiting] | None = None

    def start_requests(self) -> None:
        """Let the requests start that the policy chooses.

        Raises
        ------
        InputError
            If the policy raises, or its answer is no choice or does not fit.
        """
        state, counters = self.state, self.state.counters
        num_waiting = int(counters[WAITING])
        if num_waiting == 0:
            return
        where = f"policy {self.name}, clock {int(counters[CLOCK])}"
        with users_code(where, remedy="mend the policy"):
            answer = self.policy(self.shown())
        positions = checked_choice(answer, range(num_waiting), where, "position")
        if not positions:
            return
        needed = counters[USED] + state.requests[NEED, state.queue[positions]].sum()
        if needed > state.settings.memory:
            excess = needed - state.settings.memory
            what = f"the batch would exceed the memory by {excess} tokens"
            raise InputError(where, what, "start fewer requests")
        for position in positions:
            admit(state, position)
        close_gaps(state)

    def shown(self) -> CacheState:
        """Return read-only copies, so that nothing a policy does reaches the run."""
        state, counters = self.state, self.state.counters
        running = state.active[:, : counters[RUNNING]]
        running = running[:, np.argsort(running[REQUEST])]
        return CacheState(
            clock=int(counters[CLOCK]),
            memory=state.settings.memory,
            waiting=self.waiting(),
            running=frozen(self.order[running[REQUEST]]),
            need=frozen(running[LEVEL] + counters[BATCH]),
            batches_left=frozen(running[END] - counters[BATCH]),
            rng=self.rng,
        )

    def waiting(self) -> Waiting:
        """Return those who wait, in order of arrival: the same object until they change."""
        state, changes = self.state, int(self.state.counters[CHANGES])
        if self.seen is None or self.seen[0] != changes:
            requests = state.queue[: state.counters[WAITING]]
            rows = (self.order, *(state.requests[row] for row in (ARRIVAL, NEED, BELIEVED)))
            self.seen = changes, Waiting(*(frozen(row[requests]) for row in rows))
        return self.seen[1]
