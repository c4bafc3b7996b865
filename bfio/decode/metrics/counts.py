"""What is counted: steps, tokens, requests and what became of them."""

import numpy as np

from bfio.common.metrics import Column, MetricTable, Value, exact_sum
from bfio.decode.metrics.part import RunPart
from bfio.decode.stints import Cause

#: What is counted: steps, tokens, requests and what became of them.
COUNTS: MetricTable[RunPart] = MetricTable()


@COUNTS.metric("steps", "steps", "decode steps executed", Column("steps", place=1))
def _steps(part: RunPart) -> Value:
    return len(part.steps)


@COUNTS.metric("tokens", "tokens", "output tokens emitted")
def _tokens(part: RunPart) -> Value:
    return exact_sum(part.run.active[part.steps])


@COUNTS.metric("completed", "requests", "requests that emitted all their tokens")
def _completed(part: RunPart) -> Value:
    return len(part.completed)


@COUNTS.metric("partial", "requests", "requests that started but did not complete")
def _partial(part: RunPart) -> Value:
    return len(part.started) - len(part.completed)


@COUNTS.metric("interruptions", "requests", "times that a request left its worker undone")
def _interruptions(part: RunPart) -> Value:
    return int(np.isin(part.run.interruptions[:, 3], part.steps).sum())


@COUNTS.metric(
    "recomputed_tokens",
    "tokens",
    "prompts and emitted tokens of interrupted requests whose cache was lost",
)
def _recomputed_tokens(part: RunPart) -> Value:
    return part.interrupted_tokens(Cause.RECOMPUTATION, Cause.FAILURE)


@COUNTS.metric(
    "swapped_tokens", "tokens", "prompts and emitted tokens of requests moved to the host"
)
def _swapped_tokens(part: RunPart) -> Value:
    return part.interrupted_tokens(Cause.SWAP)


@COUNTS.metric("cancelled", "requests", "requests whose client gave up before they were done")
def _cancelled(part: RunPart) -> Value:
    return int(np.isin(part.run.cancel_step, part.steps).sum())


@COUNTS.metric("cancelled_tokens", "tokens", "tokens emitted for clients that then gave up")
def _cancelled_tokens(part: RunPart) -> Value:
    run = part.run
    return exact_sum(run.emitted_tokens[np.isin(run.cancel_step, part.steps)])
