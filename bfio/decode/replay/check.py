"""The check: every rule, on the record of one run."""

from bfio.decode.cluster import Cluster
from bfio.decode.replay.record import Replay
from bfio.decode.replay.reveals import REVEALS
from bfio.decode.replay.sending import SENDING
from bfio.decode.replay.shape import malformed
from bfio.decode.replay.totals import TOTALS
from bfio.decode.replay.workers import WORKERS
from bfio.decode.run import Run
from bfio.workloads.workload import Workload

_RULES = {**REVEALS, **WORKERS, **SENDING, **TOTALS}


def run_violations(run: Run, workload: Workload, cluster: Cluster) -> dict[str, int]:
    """Return the rules that a run breaks, with how often each.

    Parameters
    ----------
    run : Run
        The record to check.
    workload : Workload
        The requests it claims to have served.
    cluster : Cluster
        The machine it claims to have run on.

    Returns
    -------
    dict
        Empty if the run is right. Keys are rule names (see ``docs/engine.md``); values count the
        requests, steps or cells at fault, or give the tokens missing for sums.
    """
    if wrong := malformed(run, workload, cluster):
        return {"shape": wrong}
    replay = Replay(run, workload, cluster)
    found = {name: rule(replay) for name, rule in _RULES.items()}
    return {name: amount for name, amount in found.items() if amount}


def rules() -> dict[str, str]:
    """Return what each rule checks, by name."""
    return {name: (rule.__doc__ or "").splitlines()[0] for name, rule in _RULES.items()}
