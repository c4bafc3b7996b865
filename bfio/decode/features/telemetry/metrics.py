"""The metric of reports that are late or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bfio.common.metrics import MetricTable, Value

if TYPE_CHECKING:
    from bfio.decode.metrics.part import RunPart

METRICS: MetricTable[RunPart] = MetricTable()


@METRICS.metric(
    "refused",
    "requests",
    "decisions that found no memory on their worker, of which reports told otherwise",
)
def _refused(part: RunPart) -> Value:
    refused = part.run.refused
    return None if refused is None else int(refused[part.steps].sum())
