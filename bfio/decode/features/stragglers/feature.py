"""Stragglers around a run: its words."""

from collections.abc import Iterator, Sequence

from bfio.decode.features.feature import Feature, none_came, schedule_setting
from bfio.decode.features.schedules import check_covers
from bfio.decode.features.stragglers.schedule import stragglers_of
from bfio.decode.machine.counters import NOW
from bfio.decode.machine.state import State
from bfio.decode.options import NO_EVENTS
from bfio.decode.run import Run


def _unseen(runs: Sequence[Run]) -> Iterator[str]:
    options, workers = runs[0].options, runs[0].cluster.workers
    if options.stragglers != NO_EVENTS:
        schedule = stragglers_of(options.stragglers, workers, options.seed)
        yield from none_came("straggler", schedule.time_s, runs)


def _record(state: State) -> dict[str, object]:
    check_covers("stragglers", state.slowness.until_s, float(state.clock[NOW]))
    return {}


FEATURE = Feature(
    "stragglers",
    {"stragglers": lambda _, options: options.stragglers != NO_EVENTS},
    setting=lambda _, options: schedule_setting("stragglers", options.stragglers),
    unseen=_unseen,
    record=_record,
    rank=7,
)
