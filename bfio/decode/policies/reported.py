"""What a router believes that workers hold, between two reports of theirs.

A report says what a worker holds; until the next one the router adds what it has sent there
since, and, if told to, a token per step for each request. What ends meanwhile it does not know.
Reports of all workers come together, with the first decision that is ``every`` steps or more
after the last one.
"""

from dataclasses import dataclass

from bfio.common.compilable import compilable
from bfio.common.options import CheckedOptions, option, whole
from bfio.decode.machine.greedy import Greedy, greedy_kernel
from bfio.decode.machine.state import STEP, State
from bfio.decode.policy_spec import PolicySpec
from bfio.decode.state import DecodeState
from bfio.decode.tally import StepTally, oldest, takes, worker_tally

# Entries of `Greedy.numbers`: steps between reports, tokens per step and request, and the steps of
# the last report and of the last decision; rows of `Greedy.sampled`: requests, and their tokens.
(EVERY, GROWTH, REPORTED, SEEN) = range(4)
(REQUESTS, TOKENS) = range(2)


@dataclass(frozen=True)
class MinimumTokensOptions(CheckedOptions):
    """Options of `minimum-tokens`, as in the version that was taken out (sglang pull 11170)."""

    report_every: int = option(40, whole(1), "N", "steps between two reports (40)")


@dataclass(frozen=True)
class TotalTokensOptions(CheckedOptions):
    """Options of `total-tokens`: reports ride on streamed output, as the source measured."""

    report_every: int = option(60, whole(1), "N", "steps between two reports (60)")


class ReportedTokens:
    """Oldest request to the worker that is believed to hold fewest tokens.

    Parameters
    ----------
    every : int
        Steps between reports, >= 1; with 1 this is `jsq-tokens`.
    growth : int
        Tokens per step that each request is believed to gain.
    """

    def __init__(self, every: int, growth: int) -> None:
        self._every, self._growth = every, growth
        self._reported: int | None = None
        self._seen = 0
        self._requests: list[int] = []
        self._tokens: list[int] = []

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Assign the ``U`` oldest requests."""
        tally = StepTally(state)
        self._bring_up_to_date(state.step, tally)
        for request in oldest(state):
            workers = tally.open_workers(request)
            if not workers:
                break
            worker = min(workers, key=lambda g: (self._tokens[g], g))
            tally.assign(request, worker)
            self._requests[worker] += 1
            self._tokens[worker] += tally.sizes[request]
        return tally.assignment

    def _bring_up_to_date(self, step: int, tally: StepTally) -> None:
        if self._reported is None or step - self._reported >= self._every:
            self._reported = step
            self._requests = [worker.requests for worker in tally.workers]
            self._tokens = [worker.tokens for worker in tally.workers]
        gained = self._growth * (step - self._seen)
        if self._reported != step:
            pairs = zip(self._tokens, self._requests, strict=True)
            self._tokens = [tokens + gained * requests for tokens, requests in pairs]
        self._seen = step


@compilable
def choose(state: State, greedy: Greedy, request: int) -> int:
    """Return the open worker that is believed to hold fewest tokens."""
    bring_up_to_date(state, greedy)
    believed = greedy.sampled
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


@compilable
def bring_up_to_date(state: State, greedy: Greedy) -> None:
    """Take a new report if one is due; otherwise let what was believed grow, once a step."""
    numbers, believed, step = greedy.numbers, greedy.sampled, state.counters[STEP]
    is_due = numbers[REPORTED] < 0 or step - numbers[REPORTED] >= numbers[EVERY]
    gained = numbers[GROWTH] * (step - numbers[SEEN])
    for g in range(len(state.workers.load)):
        if is_due:
            worker = worker_tally(state, g)
            believed[REQUESTS, g] = worker.requests
            believed[TOKENS, g] = worker.tokens
        else:
            believed[TOKENS, g] += gained * believed[REQUESTS, g]
    if is_due:
        numbers[REPORTED] = step
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
        summary="fewest tokens held at the last report plus prompts sent since (--report-every)",
        source="sglang pull request 7379",
    ),
    _policy(
        name="total-tokens",
        growth=1,
        options=TotalTokensOptions(),
        summary="minimum-tokens, and a token per step and request since the report "
        "(--report-every)",
        source="sglang issue 16080, pull request 25235",
    ),
)
