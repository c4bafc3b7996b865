"""Mooncake: JSON Lines, times in milliseconds; the hashes of 512-token blocks are not read."""

from bfio.workloads.cells import seconds, token_lengths
from bfio.workloads.trace_format import Layout, RequestRow, Row, TraceFormat


def parse(row: Row) -> RequestRow:
    """Turn one object into a request."""
    lengths = token_lengths(row, "input_length", "output_length")
    return RequestRow(seconds(row, "timestamp", per_second=1000), *lengths)


FORMAT = TraceFormat(
    name="mooncake",
    description="Mooncake traces (Kimi; JSON Lines, milliseconds)",
    source="kvcache-ai/Mooncake; Qin et al., FAST 2025",
    columns=("timestamp", "input_length", "output_length"),
    parse=parse,
    layout=Layout.JSON_LINES,
)
