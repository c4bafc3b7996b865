"""Mooncake: JSON Lines, times in milliseconds.

Prompts are equal if their lengths and the hashes of all their blocks of 512 tokens are: the last
block may be shorter, and its hash is one of what it holds.
"""

from bfio.workloads.cells import token_count
from bfio.workloads.request_columns import HashColumn, RequestColumns, TimeColumn, TimeText
from bfio.workloads.trace_format import Layout, Row, TraceFormat

HASHES = HashColumn("hash_ids")


def _prompt_key(row: Row) -> tuple[int, bytes] | None:
    """Return length and hashes of a prompt; None if its row has no hashes."""
    prompt = token_count(row, "input_length")
    hashes = HASHES(row, prompt)
    # As bytes, which compare faster than arrays and can be keys.
    return None if hashes is None else (prompt, hashes.tobytes())


FORMAT = TraceFormat(
    name="mooncake",
    description="Mooncake traces (Kimi; JSON Lines, milliseconds)",
    source="kvcache-ai/Mooncake; Qin et al., FAST 2025",
    # Without hashes the same names are in use for times in seconds.
    columns=("timestamp", "input_length", "output_length", "hash_ids"),
    parse=RequestColumns(
        "input_length",
        "output_length",
        TimeColumn("timestamp", TimeText.WHOLE, per_second=1000),
        _prompt_key,
        HASHES,
    ),
    layout=Layout.JSON_LINES,
    accepts=lambda row: isinstance(row.get("timestamp"), int),
)
