"""Azure LLM inference trace 2024: UTC offsets; rows with and without a fraction are mixed."""

from bfio.workloads.request_columns import RequestColumns, TimeColumn, TimeText
from bfio.workloads.trace_format import TraceFormat

_TIME = TimeColumn("TIMESTAMP", TimeText.OFFSET)

FORMAT = TraceFormat(
    name="azure-2024",
    description="Azure LLM inference trace 2024 (one week, code and conversation)",
    source="Azure/AzurePublicDataset; Stojkovic et al., HPCA 2025",
    columns=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    parse=RequestColumns("ContextTokens", "GeneratedTokens", _TIME),
    # Those of 2023 have the same columns.
    accepts=_TIME.accepts,
)
