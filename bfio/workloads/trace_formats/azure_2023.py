"""Azure LLM inference trace 2023: naive time stamps with seven fractional digits."""

from bfio.workloads.request_columns import RequestColumns, TimeColumn, TimeText
from bfio.workloads.trace_format import TraceFormat

_TIME = TimeColumn("TIMESTAMP", TimeText.LOCAL)

FORMAT = TraceFormat(
    name="azure-2023",
    description="Azure LLM inference trace 2023 (code and conversation)",
    source="Azure/AzurePublicDataset; Patel et al., ISCA 2024",
    columns=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    parse=RequestColumns("ContextTokens", "GeneratedTokens", _TIME),
    # Those of 2024 have the same columns.
    accepts=_TIME.accepts,
)
