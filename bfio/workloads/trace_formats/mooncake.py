"""Mooncake: JSON Lines, times in milliseconds.

Prompts are equal if their lengths and the hashes of all their blocks of 512 tokens are: the last
block may be shorter, and its hash is one of what it holds.
"""

from array import array

from bfio.workloads.cells import bad_cell, token_count
from bfio.workloads.request_columns import RequestColumns, TimeColumn
from bfio.workloads.trace_format import Layout, Row, TraceFormat


def _prompt_key(row: Row) -> tuple[int, bytes] | None:
    """Return length and hashes of a prompt; None if its row has no hashes."""
    hashes = row.get("hash_ids")
    if hashes is None:
        return None
    try:
        if not isinstance(hashes, list):
            raise TypeError
        # As bytes: a list of a thousand integers takes four times as much.
        return token_count(row, "input_length"), array("q", hashes).tobytes()
    except (TypeError, OverflowError):
        raise bad_cell("hash_ids", f"{hashes!r:.40} is no list of integers") from None


FORMAT = TraceFormat(
    name="mooncake",
    description="Mooncake traces (Kimi; JSON Lines, milliseconds)",
    source="kvcache-ai/Mooncake; Qin et al., FAST 2025",
    columns=("timestamp", "input_length", "output_length"),
    parse=RequestColumns(
        "input_length", "output_length", TimeColumn("timestamp", per_second=1000), _prompt_key
    ),
    layout=Layout.JSON_LINES,
    # Fractions are times of another unit under the same name.
    accepts=lambda row: isinstance(row.get("timestamp"), int),
)
