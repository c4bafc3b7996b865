"""Routers that estimate the load of workers between two load reports.

A report holds the number of tokens on a worker. Until the next report, the router adds the prompts
sent since, and optionally one token per step and request. The router does not see requests that
end in between. All workers report together, at the first decision at least ``every`` steps after
the last report.
"""

from dataclasses import dataclass

import numpy as np

from bfio.common.array_kernels import add_times, copy_to
from bfio.common.compilable import compilable
from bfio.common.options import CheckedOptions, option, whole
from bfio.decode.machine.counters import STEP
from bfio.decode.machine.greedy import Greedy, greedy_kernel
from bfio.decode.machine.state import State
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally, assign_each, takes, worker_tally
from formulations.arrays import IntArray

# Entries of `Greedy.numbers`: steps between reports, tokens per step and request, step of the last
# report, and step of the last decision. Rows of `Greedy.sampled`: estimated requests and tokens.
(EVERY, GROWTH, REPORTED, SEEN) = range(4)
(REQUESTS, TOKENS) = range(2)


@dataclass(frozen=True)
class MinimumTokensOptions(CheckedOptions):
    """Options of `minimum-tokens`, as in the version removed from sglang (sglang pull 11170)."""

    report_every: int = option(40, whole(1), "N", "steps between two reports (40)")


@dataclass(frozen=True)
class TotalTokensOptions(CheckedOptions):
    """Options of `total-tokens`; the default report interval was measured in the source."""

    report_every: int = option(60, whole(1), "N", "steps between two reports (60)")


class ReportedTokens:
    """Assign the oldest request to the worker of fewest estimated tokens.

    Reports come every ``every`` steps; with 1 the rule equals `jsq-tokens`. Each request is
    estimated to grow by ``growth`` tokens per step.
    """

    def __init__(self, every: int, growth: int) -> None:
        self._numbers = np.array([every, growth, -1, 0])
        self._believed = np.zeros((2, 0), dtype=np.int64)

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest waiting requests, where ``U`` is the number that can start."""
        held = np.array([state.running + state.queued, state.loads + state.queued_tokens])
        if self._believed.size == 0:
            self._believed = held.copy()
        believed = self._believed
        bring_up_to_date(self._numbers, believed, held, state.step)

        def choose(tally: StepTally, request: int, workers: list[int]) -> int:
            worker = min(workers, key=lambda g: (believed[TOKENS, g], g))
            believed[:, worker] += 1, tally.sizes[request]
            return worker

        return assign_each(state, choose)


@compilable(allocates=True)
def choose(state: State, greedy: Greedy, request: int) -> int:
    """Return the open worker with the fewest estimated tokens."""
    numbers, believed, step = greedy.numbers, greedy.sampled, state.counters[STEP]
    if numbers[REPORTED] < 0 or numbers[SEEN] != step:
        held = np.empty_like(believed)
        for g in range(held.shape[1]):
            worker = worker_tally(state, g)
            held[REQUESTS, g], held[TOKENS, g] = worker.requests, worker.tokens
        bring_up_to_date(numbers, believed, held, step)
    best = -1
    for g in range(len(state.workers.load)):
        if takes(worker_tally(state, g), state.requests.need[request]) and (
            best < 0 or believed[TOKENS, g] < believed[TOKENS, best]
        ):
            best = g
    if best >= 0:
        believed[REQUESTS, best] += 1
        believed[TOKENS, best] += state.requests.size[request]
    return best


@compilable(allocates=True)
def bring_up_to_date(numbers: IntArray, believed: IntArray, held: IntArray, step: int) -> None:
    """Update the estimates: read a new report if due, else add growth since the last decision.

    ``held``, shape (2, G), is the true state of the workers; ``believed``, with the same rows, is
    the estimate.
    """
    if numbers[REPORTED] < 0 or step - numbers[REPORTED] >= numbers[EVERY]:
        copy_to(believed[REQUESTS], held[REQUESTS])
        copy_to(believed[TOKENS], held[TOKENS])
        numbers[REPORTED] = step
    else:
        grown = numbers[GROWTH] * (step - numbers[SEEN])
        add_times(believed[TOKENS], believed[REQUESTS], grown)
    numbers[SEEN] = step


Options = MinimumTokensOptions | TotalTokensOptions


def _policy(name: str, growth: int, options: Options, summary: str, source: str) -> PolicySpec:
    return PolicySpec(
        name=name,
        factory=lambda own: ReportedTokens(own.report_every, growth),
        options=options,
        summary=summary,
        source=source,
        kernel=greedy_kernel(choose, numbers=lambda own: (own.report_every, growth, -1, 0)),
        breaks_ties=False,
    )


SPECS = (
    _policy(
        name="minimum-tokens",
        growth=0,
        options=MinimumTokensOptions(),
        summary=(
            "oldest request to the worker with fewest tokens: those of its last report plus "
            "prompts sent since"
        ),
        source="sglang pull request 7379",
    ),
    _policy(
        name="total-tokens",
        growth=1,
        options=TotalTokensOptions(),
        summary=("as `minimum-tokens`, plus one token per step for each request since the report"),
        source="sglang issue 16080, pull request 25235",
    ),
)
