"""BurstGPT, releases 1 and 2: whole seconds from midnight of the first day.

Failed requests are rows with 0 response tokens.
"""

from bfio.workloads.request_columns import RequestColumns, TimeColumn
from bfio.workloads.trace_format import TraceFormat

FORMAT = TraceFormat(
    name="burstgpt-1",
    description="BurstGPT releases 1 and 2 (ChatGPT and GPT-4 requests of a university)",
    source="HPMLL/BurstGPT; Wang et al., KDD 2025",
    columns=(
        "Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type",
    ),
    parse=RequestColumns("Request tokens", "Response tokens", TimeColumn("Timestamp")),
)  # fmt: skip
