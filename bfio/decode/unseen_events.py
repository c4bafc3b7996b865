"""Schedules of which nothing came to pass, so that runs are as without them."""

from collections.abc import Iterator, Sequence

import numpy as np

from bfio.decode.features.failures.schedule import failures_of
from bfio.decode.features.stragglers.schedule import stragglers_of
from bfio.decode.options import NO_EVENTS
from bfio.decode.run import Run
from formulations.arrays import FloatArray


def unseen_events(runs: Sequence[Run]) -> Iterator[str]:
    """Yield which schedules no run saw anything of, a sentence each.

    Parameters
    ----------
    runs : sequence of Run
        Runs that differ in the policy only.
    """
    options, workers = runs[0].options, runs[0].cluster.workers
    last_s = max((float(run.start_s[-1]) for run in runs if run.steps), default=0.0)
    if options.failures != NO_EVENTS:
        failures = failures_of(options.failures, workers, options.seed)
        yield from _later("failure", failures.time_s, last_s)
    if options.stragglers != NO_EVENTS:
        stragglers = stragglers_of(options.stragglers, workers, options.seed)
        yield from _later("straggler", stragglers.time_s, last_s)
    if options.cancellations != NO_EVENTS and not any(
        np.any(run.cancel_step >= 0) for run in runs
    ):
        yield "No client gave up before its request was done: the runs are as if none ever did."


def _later(what: str, time_s: FloatArray, last_s: float) -> Iterator[str]:
    """Yield that the first event comes after the last step has begun, if so."""
    if len(time_s) == 0:
        yield f"The schedule has no {what}: the runs are as without one."
    elif time_s[0] > last_s:
        yield (
            f"No {what} came to pass: the first is at {time_s[0]:,.6g} s, and the last step "
            f"begins at {last_s:,.6g} s. Times are in seconds from the start of the run."
        )
