"""Azure LLM inference trace 2024: UTC offsets; rows with and without a fraction are mixed."""

from bfio.workloads.cells import has_offset, timestamp, token_lengths
from bfio.workloads.trace_format import RequestRow, Row, TraceFormat


def parse(row: Row) -> RequestRow:
    """Turn one row into a request."""
    lengths = token_lengths(row, "ContextTokens", "GeneratedTokens")
    return RequestRow(timestamp(row, "TIMESTAMP", offset=True), *lengths)


def accepts(row: Row) -> bool:
    """Tell a file of 2024 from one of 2023, which has the same columns."""
    return has_offset(row, "TIMESTAMP")


FORMAT = TraceFormat(
    name="azure-2024",
    description="Azure LLM inference trace 2024 (one week, code and conversation)",
    source="Azure/AzurePublicDataset; Stojkovic et al., HPCA 2025",
    columns=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    parse=parse,
    accepts=accepts,
)
