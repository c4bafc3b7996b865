"""BurstGPT, release 3: two more columns, in the middle, and times written as floats.

``Session ID`` is empty on rows of the API log; it is not read.
"""

from bfio.workloads.trace_format import TraceFormat
from bfio.workloads.trace_formats import burstgpt_1

FORMAT = TraceFormat(
    name="burstgpt-3",
    description="BurstGPT release 3 (adds session and elapsed time)",
    source=burstgpt_1.FORMAT.source,
    columns=("Timestamp", "Session ID", "Elapsed time", *burstgpt_1.FORMAT.columns[1:]),
    parse=burstgpt_1.FORMAT.parse,
)
