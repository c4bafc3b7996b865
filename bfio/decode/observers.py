"""What may watch a run: observers get one read-only view per step and sit outside the engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bfio.decode.state import DecodeState
from formulations.arrays import IntArray, integer


@dataclass(frozen=True)
class StepView:
    """One executed step.

    Parameters
    ----------
    step : int
        Decode step, from 0.
    start_s, duration_s : float
        When the step starts and how long it lasts [s].
    loads : IntArray
        Shape (G,): loads after admission, before growth [tokens].
    running : IntArray
        Shape (G,): requests decoded in this step.
    waiting : int
        Requests that wait after admission.
    admitted : IntArray
        Requests that start at this step, as indices in the workload.
    finished : IntArray
        Requests that leave at the end of this step.
    completed : int
        Requests that have left since the run began, these included.
    state : DecodeState or None
        What the policy saw; None if it had nothing to decide, and with immediate dispatch.
    decision : tuple or None
        What it answered.
    """

    step: int
    start_s: float
    duration_s: float
    loads: IntArray
    running: IntArray
    waiting: int
    admitted: IntArray
    finished: IntArray
    completed: int
    state: DecodeState | None
    decision: tuple[int | None, ...] | None


class Observer(Protocol):
    """Anything that wants to see each step.

    One with a method ``on_ask(decision)`` is told every answer of the policy as well, also those
    after which nothing runs, so that no step is executed.
    """

    def on_step(self, view: StepView) -> None:
        """Look at one executed step."""
        ...


@dataclass(frozen=True)
class Watching:
    """What looks at a run, and when it stops; see `bfio.decode.simulation.simulate`."""

    observers: Sequence[Observer] = ()
    keep_trajectory: bool = True
    stop: Callable[[], bool] | None = None

    def is_stopped(self) -> bool:
        """Whether the run is to end now."""
        return self.stop is not None and self.stop()


class TrajectoryObserver:
    """Keeps loads and running requests of every step and worker."""

    def __init__(self) -> None:
        self._loads: list[IntArray] = []
        self._running: list[IntArray] = []

    def on_step(self, view: StepView) -> None:
        """Keep the two vectors of this step."""
        self._loads.append(view.loads)
        self._running.append(view.running)

    def loads(self, num_workers: int) -> IntArray:
        """Return the loads so far, shape (K, G) [tokens]."""
        return np.array(self._loads, dtype=np.int64).reshape(-1, num_workers)

    def running(self, num_workers: int) -> IntArray:
        """Return the running requests so far, shape (K, G)."""
        return np.array(self._running, dtype=np.int64).reshape(-1, num_workers)


class ProgressObserver:
    """Calls back every so many steps, for a progress bar.

    Parameters
    ----------
    report : callable
        Gets the view of the step.
    every : int
        Steps between two calls; the first comes after ``every`` steps.
    """

    def __init__(self, report: Callable[[StepView], None], every: int = 100) -> None:
        self._report = report
        self._every = integer(every, "every", minimum=1)

    def on_step(self, view: StepView) -> None:
        """Report if it is time to."""
        if (view.step + 1) % self._every == 0:
            self._report(view)

    def report(self, view: StepView) -> None:
        """Report now: a compiled run shows the last of many steps."""
        self._report(view)
