"""Telemetry around a run: its words, and its column of the record."""

from collections.abc import Iterator, Sequence

from bfio.decode.cluster import Cluster
from bfio.decode.features.feature import Feature
from bfio.decode.features.telemetry.metrics import METRICS
from bfio.decode.machine.state import State
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import built_in
from bfio.workloads.workload import Workload
from formulations.errors import InputError

#: Most numbers of all reports that are on their way (1 GiB).
MAX_REPORTED = 2**27


def _check(
    workload: Workload, cluster: Cluster, options: RunOptions, look_ahead: int, pauses: bool
) -> None:
    """Refuse reports so old that there is no room for them here."""
    if options.telemetry is not None:
        entries = (options.telemetry.delay + 1) * cluster.workers * (2 * look_ahead + 7)
        if entries > MAX_REPORTED:
            what = f"more than {MAX_REPORTED} numbers are on their way"
            raise InputError("telemetry", what, "use a shorter delay or look-ahead")


def _idle(
    names: Sequence[str], cluster: Cluster, options: RunOptions, tells_prompts: bool
) -> Iterator[str]:
    """Yield for which policies it changes nothing that reports are late or lost."""
    known = built_in()
    told = [name for name in dict.fromkeys(names) if name in known]
    deaf = [name for name in told if not known[name].reads_reports]
    if options.telemetry is not None and deaf:
        yield (
            f"Telemetry changes nothing for {', '.join(deaf)}: no report of a worker is read, "
            "only which slots are free."
        )


def _record(state: State) -> dict[str, object]:
    return {} if state.reports.is_on else {"refused": None}


FEATURE = Feature(
    "telemetry",
    {"telemetry": lambda _, options: options.telemetry is not None},
    setting=lambda _, options: f"telemetry {options.telemetry.text}" if options.telemetry else "",
    after="arrivals",
    check=_check,
    idle=_idle,
    record=_record,
    metrics=METRICS,
    rank=4,
)
