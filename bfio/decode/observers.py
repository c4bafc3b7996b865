"""Observers of a run, which get one read-only view per step and are not part of the engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bfio.decode.state import DecodeState
from formulations.arrays import IntArray, entries, integer
from formulations.errors import InputError, kind_of
from formulations.scalars import truth


@dataclass(frozen=True)
class StepView:
    """The data of one executed step.

    Parameters
    ----------
    step : int
        Decode step, from 0.
    start_s, duration_s : float
        Start time and duration of the step [s].
    loads : IntArray
        Shape (G,): loads after admission, before growth [tokens].
    running : IntArray
        Shape (G,): number of requests decoded in this step.
    waiting : int
        Number of requests that wait after admission.
    admitted : IntArray
        Requests that start at this step, as indices in the workload.
    finished : IntArray
        Requests that finish at the end of this step, as indices in the workload.
    completed : int
        Number of requests finished since the start of the run, including this step.
    state : DecodeState or None
        State that the policy saw; None if the policy had nothing to decide, and with immediate
        dispatch.
    decision : tuple or None
        Answer of the policy, with None for requests whose worker had no memory left.
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
    """An object that is called after each step.

    If the object has a method ``on_ask(decision)``, this method is called with every answer of the
    policy, even if no request runs and no step is executed after that answer.
    """

    def on_step(self, view: StepView) -> None:
        """Process one executed step."""


@dataclass(frozen=True)
class Watching:
    """The observers of a run and its stop condition; see `bfio.decode.simulation.simulate`."""

    observers: Sequence[Observer] = ()
    keep_trajectory: bool = True
    stop: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        """Check the types of the observers and of the stop condition."""
        truth(self.keep_trajectory, "keep_trajectory")
        for k, observer in enumerate(entries(self.observers, "observers")):
            if not callable(getattr(observer, "on_step", None)):
                what = f"{kind_of(observer)} has no method on_step"
                raise InputError(f"observers[{k}]", what, "give an Observer")
        if self.stop is not None and not callable(self.stop):
            what = f"{kind_of(self.stop)} cannot be called"
            raise InputError("stop", what, "give a function without arguments")

    def is_stopped(self) -> bool:
        """Return whether the run should end now."""
        return self.stop is not None and self.stop()


class TrajectoryObserver:
    """Observer that keeps the load and running requests of every step and worker."""

    def __init__(self) -> None:
        self._loads: list[IntArray] = []
        self._running: list[IntArray] = []

    def on_step(self, view: StepView) -> None:
        """Keep the loads and the running requests of this step."""
        self._loads.append(view.loads)
        self._running.append(view.running)

    def loads(self, num_workers: int) -> IntArray:
        """Return the loads of all steps so far, shape (K, G) [tokens]."""
        return np.array(self._loads, dtype=np.int64).reshape(-1, num_workers)

    def running(self, num_workers: int) -> IntArray:
        """Return the number of running requests of all steps so far, shape (K, G)."""
        return np.array(self._running, dtype=np.int64).reshape(-1, num_workers)


class ProgressObserver:
    """Observer that calls a function every ``every`` steps, for a progress bar.

    Parameters
    ----------
    report : callable
        Called with the view of the step.
    every : int
        Number of steps between calls; the first call is after ``every`` steps.
    """

    def __init__(self, report: Callable[[StepView], None], every: int = 100) -> None:
        self._report = report
        self._every = integer(every, "every", minimum=1)

    def on_step(self, view: StepView) -> None:
        """Call the function if ``every`` steps have passed."""
        if (view.step + 1) % self._every == 0:
            self._report(view)

    def report(self, view: StepView) -> None:
        """Call the function now; a compiled run does so with the last step of a chunk."""
        self._report(view)
