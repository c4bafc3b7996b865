"""Azure LLM inference trace 2023: naive time stamps with seven fractional digits."""

from bfio.workloads.cells import has_offset, timestamp, token_lengths
from bfio.workloads.trace_format import RequestRow, Row, TraceFormat


def parse(row: Row) -> RequestRow:
    """Turn one row into a request."""
    lengths = token_lengths(row, "ContextTokens", "GeneratedTokens")
    return RequestRow(timestamp(row, "TIMESTAMP", offset=False), *lengths)


def accepts(row: Row) -> bool:
    """Tell a file of 2023 from one of 2024, which has the same columns."""
    return not has_offset(row, "TIMESTAMP")


FORMAT = TraceFormat(
    name="azure-2023",
    description="Azure LLM inference trace 2023 (code and conversation)",
    source="Azure/AzurePublicDataset; Patel et al., ISCA 2024",
    columns=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    parse=parse,
    accepts=accepts,
)
