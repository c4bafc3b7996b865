"""BurstGPT, releases 1 and 2: whole seconds from midnight of the first day.

Failed requests are rows with 0 response tokens.
"""

from bfio.workloads.cells import seconds, token_lengths
from bfio.workloads.trace_format import RequestRow, Row, TraceFormat


def parse(row: Row) -> RequestRow:
    """Turn one row into a request."""
    lengths = token_lengths(row, "Request tokens", "Response tokens")
    return RequestRow(seconds(row, "Timestamp"), *lengths)


FORMAT = TraceFormat(
    name="burstgpt-1",
    description="BurstGPT releases 1 and 2 (ChatGPT and GPT-4 requests of a university)",
    source="HPMLL/BurstGPT; Wang et al., KDD 2025",
    columns=(
        "Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type",
    ),
    parse=parse,
)  # fmt: skip
