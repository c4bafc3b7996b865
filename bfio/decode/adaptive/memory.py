"""What the policy keeps: what it has seen of the run, and the twin that it rehearses on."""

from typing import NamedTuple

import numpy as np

from bfio.decode.adaptive.settings import (
    COARSE,
    DECAY,
    FIRST_REHEARSAL,
    FIRST_SETTING,
    LEAST_WEIGHT,
    LIVES,
    MOST_LISTED,
    MOST_WAITING,
    REMEMBERED,
    SEED,
    SETTINGS,
    near,
)
from bfio.decode.cluster import Cluster
from bfio.decode.machine.records import Chunks
from bfio.decode.machine.state import Record, State, new_state
from bfio.decode.options import RunOptions
from bfio.step.two_stage.heuristic import TwoStageParameters
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray

# Entries of `Seen.counts`: the setting that decides, rehearsals so far, completed requests at
# which the next one is due; completed requests and step when last looked; step of the last
# decision; ends that were foretold for the step after a decision and came, and those that were
# foretold or came; and what a rehearsal is given: requests remembered, running and waiting, and
# steps ahead whose ends are known; and whether windows tell who ends.
(CURRENT, REHEARSALS, DUE, COMPLETED, STEP, DECIDED_AT, FORETOLD, ENDS) = range(8)
(PAST, RUNNING, WAITING, AHEAD_KNOWN, TELLS) = range(8, 13)
# Rows of `Scene.past` and `Scene.running`.
(PROMPT, LENGTH, IS_OPEN) = range(3)
(WORKER, BEGUN, LEFT) = (1, 2, 3)


class Seen(NamedTuple):
    """What was seen of the run.

    Parameters
    ----------
    counts : IntArray
        See the names of its entries above.
    foretold, running : IntArray
        Shape (G,): at the last decision, requests that the window lets end with that step, and
        those that ran after it.
    uses : IntArray
        Shape (K,): decisions of each setting.
    log : IntArray
        Shape (most rehearsals listed, 2): step of each, and the setting it chose.
    """

    counts: IntArray
    foretold: IntArray
    running: IntArray
    uses: IntArray
    log: IntArray


class Scene(NamedTuple):
    """What a rehearsal starts from; `Seen.counts` says how many columns are filled.

    Parameters
    ----------
    past : IntArray
        Shape (3, M): prompt, length as far as known, and whether it goes on after that, of the
        requests revealed last, the latest first.
    running : IntArray
        Shape (4, G·B): prompt, worker, first step and steps left (0: not known) of those that run,
        in order of arrival.
    waiting : IntArray
        Shape (most waiting,): prompts of those that wait, oldest first.
    """

    past: IntArray
    running: IntArray
    waiting: IntArray


class Drawn(NamedTuple):
    """What a rehearsal makes up.

    Parameters
    ----------
    remaining : IntArray
        Shape (G·B,): steps that running requests have left.
    prompt, output : IntArray
        Shape (n,): requests to come.
    order, sorted : IntArray
        Shape (M,): past requests by length, and their lengths.
    word : array of uint64
        Shape (1,): the last random number.
    """

    remaining: IntArray
    prompt: IntArray
    output: IntArray
    order: IntArray
    sorted: IntArray
    word: "np.ndarray[tuple[int], np.dtype[np.uint64]]"


class Rule(NamedTuple):
    """The settings, and what all of them share.

    Parameters
    ----------
    steps, penalty : IntArray
        Shape (K,): see `bfio.decode.adaptive.settings.Setting`.
    coarse : IntArray
        Shape (c,): the settings of every rehearsal.
    near : IntArray
        Shape (K, n): those that are rehearsed besides if one of them is the best; -1: none.
    lives : int
        Most steps of a rehearsal, in multiples of what running requests have left.
    least_weight : int
        Least weight of a step of the window.
    decay : float
        What an earlier rehearsal counts against the latest.
    reward, overflow : IntArray
        Shape (H+1,), overwritten: factors of the score (`bfio.step.two_stage.fscore`).
    threshold, candidates, product_key : int
        See `bfio.step.two_stage.kernels.two_stage.two_stage_decide`.
    """

    steps: IntArray
    penalty: IntArray
    coarse: IntArray
    near: IntArray
    lives: int
    least_weight: int
    decay: float
    reward: IntArray
    overflow: IntArray
    threshold: int
    candidates: int
    product_key: int


class Memory(NamedTuple):
    """All of it.

    Parameters
    ----------
    rule, seen, scene, drawn
        See there.
    twin : State
        Of the machine.
    record : Record
        One row, overwritten at each step of a rehearsal.
    score, total, weight : FloatArray
        Shape (K,): mean imbalance of each setting in the latest rehearsal [tokens], -1 without;
        and sums over rehearsals, the latest counting most: of what its logarithm exceeds the mean
        of `Rule.coarse` by, and of the rehearsals.
    by_size, assignment : IntArray
        Shape (most waiting,): the waiting requests, largest first; the worker of each.
    """

    rule: Rule
    seen: Seen
    scene: Scene
    drawn: Drawn
    twin: State
    record: Record
    score: FloatArray
    total: FloatArray
    weight: FloatArray
    by_size: IntArray
    assignment: IntArray


def new_memory(
    num_workers: int, slots: int, horizon: int, most_waiting: int, parameters: TwoStageParameters
) -> Memory:
    """Return the memory of a run that has not begun.

    Parameters
    ----------
    num_workers, slots : int
        ``G`` and ``B``.
    horizon : int
        Longest window.
    most_waiting : int
        Most requests that one decision is about.
    parameters : TwoStageParameters
        Threshold, candidates and priority of the two-stage heuristic.
    """
    total = num_workers * slots
    counts = _zeros(13)
    counts[DUE] = max(1, total // FIRST_REHEARSAL)
    counts[CURRENT], counts[DECIDED_AT] = FIRST_SETTING, -2
    K, M = len(SETTINGS), REMEMBERED * total + MOST_WAITING
    twin = _twin(num_workers, slots, horizon)
    n = len(twin.pool)
    return Memory(
        _rule(horizon, parameters),
        Seen(
            counts,
            foretold=_zeros(num_workers),
            running=_zeros(num_workers),
            uses=_zeros(K),
            log=_zeros(MOST_LISTED, 2),
        ),
        Scene(_zeros(3, M), _zeros(4, total), _zeros(MOST_WAITING)),
        Drawn(
            remaining=_zeros(total),
            prompt=_zeros(n),
            output=_zeros(n),
            order=_zeros(M),
            sorted=_zeros(M),
            word=np.array([SEED], dtype=np.uint64),
        ),
        twin,
        Chunks(twin, keep_trajectory=True).new(1),
        np.zeros(K),
        np.zeros(K),
        np.zeros(K),
        *_zeros(2, max(most_waiting, MOST_WAITING)),
    )


def _zeros(*shape: int) -> IntArray:
    return np.zeros(shape, dtype=np.int64)


def _rule(horizon: int, parameters: TwoStageParameters) -> Rule:
    steps, penalty = np.array(SETTINGS, dtype=np.int64).T
    others = [near(k) if k in COARSE else () for k in range(len(SETTINGS))]
    near_each = np.full((len(SETTINGS), max(map(len, others))), -1)
    for k, each in enumerate(others):
        near_each[k, : len(each)] = each
    return Rule(
        steps=steps.copy(),
        penalty=penalty.copy(),
        coarse=np.array(COARSE),
        near=near_each,
        lives=LIVES,
        least_weight=LEAST_WEIGHT,
        decay=DECAY,
        reward=_zeros(horizon + 1),
        overflow=_zeros(horizon + 1),
        threshold=parameters.threshold,
        candidates=parameters.candidates or 0,
        product_key=int(parameters.key == "product"),
    )


def _twin(num_workers: int, slots: int, horizon: int) -> State:
    """Return a machine in which every request gains a token per step."""
    n = (1 + LIVES) * num_workers * slots + MOST_WAITING
    requests = Workload(np.ones(n, dtype=np.int64), np.ones(n, dtype=np.int64))
    return new_state(requests, Cluster(num_workers, slots), RunOptions(), horizon=horizon)


def statistics(memory: Memory) -> dict[str, object]:
    """Return what the policy says of itself: which settings decided, and since when."""
    seen, count = memory.seen, int(memory.seen.counts[REHEARSALS])
    listed = seen.log[: min(count, MOST_LISTED)].tolist()
    return {
        "rehearsals": count,
        "decisions": {
            setting.name: int(uses)
            for setting, uses in zip(SETTINGS, seen.uses, strict=True)
            if uses > 0
        },
        "chosen": [[step, SETTINGS[setting].name] for step, setting in listed],
    }
