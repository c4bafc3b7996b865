"""Why a run that is not over goes on no more: its policy starts nobody, or nobody can start."""

import numpy as np

from bfio.decode.machine.counters import QUEUED, REVEALED, STEP, SWAPPED, WAITING
from bfio.decode.machine.moves import first_waiting
from bfio.decode.machine.state import State
from bfio.decode.tally import takes, worker_tally
from formulations.errors import InputError

#: Workers that are named.
_MOST_NAMED = 4


def stalled(policy: str, state: State) -> InputError:
    """Return what is wrong where nothing runs and nothing happens any more.

    Parameters
    ----------
    policy : str
        Name of the policy.
    state : State
        The run.
    """
    counters = state.counters
    step, waits = int(counters[STEP]), counters[WAITING] + counters[QUEUED] + counters[SWAPPED]
    failed = _failed(state)
    if failed and not _somebody_fits(state):
        return InputError(
            f"failures, step {step}",
            f"nothing can run any more: {waits} requests wait, and workers never recover: "
            f"{_named(failed)}",
            "let workers recover, or limit the run by --steps",
        )
    what = (
        f"stalled: nothing runs, nothing can arrive, {waits} requests wait and none was admitted"
    )
    remedy = "admit at least one request when no worker is busy"
    if failed:
        what += f"; workers never recover: {_named(failed)}"
        remedy = f"let workers recover, limit the run by --steps, or {remedy}"
    return InputError(f"policy {policy}, step {step}", what, remedy)


def _failed(state: State) -> list[tuple[int, float]]:
    """Return the workers that are down, all failures and recoveries past, and since when [s]."""
    time_s, worker = state.outages.time_s, state.outages.worker
    down = np.flatnonzero(state.machine.slots == 0).tolist()
    return [(g, float(time_s[worker == g].max())) for g in down]


def _somebody_fits(state: State) -> bool:
    """Whether a request in the pool could start on some worker."""
    pool = state.pool[first_waiting(state) : state.counters[REVEALED]]
    workers = [worker_tally(state, g) for g in range(len(state.machine.slots))]
    needs = state.requests.need[pool].tolist()
    return any(takes(worker, need) for worker in workers for need in needs)


def _named(failed: list[tuple[int, float]]) -> str:
    names = [f"worker {g} failed at {time:g} s" for g, time in failed[:_MOST_NAMED]]
    return ", ".join(names + ["..."] * (len(failed) > _MOST_NAMED))
