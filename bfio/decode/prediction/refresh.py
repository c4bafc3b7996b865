"""When a predictor is asked, and what holds in between (BalanceRoute, appendix C.2.3)."""

import numpy as np

from bfio.decode.machine.counters import ACTIVE, ADMITTED, STEP
from bfio.decode.machine.endings import FAR
from bfio.decode.machine.moves import ages_of
from bfio.decode.machine.state import State
from bfio.decode.predictor import CheckedPredictor
from formulations.arrays import IntArray


class Refresh:
    """The step with which each running request is predicted to end.

    A request is predicted when it starts, after every q tokens (``refresh`` of the predictor) and
    when it outlives its prediction; in between each token takes one step off. One that is
    predicted to outlive the window does so until it is predicted again.
    """

    def __init__(self, predictor: CheckedPredictor, num_requests: int, look_ahead: int) -> None:
        self._predictor, self._look_ahead = predictor, look_ahead
        # With q = 1 nothing holds for longer than a step: it is enough to ask when one decides.
        self._holds = predictor.refresh > 1
        self._last = np.full(num_requests, -1, dtype=np.int64)
        # Requests that started with this step and were asked about.
        self._asked = 0

    def begin_step(self, state: State) -> None:
        """Ask about running requests whose turn it is."""
        self._asked = 0
        if not self._holds:
            return
        step, active = state.counters[STEP], _running(state)
        ages = ages_of(state, active)
        due = (ages % self._predictor.refresh == 0) | (self._last[active] < step)
        # Nothing has started yet at this step but those that are back from the host.
        due |= state.marks.start[active] == step
        self._ask(active[due], ages[due], step)

    def admitted(self, state: State) -> None:
        """Ask about requests that have started since the last call in this step."""
        if self._holds:
            started = state.lists.started[self._asked : state.counters[ADMITTED]]
            self._asked += len(started)
            self._ask(started, state.requests.emitted[started], state.counters[STEP])

    def remaining(self, state: State) -> IntArray:
        """Return the predicted remaining steps of the running requests, in their order."""
        step, active = state.counters[STEP], _running(state)
        if self._holds:
            # Late decisions may have taken effect in this step already.
            self.admitted(state)
        else:
            self._ask(active, ages_of(state, active), step)
        left: IntArray = self._last[active] - step + 1
        return left

    def _ask(self, requests: IntArray, ages: IntArray, step: int) -> None:
        steps = self._predictor.remaining(requests, ages, self._look_ahead)
        if not self._predictor.counts_down:
            steps = np.where(steps > self._look_ahead, FAR, steps)
        self._last[requests] = step + steps - 1


def _running(state: State) -> IntArray:
    return state.lists.running[: state.counters[ACTIVE]]
