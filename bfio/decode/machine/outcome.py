"""Results of a run: views for observers, the final record, and errors of stalled runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.decode.features.registry import FEATURES
from bfio.decode.machine.counters import (
    ADMITTED,
    COMPLETED,
    FINISHED,
    QUEUED,
    REVEALED,
    STEP,
    SWAPPED,
    WAITING,
)
from bfio.decode.machine.moves import first_waiting
from bfio.decode.machine.state import State
from bfio.decode.observers import StepView
from bfio.decode.run import Run
from bfio.decode.tally import takes, worker_tally
from formulations.arrays import IntArray, frozen
from formulations.errors import InputError

if TYPE_CHECKING:
    from bfio.decode.features.batching import Batching
    from bfio.decode.features.pausing import Rests
    from bfio.decode.machine.state import Chunks, Record
    from bfio.decode.state import DecodeState


def step_view(
    state: State,
    record: Record,
    row: int,
    seen: DecodeState | None = None,
    decision: tuple[int | None, ...] | None = None,
) -> StepView:
    """Return the view of the last step for observers; ``row`` is its row of the record.

    The view includes the state that the policy saw and the policy's answer, if known.
    """
    counters = state.counters
    return StepView(
        step=int(counters[STEP]) - 1,
        start_s=float(record.start_s[row]),
        duration_s=float(record.duration_s[row]),
        loads=frozen(record.loads[row].copy()),
        running=frozen(record.running[row].copy()),
        waiting=int(record.waiting[row]),
        admitted=frozen(np.sort(state.lists.started[: counters[ADMITTED]])),
        finished=frozen(np.sort(state.lists.ended[: counters[FINISHED]])),
        completed=int(counters[COMPLETED]),
        state=seen,
        decision=decision,
    )


def finished_run(
    state: State,
    chunks: Chunks,
    rests: Rests | None = None,
    batching: Batching | None = None,
    **told: Any,
) -> Run:
    """Return the record of a run, with read-only arrays; ``told`` are further fields of `Run`."""
    record, marks = chunks.joined(), state.marks
    # Stored as a single number.
    nowhere = np.broadcast_to(np.int64(-1), len(marks.last))
    if len(state.cancellations.time_s) > 0:
        # A request that arrived and was cancelled after the last step belongs to no step.
        state.reveal_s[marks.reveal == state.counters[STEP]] = np.nan
        marks.reveal[marks.reveal == state.counters[STEP]] = -1
    kept: dict[str, Any] = {name: frozen(array) for name, array in record._asdict().items()}
    if not chunks.keeps:
        kept |= {"loads": None, "running": None}
    if state.settings.one_pace:
        kept["balanced_s"] = None
    for feature in FEATURES:
        kept |= feature.record(state)
    if batching is not None:
        rests = batching.rests
        kept["chunks"] = batching.log()
    if rests is not None:
        kept |= {"rests": rests.log(), "max_pauses": rests.max_pauses}
    emitted = emitted_tokens(state)
    # In place, which saves memory: from here on, the state is not needed.
    marks.last[marks.last >= state.counters[STEP]] = -1
    return Run(
        reveal_step=frozen(marks.reveal),
        start_step=frozen(marks.first),
        last_start_step=frozen(marks.start),
        finish_step=frozen(marks.last),
        worker=frozen(marks.worker),
        bound_step=frozen(marks.bound),
        prompt_tokens=frozen(state.requests.prompt),
        emitted_tokens=frozen(emitted),
        cancel_step=frozen(marks.cancel) if len(marks.cancel) else nowhere,
        reveal_s=frozen(state.reveal_s),
        arrival_s=frozen(state.arrival_s) if state.settings.timed else None,
        **kept,
        **told,
    )


def emitted_tokens(state: State) -> IntArray:
    """Return the tokens that each request has emitted so far, shape (n,)."""
    if state.counters[COMPLETED] == len(state.pool) and len(state.cancellations.time_s) == 0:
        return state.requests.output
    step, marks = state.counters[STEP], state.marks
    runs = marks.last >= 0
    since = np.minimum(marks.last + 1, step) - marks.start
    return state.requests.emitted + np.where(runs, since, 0)


#: Largest number of workers that a message names.
_MOST_NAMED = 4


def stalled(policy: str, state: State) -> InputError:
    """Return the error of a run in which no request runs and no event is pending."""
    counters = state.counters
    step, waits = int(counters[STEP]), counters[WAITING] + counters[QUEUED] + counters[SWAPPED]
    failed = _failed(state)
    if failed and not _somebody_fits(state):
        return InputError(
            f"failures, step {step}",
            f"no request can run: {waits} requests wait, and workers never recover: {failed}",
            "let workers recover, or limit the run by steps=N",
        )
    what = f"stalled: no request runs or can arrive, {waits} requests wait and none was admitted"
    remedy = "admit at least one request when no worker is busy"
    if failed:
        what += f"; workers never recover: {failed}"
        remedy = f"let workers recover, limit the run by steps=N, or {remedy}"
    return InputError(f"policy {policy}, step {step}", what, remedy)


def _failed(state: State) -> str:
    """Return a text that names the workers that never recover, and their failure times, or ""."""
    time_s, worker = state.outages.time_s, state.outages.worker
    down = np.flatnonzero(state.machine.slots == 0).tolist()
    names = [f"worker {g} failed at {time_s[worker == g].max():g} s" for g in down[:_MOST_NAMED]]
    return ", ".join(names + ["..."] * (len(down) > _MOST_NAMED))


def _somebody_fits(state: State) -> bool:
    """Return whether a request in the pool could start on some worker."""
    pool = state.pool[first_waiting(state) : state.counters[REVEALED]]
    workers = [worker_tally(state, g) for g in range(len(state.machine.slots))]
    needs = state.requests.need[pool].tolist()
    return any(takes(worker, need) for worker in workers for need in needs)
