"""Hand-written files in every published format, with the requests expected from each.

The rows are invented; they copy the form: line ends, time stamps, empty cells, floats.
"""

from dataclasses import dataclass
from fractions import Fraction

Times = tuple[Fraction, ...] | None


@dataclass(frozen=True)
class Published:
    """One file: its bytes, the name of its format, and the requests in it."""

    format: str
    content: bytes
    prompts: tuple[int, ...]
    outputs: tuple[int, ...]
    times: Times
    dropped: int = 0


def seconds(*texts: str) -> tuple[Fraction, ...]:
    """Return exact times."""
    return tuple(Fraction(text) for text in texts)


# Whole seconds from midnight, a tie at 61, a failed request 0/0 and the first row at 5, not 0.
BURSTGPT_1 = Published(
    "burstgpt-1",
    b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    b"5,ChatGPT,310,21,331,Conversation log\n"
    b"61,GPT-4,17,450,467,API log\n"
    b"61,GPT-4,0,0,0,Conversation log\n"
    b"61,ChatGPT,18,1,19,API log\n",
    (310, 17, 18),
    (21, 450, 1),
    seconds("0", "56", "56"),
    dropped=1,
)

# Two more columns in the middle, an empty session on the API row, float times far from 0. Read by
# position, "Elapsed time" (43) would be the model and the model the prompt.
BURSTGPT_3 = Published(
    "burstgpt-3",
    b"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,"
    b"Log Type\n"
    b"19440200.0,0a-1b,43,GPT-4,900,44,944,Conversation log\n"
    b"19440200.5,,2,ChatGPT,36,29,65,API log\n",
    (900, 36),
    (44, 29),
    seconds("0", "0.5"),
)

# CRLF, no line end after the last row, seven fractional digits (strptime reads six).
AZURE_2023 = Published(
    "azure-2023",
    b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    b"2023-11-16 23:59:59.9799601,4700,11\r\n"
    b"2023-11-17 00:00:01.0000000,7437,6",
    (4700, 7437),
    (11, 6),
    seconds("0", "1.0200399"),
)

# UTC offsets; rows with and without a fraction; an output of 1.
AZURE_2024 = Published(
    "azure-2024",
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
    b"2024-05-12 00:00:00+00:00,2399,6\n"
    b"2024-05-12 00:00:00.001163+00:00,76,1\n"
    b"2024-05-12 00:00:02+00:00,5,300\n",
    (2399, 76, 5),
    (6, 1, 300),
    seconds("0", "0.001163", "2"),
)

# Milliseconds; several rows on one time stamp; block hashes make a line long.
MOONCAKE = Published(
    "mooncake",
    b'{"timestamp": 3000, "input_length": 1025, "output_length": 2000, "hash_ids": [0, 1, 2]}\n'
    b'{"timestamp": 3000, "input_length": 191378, "output_length": 2, "hash_ids": ['
    + b", ".join(b"%d" % block for block in range(374))
    + b"]}\n"
    b'{"timestamp": 5997, "input_length": 9, "output_length": 3, "hash_ids": [7]}\n',
    (1025, 191378, 9),
    (2000, 2, 3),
    seconds("0", "0", "2.997"),
)

# Seconds as the shortest repr of a float: without fixed decimals, small ones with an exponent.
VIDUR = Published(
    "vidur",
    b"arrived_at,num_prefill_tokens,num_decode_tokens\n"
    b"0.0,374,44\n"
    b"5.2e-05,396,109\n"
    b"26.407057000000002,879,55\n",
    (374, 396, 879),
    (44, 109, 55),
    seconds("0", "0.000052", "26.407057000000002"),
)

ETALON = Published(
    "etalon",
    b"num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
    b"3772,54,3826,69.85185185185185\n"
    b"10,40,50,0.25\n",
    (3772, 10),
    (54, 40),
    None,
)

# Seconds under the names of Mooncake; the first time is a whole number. Blocks of 16 tokens.
QWEN_BAILIAN = Published(
    "qwen-bailian",
    b'{"chat_id": 0, "parent_chat_id": -1, "timestamp": 0, "input_length": 12, '
    b'"output_length": 9, "type": "text", "turn": 1, "hash_ids": [5]}\n'
    b'{"chat_id": 1, "parent_chat_id": 0, "timestamp": 120.5, "input_length": 33, '
    b'"output_length": 2, "type": "text", "turn": 2, "hash_ids": [5, 6, 7]}\n',
    (12, 33),
    (9, 2),
    seconds("0", "120.5"),
)

# A prompt is its prefix and what is new.
TRACELAB = Published(
    "tracelab",
    b"session_id,round_idx,prefix_len,input_len,output_len\n0,0,1000,50,7\n0,1,1057,60,9\n",
    (1050, 1117),
    (7, 9),
    None,
)

AIBRIX = Published(
    "aibrix",
    b"prompt_tokens,generation_tokens,launch_time\n10,3,1700000010.5\n20,4,1700000001.25\n",
    (20, 10),
    (4, 3),
    seconds("0", "9.25"),
)

OWN = Published(
    "bfio",
    b"arrival_time_s,prompt_tokens,output_tokens\n1800.5,7,8\n1800.50000001,9,1\n",
    (7, 9),
    (8, 1),
    # A window of a longer trace: its times stay.
    seconds("1800.5", "1800.50000001"),
)

OWN_UNTIMED = Published(
    "bfio", b"arrival_time_s,prompt_tokens,output_tokens\n,7,8\n,9,1\n", (7, 9), (8, 1), None
)

ALL = {
    "burstgpt_1": BURSTGPT_1,
    "burstgpt_3": BURSTGPT_3,
    "azure_2023": AZURE_2023,
    "azure_2024": AZURE_2024,
    "mooncake": MOONCAKE,
    "vidur": VIDUR,
    "etalon": ETALON,
    "qwen_bailian": QWEN_BAILIAN,
    "tracelab": TRACELAB,
    "aibrix": AIBRIX,
    "own": OWN,
    "own_untimed": OWN_UNTIMED,
}
