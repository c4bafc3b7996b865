"""When requests depart, derived from the log of a run and the draws of its routes.

The log has the tasks that joined an agent. After its last one a request has departed, or is in a
delay before its next stage; which of both, its draws tell, and where a stage is itself behind a
delay, so that its draws are not in the order of its tasks, mostly the network.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from bfio.batching.draws import D_SUCCESSOR, DEPARTS
from bfio.batching.log import BatchLog
from bfio.batching.run import BatchRun
from bfio.batching.scenario import Scenario
from bfio.batching.streams import Streams
from formulations.arrays import IntArray
from formulations.batching import AgentNetwork

#: In the place of the stage that follows a task: its draw is not known.
_UNKNOWN = -2
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class RequestEnds:
    """What became of the requests of a run.

    Parameters
    ----------
    times : IntArray
        Shape (m,): from arrival to departure of those that departed [slots].
    unknown : int
        Requests of which neither log nor draws tell whether they departed.
    wrong : int
        Tasks that were followed by another stage than the one drawn, or by none.
    """

    times: IntArray
    unknown: int
    wrong: int


def departures(log: BatchLog) -> IntArray:
    """Return when each task departs, shape (T,); a large number if it is not wholly loaded."""
    tasks, parts, batches = log.tasks, log.parts, log.batches
    done = batches[parts[:, 0], 1] + batches[parts[:, 0], 2]
    tokens = np.zeros(len(tasks), dtype=np.int64)
    last = np.zeros(len(tasks), dtype=np.int64)
    np.add.at(tokens, parts[:, 1], parts[:, 2])
    np.maximum.at(last, parts[:, 1], done)
    return np.where(tokens == tasks[:, 5] + tasks[:, 6], last, _NEVER)


def request_ends(run: BatchRun) -> RequestEnds:
    """Return when the requests of a run with a log departed."""
    log, scenario = run.log, run.scenario
    assert log is not None
    ends, end = departures(log).tolist(), int(run.course.slot[-1])
    drawn = _drawn_successors(log, scenario, run.seed).tolist()
    of_request: dict[int, list[int]] = defaultdict(list)
    for task, request in enumerate(log.tasks[:, 1].tolist()):
        of_request[request].append(task)
    stages, ready = log.tasks[:, 2].tolist(), log.tasks[:, 4].tolist()
    times, unknown, wrong = [], 0, 0
    for tasks in of_request.values():
        done = [ends[task] for task in tasks]
        if scenario.network.forks(stages[tasks[0]]):
            whole = len(tasks) == _stages_of_type(scenario.network, stages[tasks[0]])
            if whole and max(done) <= end:
                times.append(max(done) - ready[tasks[0]])
            continue
        own = [stages[task] for task in tasks]
        wrong += _wrong_steps(own, [drawn[task] for task in tasks])
        if done[-1] <= end:
            departed = _departed(scenario, own[-1], drawn[tasks[-1]])
            unknown += departed is None
            wrong += departed is False and not _may_wait(scenario, own[-1], drawn[tasks[-1]])
            if departed:
                times.append(done[-1] - ready[tasks[0]])
    return RequestEnds(np.array(times, dtype=np.int64), unknown, wrong)


def _stages_of_type(network: AgentNetwork, stage: int) -> int:
    kind = network.stages[stage].request_type
    return sum(other.request_type == kind for other in network.stages)


def _drawn_successors(log: BatchLog, scenario: Scenario, seed: int) -> IntArray:
    """Return the stage that was drawn to follow each task, shape (T,)."""
    streams = Streams(scenario, seed)
    found = np.full(len(log.tasks), _UNKNOWN, dtype=np.int64)
    for k, stage in enumerate(scenario.network.stages):
        own = np.flatnonzero(log.tasks[:, 2] == k)
        if stage.name in scenario.delays:
            continue
        first = 0
        while first < len(own):
            block = streams.block(k)[:, D_SUCCESSOR]
            part = own[first : first + len(block)]
            found[part] = block[: len(part)]
            first += len(block)
    return found


def _wrong_steps(stages: list[int], drawn: list[int]) -> int:
    """Count tasks of a request that were followed by another stage than the one drawn."""
    followed = zip(drawn[:-1], stages[1:], strict=True)
    return sum(successor not in (_UNKNOWN, stage) for successor, stage in followed)


def _departed(scenario: Scenario, stage: int, drawn: int) -> bool | None:
    """Return whether a request departed whose last task in the log is over; None: not known."""
    if drawn != _UNKNOWN:
        return drawn == DEPARTS
    followers = scenario.network.successors[stage]
    if sum(chance for _, chance in followers) == 1:
        return False
    return None if _may_wait(scenario, stage, drawn) else True


def _may_wait(scenario: Scenario, stage: int, drawn: int) -> bool:
    """Return whether a request may be in a delay after a stage."""
    followers = [k for k, _ in scenario.network.successors[stage] if drawn in (_UNKNOWN, k)]
    return any(scenario.network.stages[k].name in scenario.delays for k in followers)
