"""Built-in trace formats except Vidur's timed one, which serves as the template for new ones.

- *AIBrix*: times in seconds, rows in no particular order.
- *Azure 2023*: local timestamps with seven fractional digits. *Azure 2024*: UTC offsets; rows
  with and without a fraction are mixed. Both have the same columns.
- *BurstGPT*, releases 1 and 2: whole seconds from midnight of the first day; failed requests are
  rows with 0 response tokens. Release 3 has two more columns, in the middle, and times written as
  floats; ``Session ID`` is empty on rows of the API log and is not read.
- *Etalon* (and Vidur's untimed files): token counts only. The published files also have
  ``num_total_tokens`` and ``pd_ratio``. Neither is read: forks of the format use that name for
  both prefill/decode and decode/prefill.
- *Mooncake*: JSON Lines, times in milliseconds. Prompts are equal if their lengths and the hashes
  of all their blocks of 512 tokens are equal. The last block may be shorter; its hash covers its
  actual tokens.
- *This project's own*: seconds since the start of the trace, or a blank column. Times are kept
  unchanged, so that a window of a longer trace keeps its position.
- *Qwen-Bailian*: JSON Lines, times in seconds in a column that Mooncake uses for milliseconds.
  Its ``hash_ids`` are for blocks of 16 tokens and are not read.
- *TraceLab*: rounds of agents, whose prompts consist of the earlier conversation and new text. A
  round starts when the previous one has ended and its tool has answered, so rounds have no arrival
  times; ``arrival_time``, if present, belongs to the session.
"""

from bfio.workloads.column_choice import is_moment
from bfio.workloads.trace_format import (
    HashColumn,
    KeyColumn,
    Layout,
    RequestColumns,
    Row,
    TimeColumn,
    TimeText,
    TraceFormat,
    token_count,
)


def _azure(name: str, year: str, source: str, text: TimeText) -> TraceFormat:
    """Return one of the two Azure formats, which differ in the format of times."""
    time = TimeColumn("TIMESTAMP", text)
    return TraceFormat(
        name=name,
        description=f"Azure LLM inference trace {year}",
        source=f"Azure/AzurePublicDataset; {source}",
        columns=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
        parse=RequestColumns("ContextTokens", "GeneratedTokens", time),
        accepts=time.accepts,
    )


_BURSTGPT_COLUMNS = (
    "Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type",
)  # fmt: skip
_BURSTGPT = TraceFormat(
    name="burstgpt-1",
    description="BurstGPT releases 1 and 2 (ChatGPT and GPT-4 requests of a university)",
    source="HPMLL/BurstGPT; Wang et al., KDD 2025",
    columns=_BURSTGPT_COLUMNS,
    parse=RequestColumns("Request tokens", "Response tokens", TimeColumn("Timestamp")),
)

_MOONCAKE_HASHES = HashColumn("hash_ids")


def _mooncake_key(row: Row) -> tuple[int, bytes] | None:
    """Return length and hashes of a prompt; None if its row has no hashes."""
    prompt = token_count(row, "input_length")
    hashes = _MOONCAKE_HASHES(row, prompt)
    # Bytes compare faster than arrays and are hashable.
    return None if hashes is None else (prompt, hashes.tobytes())


#: Optional column: equal cells for equal prompts.
KEYS = KeyColumn("prompt_key")
#: Optional column: hashes of the blocks of a prompt, separated by spaces.
HASHES = HashColumn("block_hashes")
#: This project's own format.
OWN = TraceFormat(
    name="bfio",
    description="this project's own format, written by `bfio traces convert`",
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

FORMATS = (
    TraceFormat(
        name="aibrix",
        description="AIBrix request logs (seconds)",
        source="vllm-project/aibrix",
        columns=("launch_time", "prompt_tokens", "generation_tokens"),
        parse=RequestColumns("prompt_tokens", "generation_tokens", TimeColumn("launch_time")),
    ),
    _azure(
        "azure-2023", "2023 (code and conversation)", "Patel et al., ISCA 2024", TimeText.LOCAL
    ),
    _azure(
        "azure-2024",
        "2024 (one week, code and conversation)",
        "Stojkovic et al., HPCA 2025",
        TimeText.OFFSET,
    ),
    _BURSTGPT,
    TraceFormat(
        name="burstgpt-3",
        description="BurstGPT release 3 (adds session and elapsed time)",
        source=_BURSTGPT.source,
        columns=("Timestamp", "Session ID", "Elapsed time", *_BURSTGPT_COLUMNS[1:]),
        parse=_BURSTGPT.parse,
    ),
    TraceFormat(
        name="etalon",
        description="Etalon processed traces (token counts, no arrival times)",
        source="project-etalon/etalon; Agrawal et al., Georgia Tech",
        columns=("num_prefill_tokens", "num_decode_tokens"),
        parse=RequestColumns("num_prefill_tokens", "num_decode_tokens"),
        # A file with times has another format.
        accepts=lambda row: not any(is_moment(name) for name in row),
    ),
    TraceFormat(
        name="mooncake",
        description="Mooncake traces (Kimi; JSON Lines, milliseconds)",
        source="kvcache-ai/Mooncake; Qin et al., FAST 2025",
        # Other files use the names without hashes for times in seconds.
        columns=("timestamp", "input_length", "output_length", "hash_ids"),
        parse=RequestColumns(
            "input_length",
            "output_length",
            TimeColumn("timestamp", TimeText.WHOLE, per_second=1000),
            _mooncake_key,
            _MOONCAKE_HASHES,
        ),
        layout=Layout.JSON_LINES,
        accepts=lambda row: isinstance(row.get("timestamp"), int),
    ),
    OWN,
    TraceFormat(
        name="qwen-bailian",
        description="Qwen-Bailian anonymous traces (JSON Lines, seconds)",
        source="alibaba-edu/qwen-bailian-usagetraces-anon; Wang et al., USENIX ATC 2025",
        columns=("chat_id", "timestamp", "input_length", "output_length", "turn"),
        parse=RequestColumns("input_length", "output_length", TimeColumn("timestamp")),
        layout=Layout.JSON_LINES,
    ),
    TraceFormat(
        name="tracelab",
        description="TraceLab rounds of agents (no arrival times of rounds)",
        source="uw-syfi/TraceLab",
        columns=("round_idx", "prefix_len", "input_len", "output_len"),
        parse=RequestColumns("input_len", "output_len", prefix="prefix_len"),
    ),
)
