"""Refresh of predictions: the steps at which a predictor is called again (BalanceRoute, C.2.3)."""

import numpy as np

from bfio.decode.machine.counters import ACTIVE, ADMITTED, STEP
from bfio.decode.machine.endings import FAR
from bfio.decode.machine.moves import ages_of
from bfio.decode.machine.state import State
from bfio.prediction.predictor import CheckedPredictor
from formulations.arrays import IntArray


class Refresh:
    """The predicted last step of each running request.

    A request is predicted when it starts, after every q tokens (``refresh`` of the predictor), and
    when it outlives its prediction. In between, each token reduces the remaining steps by one. A
    request predicted to outlive the window keeps this prediction until the next one.
    """

    def __init__(self, predictor: CheckedPredictor, num_requests: int, look_ahead: int) -> None:
        self._predictor, self._look_ahead = predictor, look_ahead
        # With q = 1, a prediction is valid for one step only, so it suffices to ask at decisions.
        self._holds = predictor.refresh > 1
        self._last = np.full(num_requests, -1, dtype=np.int64)
        # Number of requests started in this step that have been asked about.
        self._asked = 0

    def begin_step(self, state: State) -> None:
        """Call the predictor for running requests that are due."""
        self._asked = 0
        if not self._holds:
            return
        step, active = state.counters[STEP], _running(state)
        ages = ages_of(state, active)
        due = (ages % self._predictor.refresh == 0) | (self._last[active] < step)
        # No request has started in this step yet, except those back from the host.
        due |= state.marks.start[active] == step
        self._ask(active[due], ages[due], step)

    def admitted(self, state: State) -> None:
        """Call the predictor for requests that started in this step since the last call."""
        if self._holds:
            started = state.lists.started[self._asked : state.counters[ADMITTED]]
            self._asked += len(started)
            self._ask(started, state.requests.emitted[started], state.counters[STEP])

    def remaining(self, state: State) -> IntArray:
        """Return the predicted remaining steps of the running requests, in their order."""
        step, active = state.counters[STEP], _running(state)
        if self._holds:
            # Delayed decisions may have taken effect in this step already.
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
