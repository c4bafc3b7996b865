"""The readable engine: it executes the decisions of any policy.

Times are integers. At each decision all arrivals up to then are known. The requests of a batch
pass one stage each; the engine is busy for ``d0 + d1·X``, where X is the number of their tokens.
"""

from collections.abc import Callable

from bfio.common.answers import checked_choice
from bfio.common.engine_choice import Engine
from bfio.common.users_code import policy_statistics
from bfio.wait.instance import StageInstance
from bfio.wait.machine import (
    BATCH,
    CLOCK,
    COMPLETED,
    GO_ON,
    HOLDING,
    REVEALED,
    STUCK,
    Ending,
    evict,
    has_room,
    how_it_ends,
    new_course,
    new_presence,
    reveal,
    run_batch,
    wait_for_arrival,
)
from bfio.wait.policy import Decision, KnownRequests, StagePolicy, StageState
from bfio.wait.run import StageRun, finished_run, span_log, with_room
from formulations.arrays import IntArray
from formulations.named_objects import users_code


def run_reference(
    instance: StageInstance,
    policy: StagePolicy,
    name: str,
    ending: Ending,
    tell: Callable[[int], None] | None = None,
) -> StageRun:
    """Run a policy on an instance; ``tell`` gets the number of completions before a decision.

    Raises
    ------
    InputError
        If the policy returns an invalid answer.
    """
    run = _Interpreted(instance, policy, name, ending)
    ended = run.to_its_end(tell or (lambda completed: None))
    return finished_run(
        instance,
        name,
        run.course,
        ended,
        run.presence.evictions,
        span_log(run.course, run.presence),
        Engine.REFERENCE,
        policy_statistics(policy, name),
    )


class _Interpreted:
    """An interpreted run of any policy."""

    def __init__(
        self, instance: StageInstance, policy: StagePolicy, name: str, ending: Ending
    ) -> None:
        self.instance, self.policy, self.name = instance, policy, name
        self.course, self.presence = new_course(instance, ending), new_presence(len(instance))

    def to_its_end(self, tell: Callable[[int], None]) -> int:
        """Run until the end; return how it ends."""
        while True:
            reveal(self.course)
            ended = how_it_ends(self.course)
            if ended != GO_ON:
                return ended
            tell(self.course.counters[COMPLETED])
            decision = self.decide()
            if not has_room(self.course, self.presence):
                self.course, self.presence = with_room(self.course, self.presence)
            for i in decision.evict:
                evict(self.course, self.presence, i)
            if decision.batch:
                run_batch(self.course, self.presence, decision.batch, len(decision.batch))
            # Evicted requests wait, so the policy is called again. This ends, because each call
            # holds fewer.
            elif not decision.evict and not wait_for_arrival(self.course):
                return STUCK

    def decide(self) -> Decision:
        """Call the policy and check its answer."""
        counters, line = self.course.counters, self.presence.line
        revealed, first = counters[REVEALED], counters[COMPLETED]
        after = first + counters[HOLDING]
        held, waiting = line[first:after].tolist(), line[after:revealed].tolist()
        # Taken before the call, because the policy may modify the lists.
        may_go, may_run = set(held), {*held, *waiting}
        state = StageState(
            instance=KnownRequests.of(self.instance, revealed, self.policy),
            clock=counters[CLOCK],
            waiting=waiting,
            held=held,
            stage=_read_only(self.presence.stage[:revealed]),
            is_draining=self.course.ending.drain and revealed == len(self.instance),
        )
        where = f"policy {self.name}, batch {counters[BATCH]}"
        with users_code(where, remedy="mend the policy"):
            answer = self.policy(state)
        given = answer if isinstance(answer, Decision) else Decision(answer)
        evicted = checked_choice(given.evict, may_go, where, "request")
        return Decision(checked_choice(given.batch, may_run, where, "request"), evicted)


def _read_only(values: IntArray) -> IntArray:
    view = values.view()
    view.flags.writeable = False
    return view
