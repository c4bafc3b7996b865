"""Resting requests: a request keeps worker, slot and memory for a step and emits no token.

A resting request is removed before the step, so that measurement, completion and growth apply to
running requests only. After the step the request is restored, and its end is one step later. So
the phases of a step (`bfio.decode.machine.phases`) are the same with and without rests. Compiled
runs do not support rests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.checking import number
from bfio.common.metrics import NOTHING, Average, Column, MetricTable, Value
from bfio.decode.features.feature import Feature, RuleTable
from bfio.decode.machine.counters import ACTIVE, KNOWN, STEP
from bfio.decode.machine.endings import add_ending
from bfio.decode.machine.moves import end, growth, occupy, strike_from_wheel
from bfio.decode.machine.phases import run_step
from bfio.decode.policy import Decision, shown
from bfio.decode.state import ActiveRequests
from bfio.decode.stints import stints_of
from formulations.arrays import IntArray, frozen
from formulations.errors import InputError
from formulations.words import counted

if TYPE_CHECKING:
    from bfio.decode.cluster import Cluster
    from bfio.decode.machine.state import Record, State
    from bfio.decode.replay import Replay
    from bfio.decode.run import Run, RunPart


class _Rest(NamedTuple):
    """The last rest of each request, shape (n,); -1 if the request has not rested."""

    #: First step of the rest, and first step after the rest.
    first: IntArray
    end: IntArray
    stint: IntArray  #: First step of the stint (stay on a worker) that contains the rest.
    row: IntArray  #: Index of the rest in the log of all rests.


class Rests:
    """Current and past rests in a run of a policy that pauses, or with token budgets.

    ``max_pauses`` (``P``) is the largest number of consecutive steps that a request may rest; None
    if batches determine the rests.
    """

    def __init__(self, num_requests: int, max_pauses: int | None) -> None:
        self.max_pauses = max_pauses
        self._last = _Rest(*(np.full(num_requests, -1, dtype=np.int64) for _ in range(4)))
        self._log: list[list[int]] = []

    def steps_rested(self, state: State, requests: IntArray) -> IntArray:
        """Return how many consecutive steps each active request has rested so far, shape (A,)."""
        last = _Rest(*(column[requests] for column in self._last))
        goes_on = (last.end == state.counters[STEP]) & (last.stint == state.marks.start[requests])
        return np.where(goes_on, last.end - last.first, 0)

    def run_step(self, state: State, record: Record, row: int, resting: IntArray) -> None:
        """Run a step as `phases.run_step` does, while the requests in ``resting`` rest."""
        self._note(state, resting)
        aside = [(request, set_aside(state, request)) for request in resting.tolist()]
        run_step(state, record, row)
        for request, load in aside:
            take_back(state, request, load)

    def _note(self, state: State, resting: IntArray) -> None:
        step, last = int(state.counters[STEP]), self._last
        begins = self.steps_rested(state, resting) == 0
        for request in resting[begins].tolist():
            last.row[request] = len(self._log)
            self._log.append([request, step, step])
        last.first[resting[begins]] = step
        last.stint[resting] = state.marks.start[resting]
        last.end[resting] = step + 1
        for request in resting.tolist():
            self._log[last.row[request]][2] = step + 1

    def log(self) -> IntArray:
        """Return all rests in the format of `bfio.decode.run.Run.rests`, shape (m, 3)."""
        return frozen(np.array(self._log, dtype=np.int64).reshape(-1, 3))


def active_requests(state: State, rests: Rests | None) -> ActiveRequests:
    """Return the requests that have a slot before this step, in order of arrival."""
    active = np.sort(state.lists.running[: state.counters[ACTIVE]])
    loads = [state.requests.size[request] + growth(state, request) for request in active.tolist()]
    rested = np.zeros_like(active) if rests is None else rests.steps_rested(state, active)
    worker, prompt = state.marks.worker[active], state.requests.prompt[active]
    columns = (active, worker, np.array(loads, dtype=np.int64), rested, prompt)
    return ActiveRequests(*map(frozen, columns))


def set_aside(state: State, request: int) -> int:
    """Remove a resting request from its worker for this step; return its load [tokens].

    No other request can take the slot or memory, because all starts of this step have taken place.
    """
    step, last = int(state.counters[STEP]), int(state.marks.last[request])
    strike_from_wheel(state, request, last)
    if state.sight[KNOWN] and last <= step + state.settings.look_ahead:
        add_ending(state, request, last, -1)
    load = int(state.requests.size[request]) + growth(state, request)
    end(state, request)
    return load


def take_back(state: State, request: int, load: int) -> None:
    """Restore a request on its worker after a step at which it rested.

    The step counts neither as an emitted token nor for growth. ``emitted`` and ``size`` are set to
    the values of a request that runs from ``start`` until now without a rest.
    """
    step, requests = int(state.counters[STEP]), state.requests
    requests.emitted[request] -= 1
    requests.size[request] = load - growth(state, request)
    last = int(state.marks.last[request]) + 1
    state.marks.last[request] = last
    occupy(state, request, int(state.marks.worker[request]), load)
    # The last column of the window is not filled yet: the next step adds its endings.
    if state.sight[KNOWN] and last < step + state.settings.look_ahead:
        add_ending(state, request, last, 1)


def check_at_least_one_runs(state: State, resting: IntArray, policy: str) -> None:
    """Raise InputError if all active requests rest, so that no request emits a token."""
    if len(resting) == state.counters[ACTIVE]:
        what = "all active requests rest and none starts"
        remedy = "let at least one request run"
        raise InputError(f"policy {policy}, step {int(state.counters[STEP])}", what, remedy)


def checked_rests(
    answer: object, active: ActiveRequests, max_pauses: int, policy: str, step: int
) -> IntArray:
    """Return the requests that rest by a policy's answer, shape (r,), in order of arrival.

    Raises InputError if an index is not one of the active requests (with a slot before this step),
    occurs twice, or belongs to a request that has rested ``max_pauses`` consecutive steps.
    """
    where, most = f"policy {policy}, step {step}", len(active.request) - 1
    rests = answer.rests if isinstance(answer, Decision) else ()
    for place in rests:
        is_whole = isinstance(place, int | np.integer) and not isinstance(place, bool)
        if not is_whole or not 0 <= place <= most:
            what = f"rest {shown(place)} is not the index of an active request"
            raise InputError(where, what, f"use indices 0..{most} in active")
        if active.rested[place] >= max_pauses:
            what = (
                f"active request {place} has rested {counted(int(active.rested[place]), 'step')}"
            )
            raise InputError(where, what, f"let the request run: max_pauses is {max_pauses}")
    if len(set(rests)) < len(rests):
        raise InputError(where, "an index occurs twice in the rests", "give each index once")
    return active.request[np.sort(np.array(rests, dtype=np.int64))]


def check_nobody_rests(answer: object, policy: str, step: int) -> None:
    """Raise InputError if a decision pauses requests but the policy is not a pausing policy."""
    if isinstance(answer, Decision) and answer.rests:
        what = "pauses requests, but declares no max_pauses"
        remedy = "give it an attribute max_pauses, the most steps in a row"
        raise InputError(f"policy {policy}, step {step}", what, remedy)


RULES = RuleTable()


def _malformed_rests(run: Run, cluster: Cluster) -> int:
    """Count rests that are too malformed for a replay."""
    if run.rests is None:
        return 0
    if run.rests.ndim != 2 or run.rests.shape[1:] != (3,):
        return 1
    who, first, end = run.rests.T
    wrong = number((who < 0) | (who >= run.num_requests))
    return wrong + number((first < 0) | (first >= end) | (end > run.steps))


@RULES.rule("rests")
def _rests(replay: Replay) -> int:
    """Check that requests pause only while they have a slot, and no longer than allowed."""
    run, stints, batches = replay.run, replay.stints, replay.batches
    if run.rests is None or (run.max_pauses is None) != batches:
        return int(run.rests is not None or run.max_pauses is not None)
    if len(run.rests) == 0:
        return 0
    if len(stints.request) == 0:
        return len(run.rests)
    order = np.lexsort((run.rests[:, 1], run.rests[:, 0]))
    who, first, end = run.rests[order].T
    which = stints_of(run.rests[order], stints.request, stints.start, run.steps)
    wrong = 0 if run.max_pauses is None else number(end - first > run.max_pauses)
    # A request runs in its first step, unless its prompt is still to be computed. A request that
    # returns from the host may rest at once.
    begin = stints.start[which] + (stints.was_waiting[which] & (not batches))
    wrong += number((stints.request[which] != who) | (first < begin) | (end > stints.end[which]))
    # Two rests without a step in between are one rest, unless the request was away.
    same = which[1:] == which[:-1]
    wrong += number(same & (first[1:] <= end[:-1]))
    # A request emits its last token in its last step, so it cannot rest then.
    return wrong + number(end == run.finish_step[who] + 1)


METRICS: MetricTable[RunPart] = MetricTable()
METRICS.metric("rests", "requests", "requests at rest, summed over steps")(
    lambda part: None if part.run.rests is None else int(part.run.resting()[part.steps].sum())
)


@METRICS.average(
    "rest_share",
    "1",
    "share of active requests that rest, over steps",
    Column("at rest", is_share=True, by_default=False),
)
def _rest_share(part: RunPart) -> Average:
    if part.run.rests is None:
        return NOTHING
    resting = part.run.resting()[part.steps]
    return Average(resting, (resting + part.run.active[part.steps]).astype(np.float64))


@METRICS.metric("longest_rest", "steps", "longest rest that began at these steps")
def _longest_rest(part: RunPart) -> Value:
    rests = part.run.rests
    if rests is None:
        return None
    began = rests[np.isin(rests[:, 1], part.steps)]
    return int((began[:, 2] - began[:, 1]).max(initial=0))


FEATURE = Feature("pausing", malformed=_malformed_rests, rules=RULES, metrics=METRICS, rank=11)
