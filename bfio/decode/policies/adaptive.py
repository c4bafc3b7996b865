"""The policy `adaptive`: the two-stage heuristic with the look-ahead chosen by rehearsals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from bfio.common.kernel_groups import load, load_if_compiled
from bfio.decode.adaptive import memory as kept
from bfio.decode.adaptive.memory import Memory
from bfio.decode.option_kinds import look_ahead_option
from bfio.decode.policies.balance_route import StageOptions, two_stage_of
from bfio.decode.policy import LooksAhead
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.step.two_stage.heuristic import prepare_kernels

if TYPE_CHECKING:
    from formulations.arrays import IntArray

#: The kernel group of a rehearsal.
KERNELS = "adaptive decisions"


@dataclass(frozen=True)
class AdaptiveOptions(StageOptions):
    """Options of the policy `adaptive`."""

    look_ahead: int = look_ahead_option(80, "largest look-ahead in steps (80)")


class Adaptive(LooksAhead):
    """The policy `adaptive`: chooses discount, window length and penalty of `br-h` by rehearsals.

    `bfio.decode.adaptive` describes settings and rehearsals. The policy receives the lengths of
    requests that end (`finished`). Lengths of other requests are known only through the window of
    at most ``look_ahead`` steps.
    """

    def __init__(self, options: AdaptiveOptions) -> None:
        self.look_ahead = options.look_ahead
        self.parameters = options.parameters()
        self._memory: Memory | None = None
        self._requests = _Requests()
        prepare_kernels()
        load_if_compiled(KERNELS)

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign waiting requests by the current setting, after a rehearsal if one is due."""
        if state.num_admissible == 0:
            return [None] * state.num_waiting
        if not self._requests.follows(state):
            self._memory, self._requests = None, _Requests()
        memory = self._memory = self._memory or kept.new_memory(
            state.num_workers, state.slots, self.look_ahead, 0, self.parameters
        )
        seen, known = memory.seen, self._requests
        known.reveal(state)
        kept.look(seen, state.step, known.completed, state.running)
        if kept.is_due(seen, state.running, state.num_workers * state.slots):
            load(KERNELS)
            known.write_scene(memory, state)
            _rehearse(memory, state)
        setting = int(seen.counts[kept.CURRENT])
        columns = kept.set_weights(memory.rule, setting, state.num_workers)
        penalty = int(memory.rule.penalty[setting]) * state.num_workers
        answer = two_stage_of(
            state,
            memory.rule.reward[:columns].tolist(),
            replace(self.parameters, beta=Fraction(penalty)),
        )
        kept.note_decision(seen)
        runs = state.projected_running
        seen.foretold[:] = runs[:, 0] - runs[:, 1] if runs.shape[1] > 1 else 0
        seen.running[:] = state.running
        known.start(answer, state.step, seen.running)
        return answer

    def finished(self, requests: IntArray, outputs: IntArray) -> None:
        """Record the requests that ended, in order of arrival, and their output lengths."""
        self._requests.finish(requests, outputs)

    def statistics(self) -> dict[str, object]:
        """Return counts of rehearsals and of decisions by setting, and the step of each choice."""
        return kept.statistics(self._memory or kept.new_memory(1, 1, 0, 0, self.parameters))


class _Requests:
    """The policy's own record of all requests seen, in order of arrival."""

    def __init__(self) -> None:
        self.completed = 0
        self._prompt: list[int] = []
        self._start: list[int] = []
        self._worker: list[int] = []
        self._length: list[int] = []
        self._waiting: list[int] = []
        self._running: set[int] = set()

    def follows(self, state: DecodeState) -> bool:
        """Return whether a state can be the next state of the same run."""
        left = [self._prompt[i] for i in self._waiting]
        same_waiting: bool = state.sizes[: len(left)].tolist() == left
        return same_waiting and len(self._running) == sum(state.running.tolist())

    def reveal(self, state: DecodeState) -> None:
        """Record the requests that wait for the first time."""
        new = state.sizes[len(self._waiting) :].tolist()
        first = len(self._prompt)
        self._waiting += range(first, first + len(new))
        self._prompt += new
        for book in (self._start, self._worker, self._length):
            book += [-1] * len(new)

    def start(self, answer: list[int | None], step: int, running: IntArray) -> None:
        """Record the requests that start, and count them in ``running``, shape (G,)."""
        for request, worker in zip(self._waiting, answer, strict=True):
            if worker is not None:
                self._start[request], self._worker[request] = step, worker
                self._running.add(request)
                running[worker] += 1
        self._waiting = [i for i in self._waiting if self._start[i] < 0]

    def finish(self, requests: IntArray, outputs: IntArray) -> None:
        """Record the requests that have ended."""
        for request, output in zip(requests.tolist(), outputs.tolist(), strict=True):
            self._length[request] = output
            self._running.remove(request)
            self.completed += 1

    def write_scene(self, memory: Memory, state: DecodeState) -> None:
        """Write the running, the waiting and the last revealed requests into the scene."""
        scene, counts = memory.scene, memory.seen.counts
        look_ahead = state.projected_loads.shape[1] - 1
        counts[kept.TELLS] = int(kept.windows_tell(memory.seen, state.remaining, look_ahead))
        ahead = counts[kept.AHEAD_KNOWN] = int(counts[kept.TELLS]) * look_ahead
        # If the policy joined a run midway, the running requests are unknown.
        left = dict(zip(sorted(self._running), state.remaining.tolist(), strict=False))
        num_past = min(len(self._prompt), scene.past.shape[1])
        for column in range(num_past):
            request = len(self._prompt) - 1 - column
            length, is_open = self._length[request], False
            if request in left:
                length = state.step - self._start[request] + min(left[request], ahead)
                is_open = left[request] > ahead
            elif length < 0:
                length, is_open = 0, True
            scene.past[:, column] = self._prompt[request], length, is_open
        for column, (request, steps) in enumerate(left.items()):
            known = steps if steps <= ahead else 0
            scene.running[:, column] = (
                self._prompt[request], self._worker[request], self._start[request], known
            )  # fmt: skip
        num_waiting = min(state.num_waiting, len(scene.waiting))
        scene.waiting[:num_waiting] = state.sizes[:num_waiting]
        counts[kept.PAST], counts[kept.RUNNING] = num_past, len(self._running)
        counts[kept.WAITING] = num_waiting


def _rehearse(memory: Memory, state: DecodeState) -> None:
    from bfio.decode.adaptive.rehearsal import rehearse

    grown = state.contributions[:, 1:2] > state.contributions[:, :1]
    rehearse(memory, state.step, bool(np.any(grown)))


SPEC = PolicySpec(
    name="adaptive",
    factory=Adaptive,
    options=AdaptiveOptions(),
    summary=(
        "BR-H with window, discount and penalty chosen by rehearsals ([adaptive.md](adaptive.md))"
    ),
    source="this toolkit",
    kernel="bfio.decode.adaptive.rehearsal:KERNEL",
    interruptible=False,
    why_pooled="it chooses by rehearsals, which are of pooled dispatch",
)
