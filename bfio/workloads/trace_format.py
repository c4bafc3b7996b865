"""What a trace format is: the columns it needs and how one row becomes a request."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from formulations.arrays import IntArray

#: Column name to cell: text in CSV, any JSON value in JSON Lines.
Row: TypeAlias = Mapping[str, object]


class Layout(StrEnum):
    """How rows are written down."""

    CSV = "csv"
    JSON_LINES = "jsonl"


class RequestRow(NamedTuple):
    """One row of a trace.

    Arrival time [s] or None, prompt and output length [tokens], what tells its prompt from others
    and the hashes of its blocks, each None if nothing does.
    """

    arrival: Fraction | None
    prompt_tokens: int
    output_tokens: int
    prompt_key: Hashable = None
    block_hashes: IntArray | None = None


def _any_row(row: Row) -> bool:
    del row
    return True


@dataclass(frozen=True)
class TraceFormat:
    """A published format, as data and two small functions.

    Parameters
    ----------
    name : str
        Short name, unique.
    description : str
        One line for listings.
    source : str
        Who publishes it, or where it is defined.
    columns : tuple of str
        Columns (keys, in JSON Lines) that must be there; further ones are ignored.
    parse : callable
        Row to `RequestRow`; raises `InputError` (see `bfio.workloads.cells`).
    layout : Layout
        CSV with a header line (default) or one JSON object per line.
    accepts : callable
        Decides on the first row between formats with the same columns.
    keeps_times : bool
        True if times already count from a stated origin; otherwise the reader counts them from
        the earliest row.
    """

    name: str
    description: str
    source: str
    columns: tuple[str, ...]
    parse: Callable[[Row], RequestRow]
    layout: Layout = Layout.CSV
    accepts: Callable[[Row], bool] = _any_row
    keeps_times: bool = False

    def matches(self, layout: Layout, header: Sequence[str], first_row: Row) -> bool:
        """Tell whether a file with this header and first row (maybe empty) is of this format."""
        return (
            layout == self.layout
            and set(self.columns) <= set(header)
            and (not first_row or self.accepts(first_row))
        )
