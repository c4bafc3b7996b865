"""Check that a row kind describes the contents of its rows."""

from bfio.studies import kinds
from bfio.studies.row import RowResult


def undescribed(kind: str, row: RowResult) -> list[str]:
    """Return the values, series and timings of a row that its kind does not describe."""
    names = [*row.values, *row.series, *row.timings]
    return [name for name in names if not kinds.describe(kind, name).text]
