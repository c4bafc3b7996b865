"""Vidur: seconds from the first request, printed with as many digits as the float needed."""

from bfio.workloads.cells import seconds, token_lengths
from bfio.workloads.trace_format import RequestRow, Row, TraceFormat


def parse(row: Row) -> RequestRow:
    """Turn one row into a request."""
    lengths = token_lengths(row, "num_prefill_tokens", "num_decode_tokens")
    return RequestRow(seconds(row, "arrived_at"), *lengths)


FORMAT = TraceFormat(
    name="vidur",
    description="Vidur processed traces with arrival times",
    source="microsoft/vidur; Agrawal et al., MLSys 2024",
    columns=("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
    parse=parse,
)
