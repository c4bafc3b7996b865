"""AIBrix: times in seconds, rows in no particular order."""

from bfio.workloads.request_columns import RequestColumns, TimeColumn
from bfio.workloads.trace_format import TraceFormat

FORMAT = TraceFormat(
    name="aibrix",
    description="AIBrix request logs (seconds)",
    source="vllm-project/aibrix",
    columns=("launch_time", "prompt_tokens", "generation_tokens"),
    parse=RequestColumns("prompt_tokens", "generation_tokens", TimeColumn("launch_time")),
)
