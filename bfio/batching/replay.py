"""Check runs: recompute all results from the log, without using the policy.

The checker tests the log against the rules (2.5a-d), the dynamics of section 2.2, the routes of
the network and the random draws. It compares the counters of the run with those of the log.

The log has a row for each task that joined an agent. After its last logged task, a request has
departed or is delayed before its next stage. The draws of the last task's stage decide which. If
that stage comes after a delay, its draws are not in the order of its tasks, and the network
decides where possible.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bfio.batching.policy import TokenBudgetPolicy
from bfio.batching.run import BatchRun
from bfio.batching.scenario import Scenario
from bfio.batching.streams import Streams, first_stages
from bfio.batching.tallies import (
    AREA_REQUESTS,
    AREA_TOKENS,
    ARRIVED,
    BATCHES,
    BUSY,
    COUNT,
    D_DECODE,
    D_PREFILL,
    D_SUCCESSOR,
    DECODE,
    DEPARTED,
    DEPARTS,
    DONE,
    E2E,
    FULL,
    JOINED,
    LONGEST,
    NUM_BINS,
    PREFILL,
    SHORT,
    SUM,
    TBT,
    TTFT,
    WORK,
    BatchLog,
    bin_of,
)
from bfio.batching.time_terms import Part, batch_slots
from bfio.common.checking import number
from formulations.arrays import BoolArray, IntArray
from formulations.batching import Agent

# Columns of tasks, batches and parts, see `bfio.batching.tallies.BatchLog`.
_TASK, _REQUEST, _STAGE, _ENGINE, _READY, _PREFILL, _DECODE = range(7)
_B_ENGINE, _B_START, _B_SLOTS, _B_TOKENS, _B_PARTS = range(5)
_P_BATCH, _P_TASK, _P_TOKENS, _P_IS_DECODE = range(4)
#: Marks an unknown next stage of a task.
_UNKNOWN = -2
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class RequestEnds:
    """Departures of the requests of a run.

    Parameters
    ----------
    times : IntArray
        Shape (m,): time from arrival to departure of each departed request [slots].
    unknown : int
        Requests for which neither the log nor the draws show whether they departed.
    wrong : int
        Tasks followed by another stage than the drawn one, or by no stage.
    """

    times: IntArray
    unknown: int
    wrong: int


def departures(log: BatchLog) -> IntArray:
    """Return the departure slot of each task, shape (T,); a large number for unfinished tasks."""
    tasks, parts, batches = log.tasks, log.parts, log.batches
    done = batches[parts[:, 0], 1] + batches[parts[:, 0], 2]
    tokens = _sums(parts[:, 1], parts[:, 2], len(tasks))
    last = np.zeros(len(tasks), dtype=np.int64)
    np.maximum.at(last, parts[:, 1], done)
    return np.where(tokens == tasks[:, 5] + tasks[:, 6], last, _NEVER)


def request_ends(run: BatchRun) -> RequestEnds:
    """Return the departures of the requests of a logged run."""
    log, scenario = run.log, run.scenario
    assert log is not None
    ends, end = departures(log).tolist(), int(run.course.slot[-1])
    successors = np.full(len(log.tasks), _UNKNOWN, dtype=np.int64)
    for which, draws in _draws_in_order(log, scenario, Streams(scenario, run.seed)):
        successors[which] = draws[:, D_SUCCESSOR]
    drawn = successors.tolist()
    of_request = _of_requests(log)
    stages, ready = log.tasks[:, 2].tolist(), log.tasks[:, 4].tolist()
    times, unknown, wrong = [], 0, 0
    for tasks in of_request.values():
        done = [ends[task] for task in tasks]
        if scenario.network.forks(stages[tasks[0]]):
            types = [stage.request_type for stage in scenario.network.stages]
            whole = len(tasks) == types.count(types[stages[tasks[0]]])
            if whole and max(done) <= end:
                times.append(max(done) - ready[tasks[0]])
            continue
        own = [stages[task] for task in tasks]
        # Tasks that were followed by another stage than the drawn one.
        followed = zip((drawn[task] for task in tasks), own[1:], strict=False)
        wrong += sum(successor not in (_UNKNOWN, stage) for successor, stage in followed)
        if done[-1] <= end:
            departed = _departed(scenario, own[-1], drawn[tasks[-1]])
            unknown += departed is None
            wrong += departed is False and not _may_wait(scenario, own[-1], drawn[tasks[-1]])
            if departed:
                times.append(done[-1] - ready[tasks[0]])
    return RequestEnds(np.array(times, dtype=np.int64), unknown, wrong)


def _of_requests(log: BatchLog) -> dict[int, list[int]]:
    """Return the tasks of each request, in order."""
    found: dict[int, list[int]] = defaultdict(list)
    for task, request in enumerate(log.tasks[:, _REQUEST].tolist()):
        found[request].append(task)
    return found


def _draws_in_order(
    log: BatchLog, scenario: Scenario, streams: Streams
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield tasks and their draws, for stages whose task order no delay changes."""
    for k, stage in enumerate(scenario.network.stages):
        own = np.flatnonzero(log.tasks[:, _STAGE] == k)
        first = 0
        while stage.name not in scenario.delays and first < len(own):
            block = streams.block(k)
            tasks = own[first : first + len(block)]
            yield tasks, block[: len(tasks)]
            first += len(block)


def _departed(scenario: Scenario, stage: int, drawn: int) -> bool | None:
    """Return whether a request departed after its last logged task; None if unknown."""
    if drawn != _UNKNOWN:
        return drawn == DEPARTS
    followers = scenario.network.successors[stage]
    if sum(chance for _, chance in followers) == 1:
        return False
    return None if _may_wait(scenario, stage, drawn) else True


def _may_wait(scenario: Scenario, stage: int, drawn: int) -> bool:
    """Return whether a request may be delayed after a stage."""
    followers = [k for k, _ in scenario.network.successors[stage] if drawn in (_UNKNOWN, k)]
    return any(scenario.network.stages[k].name in scenario.delays for k in followers)


def recorded_tallies(run: BatchRun) -> dict[str, int]:
    """Return the differences between the counters of a run and of its log, by counter."""
    log, end = run.log, int(run.course.slot[-1])
    assert log is not None
    tallies, derived, ends = run.tallies, _Derived(log, end), request_ends(run)
    engines, stages = derived.engines(len(tallies.engines)), derived.stages(len(tallies.stages))
    arrived, departed = len(np.unique(log.tasks[:, 1])), len(ends.times)
    counted = int(tallies.run[DEPARTED])
    wrong = int(tallies.run[ARRIVED] != arrived)
    return {
        "counted_requests": wrong + (not departed <= counted <= departed + ends.unknown),
        "routes_differ": ends.wrong,
        **_differences("engine", tallies.engines, engines),
        **_differences("stage", tallies.stages, stages),
        **derived.wrong_times(run, None if ends.unknown else ends.times),
    }


def _differences(name: str, counted: IntArray, derived: dict[int, IntArray]) -> dict[str, int]:
    wrong = {c: int(np.count_nonzero(counted[:, c] != values)) for c, values in derived.items()}
    return {f"counted_of_{name}[{column}]": amount for column, amount in wrong.items()}


class _Derived:
    """Counters and times recomputed from a log up to a slot."""

    def __init__(self, log: BatchLog, end: int) -> None:
        self.log, self.end = log, end
        self.tasks, self.batches, self.parts = log.tasks, log.batches, log.parts
        self.start = self.batches[self.parts[:, 0], 1]
        self.done = self.start + self.batches[self.parts[:, 0], 2]
        self.departures = departures(log)

    def engines(self, num: int) -> dict[int, IntArray]:
        """Return the recomputed counters of engines."""
        engine, parts = self.batches[:, 0], self.parts
        of_part, is_decode = engine[parts[:, 0]], parts[:, 3] == 1
        busy = np.minimum(self.batches[:, 1] + self.batches[:, 2], self.end) - self.batches[:, 1]
        # A request is present from the first slot in which it may be loaded until its departure. A
        # token is present until the slot in which it is loaded.
        stay = np.minimum(self.departures, self.end) - self.tasks[:, 4]
        tokens = self.tasks[:, 5] + self.tasks[:, 6]
        area = _sums(self.tasks[:, 3], tokens * (self.end - self.tasks[:, 4]), num)
        area -= _sums(of_part, parts[:, 2] * (self.end - self.start - 1), num)
        return {
            BUSY: _sums(engine, busy, num),
            BATCHES: np.bincount(engine, minlength=num),
            PREFILL: _sums(of_part, np.where(is_decode, 0, parts[:, 2]), num),
            DECODE: _sums(of_part, is_decode.astype(np.int64), num),
            AREA_REQUESTS: _sums(self.tasks[:, 3], stay, num),
            AREA_TOKENS: area,
        }

    def stages(self, num: int) -> dict[int, IntArray]:
        """Return the recomputed counters of stages."""
        stage, tokens = self.tasks[:, 2], self.tasks[:, 5] + self.tasks[:, 6]
        loaded = _sums(stage[self.parts[:, 1]], self.parts[:, 2], num)
        done = self.departures <= self.end
        return {
            JOINED: np.bincount(stage, minlength=num),
            DONE: np.bincount(stage[done], minlength=num),
            WORK: _sums(stage, tokens, num) - loaded,
        }

    def wrong_times(self, run: BatchRun, ends: IntArray | None) -> dict[str, int]:
        """Count wrong times; ``ends`` are the times of whole requests, None if unknown."""
        times = {TTFT: self._ttft(), TBT: self._tbt()}
        if ends is not None:
            times[E2E] = ends
        wrong = {}
        for which, values in times.items():
            counted = run.tallies.times[which]
            longest = int(values.max(initial=0))
            bins = np.bincount([bin_of(v) for v in values.tolist()], minlength=NUM_BINS)
            differ = [
                counted[COUNT] != len(values),
                counted[SUM] != values.sum(),
                counted[LONGEST] != longest,
                np.any(run.tallies.histograms[which] != bins),
            ]
            wrong[f"counted_times[{which}]"] = int(sum(map(bool, differ)))
        return wrong

    def _ttft(self) -> IntArray:
        """Return the times to the end of the prefill, for completed prefills."""
        prefill = self.parts[:, 3] == 0
        tokens = _sums(self.parts[prefill, 1], self.parts[prefill, 2], len(self.tasks))
        last = np.zeros(len(self.tasks), dtype=np.int64)
        np.maximum.at(last, self.parts[prefill, 1], self.done[prefill])
        whole = tokens == self.tasks[:, 5]
        return np.asarray(last[whole] - self.tasks[whole, 4])

    def _tbt(self) -> IntArray:
        """Return the times between consecutive decode tokens of a task."""
        order = np.lexsort((self.parts[:, 0], self.parts[:, 1]))
        task, is_decode = self.parts[order, 1], self.parts[order, 3] == 1
        gaps = np.diff(self.done[order], prepend=0)
        same = np.concatenate(([False], task[1:] == task[:-1]))[: len(task)]
        return np.asarray(gaps[is_decode & same])


def _sums(group: IntArray, values: IntArray, num: int) -> IntArray:
    total = np.zeros(num, dtype=np.int64)
    np.add.at(total, group, values)
    return total


def violations(run: BatchRun) -> dict[str, int]:
    """Count the violations of each rule in a logged run; return only positive counts.

    Counters of a run are compared only if it has no warm-up.
    """
    assert run.log is not None, "the run has no log"
    found = log_violations(run.log, run.scenario)
    if not any(found.values()):
        found |= _draws(run) | _routes(run.log, run.scenario)
        if run.warmup == 0:
            found |= recorded_tallies(run) | _fullness(run)
    return {name: amount for name, amount in found.items() if amount}


def log_violations(log: BatchLog, scenario: Scenario) -> dict[str, int]:
    """Count the violations of the rules of section 2.2, which hold for every policy."""
    if outside := _outside(log):
        return {"parts_outside": outside}
    return {**_batches(log, scenario), **_tasks(log, scenario), **_idle(log, scenario)}


def _outside(log: BatchLog) -> int:
    tasks, batches, parts = log.tasks, log.batches, log.parts
    wrong = np.count_nonzero(tasks[:, _TASK] != np.arange(len(tasks)))
    wrong += np.count_nonzero((parts[:, _P_TASK] < 0) | (parts[:, _P_TASK] >= len(tasks)))
    wrong += np.count_nonzero((parts[:, _P_BATCH] < 0) | (parts[:, _P_BATCH] >= len(batches)))
    return int(wrong)


def agents_of_engines(scenario: Scenario) -> list[Agent]:
    """Return the agent of each engine."""
    return [agent for agent in scenario.network.agents for _ in range(agent.engines)]


def _batches(log: BatchLog, scenario: Scenario) -> dict[str, int]:
    """Check budgets (2.5d), batch times, and that batches of an engine do not overlap."""
    batches, parts, agents = log.batches, log.parts, agents_of_engines(scenario)
    budgets = np.array([agent.budget for agent in agents])[batches[:, _B_ENGINE]]
    tokens = _sums(parts[:, _P_BATCH], parts[:, _P_TOKENS], len(batches))
    count = np.bincount(parts[:, _P_BATCH], minlength=len(batches))
    overlaps = 0
    for engine in range(len(agents)):
        own = batches[batches[:, _B_ENGINE] == engine]
        overlaps += number(own[1:, _B_START] < own[:-1, _B_START] + own[:-1, _B_SLOTS])
    return {
        "budget_exceeded": number(tokens > budgets),
        "empty_batches": number(tokens == 0),
        "recorded_tokens": number(tokens != batches[:, _B_TOKENS]),
        "recorded_parts": number(count != batches[:, _B_PARTS]),
        "recorded_slots": _wrong_times(log, scenario, agents),
        "batches_overlap": overlaps,
    }


def _wrong_times(log: BatchLog, scenario: Scenario, agents: list[Agent]) -> int:
    """Count batches whose duration differs from the batch-time formula."""
    parts = log.parts
    before = _tokens_before(log)
    by_batch: dict[int, list[Part]] = defaultdict(list)
    rows = zip(parts.tolist(), before.tolist(), strict=True)
    for (batch, _, tokens, is_decode), cached in rows:
        by_batch[batch].append(Part(tokens, bool(is_decode), cached))
    wrong = 0
    for k, (engine, _, slots, _, _) in enumerate(log.batches.tolist()):
        agent = agents[engine]
        terms = scenario.serving_of(agent.name).terms
        wrong += not by_batch[k] or batch_slots(agent.batch_time, terms, by_batch[k]) != slots
    return wrong


def _tokens_before(log: BatchLog) -> IntArray:
    """Return the tokens of the same task processed before each part, shape (P,)."""
    parts = log.parts
    order = np.lexsort((parts[:, _P_BATCH], parts[:, _P_TASK]))
    task, tokens = parts[order, _P_TASK], parts[order, _P_TOKENS]
    running = np.cumsum(tokens) - tokens
    first = np.concatenate(([True], task[1:] != task[:-1]))[: len(task)]
    start = np.maximum.accumulate(np.where(first, np.arange(len(task)), 0))
    before = np.empty(len(parts), dtype=np.int64)
    before[order] = running - running[start]
    return before


def _tasks(log: BatchLog, scenario: Scenario) -> dict[str, int]:
    """Check the phases of each task (2.5a-c), its first slot and its engine."""
    tasks, parts, batches = log.tasks, log.parts, log.batches
    own, batch = tasks[parts[:, _P_TASK]], batches[parts[:, _P_BATCH]]
    before, is_decode = _tokens_before(log), parts[:, _P_IS_DECODE] == 1
    together = np.column_stack((parts[:, _P_TASK], parts[:, _P_BATCH]))
    uncut = np.array([not agent.chunked for agent in agents_of_engines(scenario)])
    is_cut = uncut[own[:, _ENGINE]] & ~is_decode & (parts[:, _P_TOKENS] < own[:, _PREFILL])
    after = before + parts[:, _P_TOKENS]
    return {
        "decode_before_prefill": number(is_decode & (before < own[:, _PREFILL])),
        "prefill_too_long": number(~is_decode & (after > own[:, _PREFILL])),
        "decode_too_long": number(after > own[:, _PREFILL] + own[:, _DECODE]),
        "decodes_at_once": number(is_decode & (parts[:, _P_TOKENS] != 1)),
        "tokens_below_one": number(parts[:, _P_TOKENS] < 1),
        "parts_at_once": len(together) - len(np.unique(together, axis=0)),
        "cut_prompts": number(is_cut),
        "loaded_before_ready": number(batch[:, _B_START] < own[:, _READY]),
        "loaded_elsewhere": number(batch[:, _B_ENGINE] != own[:, _ENGINE]),
        "sizes_below_one": number(tasks[:, [_PREFILL, _DECODE]] < 1),
    }


def _idle(log: BatchLog, scenario: Scenario) -> dict[str, int]:
    """Count late batches: a built-in policy never idles while requests are present."""
    late, agents, completing = 0, agents_of_engines(scenario), _completing(log)
    for engine, agent in enumerate(agents):
        if type(scenario.serving_of(agent.name).policy) is not TokenBudgetPolicy:
            continue
        which = np.flatnonzero(log.batches[:, _B_ENGINE] == engine)
        starts = log.batches[which, _B_START]
        free = np.concatenate(([0], starts + log.batches[which, _B_SLOTS]))[: len(which)]
        ready = log.tasks[log.tasks[:, _ENGINE] == engine, _READY]
        joined = np.searchsorted(ready, free, side="right")
        own = completing & (log.tasks[log.parts[:, _P_TASK], _ENGINE] == engine)
        # Tasks completed before each batch; parts are sorted by batch.
        done = np.searchsorted(log.parts[own, _P_BATCH], which, side="left")
        someone = joined > done
        first = np.append(ready, np.iinfo(np.int64).max)[np.minimum(joined, len(ready))]
        late += number(starts != np.where(someone, free, first))
    return {"idle_with_work": late}


def _completing(log: BatchLog) -> BoolArray:
    """Return whether each part is the last of its task, shape (P,)."""
    own, after = log.tasks[log.parts[:, _P_TASK]], _tokens_before(log) + log.parts[:, _P_TOKENS]
    return np.asarray(after == own[:, _PREFILL] + own[:, _DECODE])


def eligible_tokens(log: BatchLog, engine: int) -> IntArray:
    """Return the eligible tokens ``Σ (p_i + 1(p_i = 0))`` before each batch, shape (B_e,)."""
    which = np.flatnonzero(log.batches[:, _B_ENGINE] == engine)
    tasks, parts = log.tasks[log.tasks[:, _ENGINE] == engine], log.parts
    own = log.tasks[parts[:, _P_TASK]]
    mine = own[:, _ENGINE] == engine
    after = _tokens_before(log) + parts[:, _P_TOKENS]
    # A chunk removes its tokens. The last chunk adds one eligible decode token, and the last
    # decode token removes it.
    is_decode = parts[:, _P_IS_DECODE] == 1
    change = np.where(is_decode, 0, -parts[:, _P_TOKENS])
    change += ~is_decode & (after == own[:, _PREFILL])
    change -= _completing(log)
    of_batch = _sums(parts[mine, _P_BATCH] + 1, change[mine], len(log.batches) + 1)
    loaded = np.cumsum(of_batch)[which]
    joined = np.concatenate(([0], np.cumsum(tasks[:, _PREFILL])))
    starts = log.batches[which, _B_START]
    return np.asarray(joined[np.searchsorted(tasks[:, _READY], starts, side="right")] + loaded)


def _fullness(run: BatchRun) -> dict[str, int]:
    """Compare the counts of full batches and of batches below the eligible tokens."""
    assert run.log is not None
    wrong = 0
    for engine, agent in enumerate(agents_of_engines(run.scenario)):
        tokens = run.log.batches[run.log.batches[:, _B_ENGINE] == engine, _B_TOKENS]
        most = np.minimum(agent.budget, eligible_tokens(run.log, engine))
        counted = run.tallies.engines[engine]
        wrong += int(counted[FULL] != number(tokens == agent.budget))
        wrong += int(counted[SHORT] != number(tokens < most))
    return {"counted_fullness": wrong}


def _draws(run: BatchRun) -> dict[str, int]:
    """Compare arrivals with the draws, and task sizes where no delay changes their order."""
    scenario, log = run.scenario, run.log
    assert log is not None
    streams = Streams(scenario, run.seed)
    end = int(run.course.slot[-1])
    rows = streams.initial().arrivals.tolist()
    known = 0
    while known < end and not streams.is_over():
        window = streams.window()
        rows, known = rows + window.arrivals.tolist(), window.end
    expected = [
        (slot + 1, first) for slot, k in rows if slot < end for first in first_stages(scenario, k)
    ]
    sizes = log.tasks[:, [_PREFILL, _DECODE]]
    return {
        "arrivals_differ": int(sorted(expected) != sorted(_begun(log, scenario))),
        "sizes_differ": sum(
            number((draws[:, [D_PREFILL, D_DECODE]] != sizes[tasks]).any(axis=1))
            for tasks, draws in _draws_in_order(log, scenario, streams)
        ),
    }


def _begun(log: BatchLog, scenario: Scenario) -> list[tuple[int, int]]:
    """Return the slot and stage of the first task of each request."""
    begun, network = [], scenario.network
    for tasks in _of_requests(log).values():
        for place, (_, _, stage, _, ready, _, _) in enumerate(log.tasks[tasks].tolist()):
            if place == 0 or (network.forks(stage) and not network.predecessors[stage]):
                begun.append((ready, stage))
    return begun


def _routes(log: BatchLog, scenario: Scenario) -> dict[str, int]:
    """Check that each task follows its predecessors, immediately if no delay is set."""
    network, ends, rows = scenario.network, departures(log).tolist(), log.tasks.tolist()
    wrong = {"wrong_routes": 0, "handed_on_late": 0}
    for own in _of_requests(log).values():
        tasks = [rows[task] for task in own]
        forks = network.forks(tasks[0][_STAGE])
        found = _forked(tasks, scenario, ends) if forks else _routed(tasks, scenario, ends)
        for name, amount in found.items():
            wrong[name] += amount
    return wrong


def _routed(tasks: list[list[int]], scenario: Scenario, ends: Sequence[int]) -> dict[str, int]:
    network, wrong, late = scenario.network, 0, 0
    for earlier, later in pairwise(tasks):
        followers = [target for target, _ in network.successors[earlier[_STAGE]]]
        wrong += later[_STAGE] not in followers
        late += _is_late(later, ends[earlier[_TASK]], scenario)
    return {"wrong_routes": wrong, "handed_on_late": late}


def _forked(tasks: list[list[int]], scenario: Scenario, ends: Sequence[int]) -> dict[str, int]:
    network = scenario.network
    by_stage = {task[_STAGE]: task for task in tasks}
    wrong, late = len(tasks) - len(by_stage), 0
    for task in tasks:
        before = [by_stage.get(k) for k, _ in network.predecessors[task[_STAGE]]]
        done = [_NEVER if other is None else ends[other[_TASK]] for other in before]
        if _NEVER in done:
            wrong += 1
        elif done:
            late += _is_late(task, max(done), scenario)
    return {"wrong_routes": wrong, "handed_on_late": late}


def _is_late(task: list[int], end: int, scenario: Scenario) -> bool:
    delayed = scenario.network.stages[task[_STAGE]].name in scenario.delays
    return task[_READY] < end + 1 if delayed else task[_READY] != end
