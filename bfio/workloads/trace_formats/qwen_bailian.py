"""Qwen-Bailian: JSON Lines, times in seconds under the name that Mooncake has for milliseconds.

Its ``hash_ids`` are of blocks of 16 tokens and are not read.
"""

from bfio.workloads.request_columns import RequestColumns, TimeColumn
from bfio.workloads.trace_format import Layout, TraceFormat

FORMAT = TraceFormat(
    name="qwen-bailian",
    description="Qwen-Bailian anonymous traces (JSON Lines, seconds)",
    source="alibaba-edu/qwen-bailian-usagetraces-anon; Wang et al., USENIX ATC 2025",
    columns=("chat_id", "timestamp", "input_length", "output_length", "turn"),
    parse=RequestColumns("input_length", "output_length", TimeColumn("timestamp")),
    layout=Layout.JSON_LINES,
)
