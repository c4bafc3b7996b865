"""The metric of reports that are late or lost."""

from bfio.common.metrics import MetricTable, Value
from bfio.decode.run_part import RunPart

METRICS: MetricTable[RunPart] = MetricTable()


@METRICS.metric(
    "refused",
    "requests",
    "decisions that found no memory on their worker, of which reports told otherwise",
)
def _refused(part: RunPart) -> Value:
    refused = part.run.refused
    return None if refused is None else int(refused[part.steps].sum())
