"""The format of this project: seconds since the start of the trace, or a blank column.

Times are kept as they are, so that a window cut out of a longer trace keeps its place in it.
"""

from bfio.workloads.request_columns import HashColumn, KeyColumn, RequestColumns, TimeColumn
from bfio.workloads.trace_format import TraceFormat

#: May be left out: equal prompts have equal cells.
KEYS = KeyColumn("prompt_key")
#: May be left out: hashes of the blocks of a prompt, with spaces between them.
HASHES = HashColumn("block_hashes")
FORMAT = TraceFormat(
    name="bfio",
    description="this project's own format (what `bfio traces convert` writes)",
    source="bfio",
    columns=("arrival_time_s", "prompt_tokens", "output_tokens"),
    parse=RequestColumns(
        "prompt_tokens",
        "output_tokens",
        TimeColumn("arrival_time_s", may_be_blank=True),
        KEYS,
        HASHES,
    ),
    keeps_times=True,
)
