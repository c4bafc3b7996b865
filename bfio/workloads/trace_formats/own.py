"""The format of this project: seconds since the start of the trace, or a blank column.

Times are kept as they are, so that a window cut out of a longer trace keeps its place in it.
"""

from bfio.workloads.cells import is_blank, seconds, token_lengths
from bfio.workloads.trace_format import RequestRow, Row, TraceFormat


def parse(row: Row) -> RequestRow:
    """Turn one row into a request; a blank arrival time means that there is none."""
    lengths = token_lengths(row, "prompt_tokens", "output_tokens")
    blank = is_blank(row, "arrival_time_s")
    return RequestRow(None if blank else seconds(row, "arrival_time_s"), *lengths)


FORMAT = TraceFormat(
    name="bfio",
    description="this project's own format (what `bfio traces convert` writes)",
    source="bfio",
    columns=("arrival_time_s", "prompt_tokens", "output_tokens"),
    parse=parse,
    keeps_times=True,
)
