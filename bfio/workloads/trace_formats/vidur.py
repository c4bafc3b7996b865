"""Trace format of Vidur: seconds from the first request, printed with full float precision."""

from bfio.workloads.trace_format import RequestColumns, TimeColumn, TraceFormat

FORMAT = TraceFormat(
    name="vidur",
    description="Vidur processed traces with arrival times",
    source="microsoft/vidur; Agrawal et al., MLSys 2024",
    columns=("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
    parse=RequestColumns("num_prefill_tokens", "num_decode_tokens", TimeColumn("arrived_at")),
)
