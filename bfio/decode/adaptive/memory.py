"""What the policy keeps: its settings, what it has seen, and the twin that it rehearses on."""

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.cluster import Cluster
from bfio.decode.machine.state import Chunks, Record, State, new_state
from bfio.decode.options import RunOptions
from bfio.step.two_stage.heuristic import TwoStageParameters
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray

# The settings that are rehearsed, and the constants of rehearsals.


class Setting(NamedTuple):
    """How the two-stage heuristic looks ahead.

    With a discount of ``γ = τ / (τ + 1)`` the steps of the window that are to come weigh
    ``Σ_{h>=1} γ^h = τ`` times as much as the step at hand.
    """

    steps: int  #: ``τ`` in hundredths; 0 for no look-ahead.
    penalty: int  #: ``β / G``: what overflow costs, in multiples of what it costs the imbalance.

    @property
    def name(self) -> str:
        """How statistics call it."""
        return f"steps {self.steps / 100:g}, penalty {self.penalty}"


#: Values of τ, in hundredths: from 0.25 to 16, four to an octave.
FINE = tuple(round(25 * 2 ** (k / 4)) for k in range(25))
#: BR-0 comes first: it decides among equals.
SETTINGS = (
    Setting(0, 1),
    Setting(0, 4),
    *(Setting(steps, 2) for steps in FINE),
    *(Setting(steps, 1) for steps in FINE),
)
#: The settings of every rehearsal: no look-ahead, and one τ of each octave with β = 2G.
COARSE = tuple(
    k
    for k, each in enumerate(SETTINGS)
    if each.steps == 0 or (each.penalty == 2 and each.steps in FINE[::4])
)
#: The setting that decides until the first rehearsal: γ = 2/3, β = 2G.
FIRST_SETTING = SETTINGS.index(Setting(200, 2))


def near(best: int) -> tuple[int, ...]:
    """Return the settings that are rehearsed besides, where one of `COARSE` is the best of them.

    The others within its octaves; and with β = G, which wants a longer window, up to the next τ.
    """
    place = FINE.index(SETTINGS[best].steps) if SETTINGS[best].steps > 0 else 0
    wanted = [Setting(FINE[k], 2) for k in range(max(0, place - 3), min(place + 4, len(FINE)))]
    wanted += [Setting(steps, 1) for steps in FINE[place : place + 5]]
    return tuple(k for k in map(SETTINGS.index, wanted) if k not in COARSE)


#: Weight of the step at hand, and the least that a step of the window has.
FULL_WEIGHT = 10**6
LEAST_WEIGHT = 2 * 10**4

#: The first rehearsal comes when one slot in so many has been given back, the next ones whenever
#: that number has doubled, but at the latest when each slot has been given back once more.
FIRST_REHEARSAL = 16
#: Steps at the beginning of a rehearsal that are not counted, one in so many.
UNCOUNTED = 8
#: Requests per slot that the lengths are drawn from, the latest.
REMEMBERED = 4
#: Most waiting requests of a rehearsal, the oldest.
MOST_WAITING = 512
#: Most steps of a rehearsal, in multiples of what running requests have left in the mean; and
#: requests per slot that it may start.
LIVES = 4
#: What an earlier rehearsal counts against the latest.
DECAY = 0.7
#: Windows are believed to tell who ends if they foretell one in so many of the ends.
BELIEVED = 2
#: A length beyond all that were seen is at most so many mean lengths longer.
LONGEST_TAIL = 20
#: Rehearsals that the statistics of a run list.
MOST_LISTED = 1000
#: First random number of every run.
SEED = 0x9E3779B97F4A7C15


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
    """What was seen of the run."""

    counts: IntArray  #: See the names of its entries above.
    #: Shape (G,): at the last decision, requests that the window lets end with that step, and
    #: those that ran after it.
    foretold: IntArray
    running: IntArray
    uses: IntArray  #: Shape (K,): decisions of each setting.
    log: IntArray  #: Shape (most rehearsals listed, 2): step of each, and the setting it chose.


class Scene(NamedTuple):
    """What a rehearsal starts from; `Seen.counts` says how many columns are filled."""

    #: Shape (3, M): prompt, length as far as known, and whether it goes on after that, of the
    #: requests revealed last, the latest first.
    past: IntArray
    #: Shape (4, G·B): prompt, worker, first step and steps left (0: not known) of those that run,
    #: in order of arrival.
    running: IntArray
    waiting: IntArray  #: Shape (most waiting,): prompts of those that wait, oldest first.


class Drawn(NamedTuple):
    """What a rehearsal makes up."""

    remaining: IntArray  #: Shape (G·B,): steps that running requests have left.
    #: Shape (n,): requests to come.
    prompt: IntArray
    output: IntArray
    #: Shape (M,): past requests by length, and their lengths.
    order: IntArray
    sorted: IntArray
    word: "np.ndarray[tuple[int], np.dtype[np.uint64]]"  #: Shape (1,): the last random number.


class Rule(NamedTuple):
    """The settings, and what all of them share."""

    #: Shape (K,): see `bfio.decode.adaptive.memory.Setting`.
    steps: IntArray
    penalty: IntArray
    coarse: IntArray  #: Shape (c,): the settings of every rehearsal.
    #: Shape (K, n): those that are rehearsed besides if one of them is the best; -1: none.
    near: IntArray
    #: Shape (H+1,), overwritten: factors of the score (`bfio.step.two_stage.fscore`).
    reward: IntArray
    overflow: IntArray
    #: See `bfio.step.two_stage.kernels.two_stage.two_stage_decide`.
    threshold: int
    candidates: int
    product_key: int


class Memory(NamedTuple):
    """All of it."""

    rule: Rule
    seen: Seen
    scene: Scene
    drawn: Drawn
    twin: State  #: Of the machine.
    record: Record  #: One row, overwritten at each step of a rehearsal.
    #: Shape (K,): mean imbalance of each setting in the latest rehearsal [tokens], -1 without; and
    #: sums over rehearsals, the latest counting most: of what its logarithm exceeds the mean of
    #: `Rule.coarse` by, and of the rehearsals.
    score: FloatArray
    total: FloatArray
    weight: FloatArray
    #: Shape (most waiting,): the waiting requests, largest first; the worker of each.
    by_size: IntArray
    assignment: IntArray


def new_memory(
    num_workers: int,
    slots: int,
    look_ahead: int,
    most_waiting: int,
    parameters: TwoStageParameters,
) -> Memory:
    """Return the memory of a run that has not begun, for windows of up to ``look_ahead`` steps.

    One decision is about at most ``most_waiting`` requests.
    """
    total = num_workers * slots
    counts = _zeros(13)
    counts[DUE] = max(1, total // FIRST_REHEARSAL)
    counts[CURRENT], counts[DECIDED_AT] = FIRST_SETTING, -2
    K, M = len(SETTINGS), REMEMBERED * total + MOST_WAITING
    twin = _twin(num_workers, slots, look_ahead)
    n = len(twin.pool)
    return Memory(
        _rule(look_ahead, parameters),
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


def _rule(look_ahead: int, parameters: TwoStageParameters) -> Rule:
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
        reward=_zeros(look_ahead + 1),
        overflow=_zeros(look_ahead + 1),
        threshold=parameters.threshold,
        candidates=parameters.candidates or 0,
        product_key=int(parameters.key == "product"),
    )


def _twin(num_workers: int, slots: int, look_ahead: int) -> State:
    """Return a machine in which every request gains a token per step."""
    n = (1 + LIVES) * num_workers * slots + MOST_WAITING
    requests = Workload(np.ones(n, dtype=np.int64), np.ones(n, dtype=np.int64))
    return new_state(requests, Cluster(num_workers, slots), RunOptions(), look_ahead=look_ahead)


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


# What is noted at each step with a decision, alike in interpreted and compiled runs.


@compilable
def look(seen: Seen, step: int, completed: int, running: IntArray) -> None:
    """Note who has ended before a step, and whether the window foretold it.

    ``running`` is of shape (G,), the requests that run before this decision.
    """
    counts = seen.counts
    counts[COMPLETED], counts[STEP] = completed, step
    if counts[DECIDED_AT] == step - 1:
        for g in range(len(running)):
            ended = seen.running[g] - running[g]
            counts[FORETOLD] += min(ended, seen.foretold[g])
            counts[ENDS] += max(ended, seen.foretold[g])


@compilable
def is_due(seen: Seen, running: IntArray, total_slots: int) -> bool:
    """Whether to rehearse now: the first time as soon as each slot has been taken."""
    counts = seen.counts
    if counts[REHEARSALS] == 0 and counts[COMPLETED] + running.sum() >= total_slots:
        return True
    return bool(counts[COMPLETED] >= counts[DUE])


@compilable
def windows_tell(seen: Seen, left: IntArray, look_ahead: int) -> bool:
    """Whether windows are believed to tell who ends; at first, whether they tell anything.

    ``left`` is of shape (A,): steps that those that run have left by the window.
    """
    counts = seen.counts
    if counts[ENDS] > 0:
        return bool(BELIEVED * counts[FORETOLD] >= counts[ENDS])
    for steps in left:  # noqa: SIM110  (Numba compiles no generators)
        if steps <= look_ahead:
            return True
    return False


@compilable
def note_choice(seen: Seen, setting: int, total_slots: int) -> None:
    """Let a setting decide from now on, after a rehearsal."""
    counts = seen.counts
    listed = counts[REHEARSALS] % len(seen.log)
    seen.log[listed, 0], seen.log[listed, 1] = counts[STEP], setting
    counts[CURRENT] = setting
    counts[REHEARSALS] += 1
    pause = max(1, total_slots // FIRST_REHEARSAL, min(counts[COMPLETED], total_slots))
    counts[DUE] = counts[COMPLETED] + pause


@compilable
def note_decision(seen: Seen) -> None:
    """Count the decision of the current setting; the caller fills ``foretold`` and ``running``."""
    seen.uses[seen.counts[CURRENT]] += 1
    seen.counts[DECIDED_AT] = seen.counts[STEP]


@compilable
def set_weights(rule: Rule, setting: int, num_workers: int) -> int:
    """Write the factors of a setting's score; return how long its window is.

    The weight of a step is ``γ = τ / (τ + 1)`` times that of the step before, rounded down, and
    the window ends where that would be too little.
    """
    steps = rule.steps[setting]
    weight, columns = FULL_WEIGHT, 0
    while columns < len(rule.reward) and (columns == 0 or weight >= LEAST_WEIGHT):
        rule.reward[columns] = weight
        rule.overflow[columns] = weight * rule.penalty[setting] * num_workers
        weight = weight * steps // (steps + 100)
        columns += 1
    return columns
