"""Mooncake: JSON Lines, times in milliseconds; the hashes of 512-token blocks are not read."""

from bfio.workloads.request_columns import RequestColumns, TimeColumn
from bfio.workloads.trace_format import Layout, TraceFormat

FORMAT = TraceFormat(
    name="mooncake",
    description="Mooncake traces (Kimi; JSON Lines, milliseconds)",
    source="kvcache-ai/Mooncake; Qin et al., FAST 2025",
    columns=("timestamp", "input_length", "output_length"),
    parse=RequestColumns(
        "input_length", "output_length", TimeColumn("timestamp", per_second=1000)
    ),
    layout=Layout.JSON_LINES,
    # Fractions are times of another unit under the same name.
    accepts=lambda row: isinstance(row.get("timestamp"), int),
)
