"""Stragglers around a run: its words."""

from bfio.decode.features.feature import schedule_of_workers
from bfio.decode.features.stragglers.schedule import stragglers_of

FEATURE = schedule_of_workers(
    "stragglers", "straggler", stragglers_of, lambda state: state.slowness.until_s, rank=7
)
