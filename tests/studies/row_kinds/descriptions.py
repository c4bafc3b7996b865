"""Whether a kind describes what its rows hold."""

from bfio.studies import kinds
from bfio.studies.row import RowResult


def undescribed(kind: str, row: RowResult) -> list[str]:
    """Return the values, series and timings of a row that its kind says nothing of."""
    names = [*row.values, *row.series, *row.timings]
    return [name for name in names if not kinds.describe(kind, name).text]
