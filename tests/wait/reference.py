"""Reference engine and first come, first served, in plain lists, for comparison with the machine.

It is written from docs/wait.md and shares no code with `bfio.wait.machine`.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

from bfio.wait.fcfs import Favour, FirstComeFirstServed
from bfio.wait.policy import Decision, KnownRequests, StageInstance, StagePolicy, StageState


@dataclass
class PlainRun:
    """A run as lists: what happened until it ended.

    ``batches`` are (start, duration, tokens, memory, prompts, waiting), ``events`` (batch,
    request, stage), ``evictions`` (request, batch); ``times`` has the end of stage 0, of stage 1
    and of the last stage of each request, -1 where there is none.
    """

    batches: list[tuple[int, ...]]
    events: list[tuple[int, int, int]]
    evictions: list[tuple[int, int]]
    times: list[list[int]]


def plain_run(data: StageInstance, policy: StagePolicy, most: int) -> PlainRun:
    """Run until nothing is left to do, nothing is done, or ``most`` batches have run."""
    arrival, output = data.arrival.tolist(), data.output.tolist()
    run = PlainRun([], [], [], [[-1, -1, -1] for _ in arrival])
    clock, stage = 0, data.prompt * 0
    while len(run.batches) < most:
        there = [i for i in range(len(arrival)) if arrival[i] <= clock and run.times[i][2] < 0]
        known = sum(time <= clock for time in arrival)
        state = StageState(
            KnownRequests.of(data, known, policy),
            clock,
            waiting=[i for i in there if stage[i] == 0],
            held=[i for i in there if stage[i] > 0],
            stage=stage[:known].copy(),
            is_draining=known == len(arrival),
        )
        if not there and known == len(arrival):
            return run
        answer = policy(state)
        chosen = answer if isinstance(answer, Decision) else Decision(answer)
        for i in chosen.evict:
            stage[i] = 0
            run.evictions.append((i, len(run.batches)))
        if chosen.batch:
            clock = _batch(run, data, clock, stage.tolist(), there, list(chosen.batch))
            for i in chosen.batch:
                _give(run.times[i], int(stage[i]), output[i], clock)
                stage[i] += 1
        elif not chosen.evict and known == len(arrival):
            return run
        elif not chosen.evict:
            clock = arrival[known]
    return run


def _batch(
    run: PlainRun,
    data: StageInstance,
    clock: int,
    stage: list[int],
    there: list[int],
    batch: list[int],
) -> int:
    """Write a batch down, and return when it ends."""
    tokens = sum(int(data.prompt[i]) + stage[i] for i in batch)
    paused = [int(data.prompt[i]) + stage[i] - 1 for i in there if stage[i] and i not in batch]
    waiting = sum(stage[i] == 0 for i in there)
    duration = data.clock.duration(tokens)
    run.events += [(len(run.batches), i, stage[i]) for i in sorted(batch)]
    memory = tokens + sum(paused)
    run.batches.append((clock, duration, tokens, memory, len(batch), waiting))
    return clock + duration


def _give(times: list[int], stage: int, output: int, clock: int) -> None:
    """Note when a stage ended first."""
    for place, wanted in enumerate((0, min(1, output), output)):
        if stage == wanted and times[place] < 0:
            times[place] = clock


@dataclass(frozen=True)
class PlainFirstCome:
    """First come, first served, decided in lists."""

    rule: FirstComeFirstServed

    def __call__(self, state: StageState) -> Decision:
        """Return the next batch and the requests to evict before it."""
        sizes = {i: int(state.instance.prompt[i] + state.stage[i]) for i in state.held}
        evicted: list[int] = []
        while sum(sizes.values()) > state.instance.memory:
            evicted.append(max(sizes))
            del sizes[evicted[-1]]
        waiting = list(state.waiting)
        for i in evicted:
            insort(waiting, i)
        starts = self._starts(state, waiting, sizes)
        if self.rule.favour is Favour.ONGOING:
            return Decision(self._within_limits(sizes | starts), evicted)
        if evicted:
            starts = {}
        ongoing = sizes if self.rule.mixed or not starts else {}
        return Decision(self._within_limits(starts | ongoing), evicted)

    def _starts(
        self, state: StageState, waiting: Sequence[int], sizes: dict[int, int]
    ) -> dict[int, int]:
        room, starts = state.instance.memory - sum(sizes.values()), dict[int, int]()
        taken = len(sizes) if self.rule.favour is Favour.ONGOING else 0
        for i in waiting:
            room -= int(state.instance.prompt[i])
            if room < 0 or (self.rule.limit and taken + len(starts) >= self.rule.limit):
                break
            starts[i] = int(state.instance.prompt[i])
        return starts

    def _within_limits(self, sizes: dict[int, int]) -> list[int]:
        batch: list[int] = []
        for i in sizes:
            tokens = sum(sizes[j] for j in (*batch, i))
            too_many = self.rule.limit and len(batch) >= self.rule.limit
            if batch and (too_many or (self.rule.token_limit and tokens > self.rule.token_limit)):
                break
            batch.append(i)
        return batch
