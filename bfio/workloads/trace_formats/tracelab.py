"""TraceLab: rounds of agents, whose prompts are what was said before and what is new.

A round begins when the one before has ended and its tool has answered, so rounds have no arrival
times; ``arrival_time``, where it is there, is that of the session.
"""

from bfio.workloads.request_columns import RequestColumns
from bfio.workloads.trace_format import TraceFormat

FORMAT = TraceFormat(
    name="tracelab",
    description="TraceLab rounds of agents (no arrival times of rounds)",
    source="uw-syfi/TraceLab",
    columns=("round_idx", "prefix_len", "input_len", "output_len"),
    parse=RequestColumns("input_len", "output_len", prefix="prefix_len"),
)
