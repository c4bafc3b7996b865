"""Metrics of decode runs, each one small function in a table."""

from bfio.decode.metrics.part import RunPart
from bfio.decode.metrics.service_levels import jain_index
from bfio.decode.metrics.table import (
    METRICS,
    half_widths,
    measure,
    measure_steady,
    measured_of,
)

__all__ = [
    "METRICS",
    "RunPart",
    "half_widths",
    "jain_index",
    "measure",
    "measure_steady",
    "measured_of",
]
