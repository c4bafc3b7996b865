"""The readable engine: it carries out what a policy decides, whatever the policy.

Times are integers. At each decision all that has arrived by then is known. The requests of a batch
pass one stage each; the engine is busy for ``d0 + d1·X`` with X their tokens.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bfio.common.answers import checked_choice
from bfio.common.users_code import policy_statistics, users_code
from bfio.wait.instance import MAX_CLOCK, StageInstance
from bfio.wait.policy import Decision, KnownRequests, StagePolicy, StageState
from bfio.wait.run import Events, Evictions, StageBatches, StageRun, StageVerdict
from formulations.arrays import IntArray, frozen, frozen_columns


@dataclass(frozen=True)
class Ending:
    """When a run ends.

    Parameters
    ----------
    horizon : int or None
        Clock value from which on no batch starts; None: when nothing is left to do.
    drain : bool
        Whether policies are told, after the last arrival, to serve what is left.
    batches : int
        Most batches; then the run is given up.
    """

    horizon: int | None = None
    drain: bool = True
    batches: int = 10**8


@dataclass(frozen=True)
class FullLog:
    """All events, as they happened."""

    recorded: Events

    def events(self) -> Events:
        """Return them."""
        return self.recorded


@dataclass
class _Engine:
    instance: StageInstance
    clock: int = 0
    revealed: int = 0
    waiting: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    batches: list[tuple[int, ...]] = field(default_factory=list)
    evictions: list[tuple[int, int]] = field(default_factory=list)
    events: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        n = len(self.instance)
        self.stage = np.zeros(n, dtype=np.int64)
        self.prefilled, self.first_token, self.completion = np.full((3, n), -1, dtype=np.int64)

    def reveal(self) -> None:
        """Let everything arrive that has by now."""
        arrival = self.instance.arrival
        while self.revealed < len(arrival) and arrival[self.revealed] <= self.clock:
            self.waiting.append(self.revealed)
            self.revealed += 1

    def evict(self, requests: Sequence[int]) -> None:
        """Take away what requests hold; they wait again at their place in order of arrival."""
        for i in requests:
            self.held.remove(i)
            insort(self.waiting, i)
            self.stage[i] = 0
            self.evictions.append((i, len(self.batches)))

    def memory(self, members: set[int]) -> int:
        """Return the tokens of a batch and of those that pause meanwhile."""
        prompt, stage = self.instance.prompt, self.stage
        inside = sum(int(prompt[i] + stage[i]) for i in members)
        return inside + sum(int(prompt[i] + stage[i]) - 1 for i in self.held if i not in members)

    def run_batch(self, batch: Sequence[int]) -> None:
        """Let the requests of a batch pass a stage each."""
        members = set(batch)
        tokens = sum(int(self.instance.prompt[i] + self.stage[i]) for i in batch)
        duration = self.instance.clock.duration(tokens)
        waiting = len(self.waiting)
        self.batches.append(
            (self.clock, duration, tokens, self.memory(members), len(batch), waiting)
        )
        self.clock += duration
        for i in sorted(members):
            self._pass_stage(i)
        self.waiting = [i for i in self.waiting if i not in members]
        present = members | set(self.held)
        self.held = sorted(i for i in present if self.completion[i] < 0)

    def _pass_stage(self, i: int) -> None:
        stage, output = int(self.stage[i]), int(self.instance.output[i])
        self.events.append((len(self.batches) - 1, i, stage))
        # What a user has been given stays given: a restart moves neither of the two times.
        if stage == 0 and self.prefilled[i] < 0:
            self.prefilled[i] = self.clock
        if stage == min(1, output) and self.first_token[i] < 0:
            self.first_token[i] = self.clock
        if stage == output:
            self.completion[i] = self.clock
        self.stage[i] += 1


def run_reference(
    instance: StageInstance,
    policy: StagePolicy,
    name: str,
    ending: Ending,
    tell: Callable[[int], None] | None = None,
) -> StageRun:
    """Run a policy over an instance, telling before each decision how many have completed.

    Raises
    ------
    InputError
        If the policy answers wrongly.
    """
    engine = _Engine(instance)
    verdict = _run(engine, policy, name, ending, tell)
    evicted = np.array(engine.evictions, dtype=np.int64).reshape(-1, 2)
    events = np.array(engine.events, dtype=np.int64).reshape(-1, 3)
    batches = np.array(engine.batches, dtype=np.int64).reshape(-1, 6)
    return StageRun(
        instance=instance,
        policy=name,
        verdict=verdict,
        horizon=ending.horizon,
        batches=StageBatches(*frozen_columns(batches)),
        prefilled=frozen(engine.prefilled),
        first_token=frozen(engine.first_token),
        completion=frozen(engine.completion),
        evictions=Evictions(*frozen_columns(evicted)),
        log=FullLog(Events(*frozen_columns(events))),
        statistics=policy_statistics(policy, name),
    )


def _run(
    engine: _Engine,
    policy: StagePolicy,
    name: str,
    ending: Ending,
    tell: Callable[[int], None] | None,
) -> StageVerdict:
    arrival = engine.instance.arrival
    while True:
        engine.reveal()
        if ending.horizon is not None and engine.clock >= ending.horizon:
            return StageVerdict.HORIZON
        nothing_left = engine.revealed == len(arrival) and not engine.waiting and not engine.held
        if nothing_left:
            return StageVerdict.FINISHED if ending.horizon is None else StageVerdict.HORIZON
        if len(engine.batches) >= ending.batches or engine.clock >= MAX_CLOCK:
            return StageVerdict.STOPPED
        if tell is not None:
            tell(engine.revealed - len(engine.waiting) - len(engine.held))
        decision = _decide(engine, policy, name, ending.drain)
        engine.evict(decision.evict)
        if decision.batch:
            engine.run_batch(decision.batch)
        elif decision.evict:
            # Others wait now: the policy is asked again. Each time fewer hold something.
            continue
        elif engine.revealed < len(arrival):
            engine.clock = int(arrival[engine.revealed])
        else:
            return StageVerdict.STUCK if ending.horizon is None else StageVerdict.HORIZON


def _decide(engine: _Engine, policy: StagePolicy, name: str, drain: bool) -> Decision:
    state = StageState(
        instance=KnownRequests.of(engine.instance, engine.revealed, policy),
        clock=engine.clock,
        waiting=list(engine.waiting),
        held=list(engine.held),
        stage=_read_only(engine.stage[: engine.revealed]),
        is_draining=drain and engine.revealed == len(engine.instance),
    )
    where = f"policy {name}, batch {len(engine.batches)}"
    with users_code(where, remedy="mend the policy"):
        answer = policy(state)
    given = answer if isinstance(answer, Decision) else Decision(answer)
    held, waiting = set(engine.held), set(engine.waiting)
    evict = checked_choice(given.evict, held, where, "request")
    return Decision(checked_choice(given.batch, held | waiting, where, "request"), evict)


def _read_only(values: IntArray) -> IntArray:
    view = values.view()
    view.flags.writeable = False
    return view
