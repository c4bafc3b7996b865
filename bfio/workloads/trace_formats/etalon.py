"""Etalon (and Vidur's untimed files): token counts only.

The published files also have ``num_total_tokens`` and ``pd_ratio``. Neither is read: forks of the
format write prefill/decode and decode/prefill under that one name.
"""

from bfio.workloads.column_choice import is_moment
from bfio.workloads.request_columns import RequestColumns
from bfio.workloads.trace_format import TraceFormat

FORMAT = TraceFormat(
    name="etalon",
    description="Etalon processed traces (token counts, no arrival times)",
    source="project-etalon/etalon; Agrawal et al., Georgia Tech",
    columns=("num_prefill_tokens", "num_decode_tokens"),
    parse=RequestColumns("num_prefill_tokens", "num_decode_tokens"),
    # With times it would be another format.
    accepts=lambda row: not any(is_moment(name) for name in row),
)
