"""The memory of the adaptive policy: settings, observations, and the simulated twin machine."""

from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.cluster import Cluster
from bfio.decode.machine.state import Chunks, Record, State, new_state
from bfio.decode.options import RunOptions
from bfio.step.two_stage.heuristic import TwoStageParameters
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray

# The settings to rehearse, and the constants of rehearsals.


class Setting(NamedTuple):
    """A candidate look-ahead of the two-stage heuristic.

    With a discount of ``γ = τ / (τ + 1)``, the future steps of the window together have ``Σ_{h>=1}
    γ^h = τ`` times the weight of the current step.
    """

    steps: int  #: ``τ`` in hundredths; 0 for no look-ahead.
    penalty: int  #: ``β / G``: penalty of overflow relative to its effect on the imbalance.

    @property
    def name(self) -> str:
        """Name in the statistics of a run."""
        return f"steps {self.steps / 100:g}, penalty {self.penalty}"


#: Values of τ, in hundredths: from 0.25 to 16, four per octave.
FINE = tuple(round(25 * 2 ** (k / 4)) for k in range(25))
#: BR-0 comes first, so that it wins ties.
SETTINGS = (
    Setting(0, 1),
    Setting(0, 4),
    *(Setting(steps, 2) for steps in FINE),
    *(Setting(steps, 1) for steps in FINE),
)
#: The settings of every rehearsal: no look-ahead, and one τ per octave with β = 2G.
COARSE = tuple(
    k
    for k, each in enumerate(SETTINGS)
    if each.steps == 0 or (each.penalty == 2 and each.steps in FINE[::4])
)
#: The setting used until the first rehearsal: γ = 2/3, β = 2G.
FIRST_SETTING = SETTINGS.index(Setting(200, 2))


def near(best: int) -> tuple[int, ...]:
    """Return the settings to rehearse next if ``best`` is the best of the `COARSE` settings.

    With β = 2G, these are the other values of τ within a factor of 2 of the best; with β = G,
    those up to twice the best, which need a longer window.
    """
    place = FINE.index(SETTINGS[best].steps) if SETTINGS[best].steps > 0 else 0
    wanted = [Setting(FINE[k], 2) for k in range(max(0, place - 3), min(place + 4, len(FINE)))]
    wanted += [Setting(steps, 1) for steps in FINE[place : place + 5]]
    return tuple(k for k in map(SETTINGS.index, wanted) if k not in COARSE)


#: Weight of the current step, and least weight of a step of the window.
FULL_WEIGHT = 10**6
LEAST_WEIGHT = 2 * 10**4

#: The first rehearsal takes place when one in this many slots has been released. The next ones
#: follow whenever the number of completed requests has doubled, or when each slot has been
#: released once more.
FIRST_REHEARSAL = 16
#: The first 1/8 of the steps of a rehearsal is not counted.
UNCOUNTED = 8
#: Number of most recent requests per slot from which lengths are drawn.
REMEMBERED = 4
#: Largest number of waiting requests in a rehearsal; the oldest are taken.
MOST_WAITING = 512
#: Most steps of a rehearsal, in multiples of the mean remaining steps of running requests; also
#: the number of new requests per slot in a rehearsal.
LIVES = 4
#: Weight of a rehearsal relative to the next one.
DECAY = 0.7
#: Windows count as informative if they predict at least one in this many ends.
BELIEVED = 2
#: A length beyond all observed ones exceeds them by at most this many mean lengths.
LONGEST_TAIL = 20
#: Number of rehearsals that the statistics of a run list.
MOST_LISTED = 1000
#: First random number of every run.
SEED = 0x9E3779B97F4A7C15


# Entries of `Seen.counts`: current setting; number of rehearsals; number of completed requests at
# which the next one is due; completed requests and step of the last observation; step of the last
# decision; ends that were predicted for the step after a decision and took place; ends that were
# predicted or took place. Then the data of a rehearsal: number of remembered, running and waiting
# requests; number of steps ahead with known ends; whether windows are informative.
(CURRENT, REHEARSALS, DUE, COMPLETED, STEP, DECIDED_AT, FORETOLD, ENDS) = range(8)
(PAST, RUNNING, WAITING, AHEAD_KNOWN, TELLS) = range(8, 13)
# Rows of `Scene.past` and `Scene.running`.
(PROMPT, LENGTH, IS_OPEN) = range(3)
(WORKER, BEGUN, LEFT) = (1, 2, 3)


class Seen(NamedTuple):
    """Observations of the run, from which rehearsals draw request lengths."""

    counts: IntArray  #: See the names of its entries above.
    #: Shape (G,): number of requests predicted to end with the step of the last decision, and
    #: number of requests running after that decision.
    foretold: IntArray
    running: IntArray
    uses: IntArray  #: Shape (K,): number of decisions by each setting.
    log: IntArray  #: Shape (most rehearsals listed, 2): step, and the setting chosen.


class Scene(NamedTuple):
    """Start of a rehearsal: running, waiting and future requests."""

    #: Shape (3, M), most recent first: prompt, known length, and whether it continues beyond that
    #: length, of the most recently revealed requests.
    past: IntArray
    #: Shape (4, G·B): prompt, worker, first step and remaining steps (0 if unknown) of the running
    #: requests, in order of arrival.
    running: IntArray
    waiting: IntArray  #: Shape (most waiting,): prompts of the waiting requests, oldest first.


class Drawn(NamedTuple):
    """Request lengths and arrivals drawn at random for a rehearsal."""

    remaining: IntArray  #: Shape (G·B,): remaining steps of running requests.
    #: Shape (n,): prompts and outputs of future requests.
    prompt: IntArray
    output: IntArray
    #: Shape (M,): indices of past requests sorted by length, and their lengths.
    order: IntArray
    sorted: IntArray
    word: "np.ndarray[tuple[int], np.dtype[np.uint64]]"  #: Shape (1,): the last random number.


class Rule(NamedTuple):
    """The candidate settings, and the parameters that all settings share."""

    #: Shape (K,): see `bfio.decode.adaptive.memory.Setting`.
    steps: IntArray
    penalty: IntArray
    coarse: IntArray  #: Shape (c,): the settings of every rehearsal.
    #: Shape (K, n): settings to rehearse next if one of `coarse` is the best; -1 for none.
    near: IntArray
    #: Shape (H+1,), overwritten: factors of the score (`bfio.step.two_stage.fscore`).
    reward: IntArray
    overflow: IntArray
    #: See `bfio.step.two_stage.kernel.two_stage_decide`.
    threshold: int
    candidates: int
    product_key: int


class Memory(NamedTuple):
    """The complete memory of the adaptive policy."""

    rule: Rule
    seen: Seen
    scene: Scene
    drawn: Drawn
    twin: State  #: State of the twin machine.
    record: Record  #: One row, overwritten at each step of a rehearsal.
    #: Shape (K,): mean imbalance of each setting in the latest rehearsal [tokens], -1 if not
    #: rehearsed. Then discounted sums over rehearsals: of the log score relative to the mean of
    #: `Rule.coarse`, and of the number of rehearsals.
    score: FloatArray
    total: FloatArray
    weight: FloatArray
    #: Shape (most waiting,): indices of the waiting requests, largest first; worker of each.
    by_size: IntArray
    assignment: IntArray


def new_memory(
    num_workers: int,
    slots: int,
    look_ahead: int,
    most_waiting: int,
    parameters: TwoStageParameters,
) -> Memory:
    """Return the memory at the start of a run, for windows of up to ``look_ahead`` steps.

    A decision is about at most ``most_waiting`` waiting requests.
    """
    total = num_workers * slots
    counts = _zeros(13)
    counts[DUE] = max(1, total // FIRST_REHEARSAL)
    counts[CURRENT], counts[DECIDED_AT] = FIRST_SETTING, -2
    K, M = len(SETTINGS), REMEMBERED * total + MOST_WAITING
    n = (1 + LIVES) * total + MOST_WAITING
    requests, machine = Workload(*np.ones((2, n), dtype=np.int64)), Cluster(num_workers, slots)
    twin = new_state(requests, machine, RunOptions(), look_ahead=look_ahead)
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
        *np.zeros((3, K)),
        *_zeros(2, max(most_waiting, MOST_WAITING)),
    )


def _zeros(*shape: int) -> IntArray:
    return np.zeros(shape, dtype=np.int64)


def _rule(look_ahead: int, parameters: TwoStageParameters) -> Rule:
    steps, penalty = np.array(SETTINGS, dtype=np.int64).T
    others = [near(k) if k in COARSE else () for k in range(len(SETTINGS))]
    return Rule(
        steps=steps.copy(),
        penalty=penalty.copy(),
        coarse=np.array(COARSE),
        near=np.array(list(zip_longest(*others, fillvalue=-1))).T.copy(),
        reward=_zeros(look_ahead + 1),
        overflow=_zeros(look_ahead + 1),
        threshold=parameters.threshold,
        candidates=parameters.candidates or 0,
        product_key=int(parameters.key == "product"),
    )


def statistics(memory: Memory) -> dict[str, object]:
    """Return the statistics of the policy: the settings used, and the step of each choice."""
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


# Observations at each step with a decision, the same in interpreted and compiled runs.


@compilable
def look(seen: Seen, step: int, completed: int, running: IntArray) -> None:
    """Count the requests that ended before a step, and the ends that the window predicted.

    ``running``, shape (G,), holds the number of running requests per worker before this decision.
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
    """Return whether to rehearse now; always before the first rehearsal if all slots were used."""
    counts = seen.counts
    if counts[REHEARSALS] == 0 and counts[COMPLETED] + running.sum() >= total_slots:
        return True
    return bool(counts[COMPLETED] >= counts[DUE])


@compilable
def windows_tell(seen: Seen, left: IntArray, look_ahead: int) -> bool:
    """Return whether windows are informative: they predicted enough of the ends so far.

    Before the first end, they are informative if the window contains the end of any request.

    ``left``, shape (A,), are the remaining steps of running requests according to the window.
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
    """Select a setting after a rehearsal, and schedule the next rehearsal."""
    counts = seen.counts
    listed = counts[REHEARSALS] % len(seen.log)
    seen.log[listed, 0], seen.log[listed, 1] = counts[STEP], setting
    counts[CURRENT] = setting
    counts[REHEARSALS] += 1
    pause = max(1, total_slots // FIRST_REHEARSAL, min(counts[COMPLETED], total_slots))
    counts[DUE] = counts[COMPLETED] + pause


@compilable
def note_decision(seen: Seen) -> None:
    """Count a decision of the current setting; the caller sets ``foretold`` and ``running``."""
    seen.uses[seen.counts[CURRENT]] += 1
    seen.counts[DECIDED_AT] = seen.counts[STEP]


@compilable
def set_weights(rule: Rule, setting: int, num_workers: int) -> int:
    """Write the factors of a setting's score; return the number of columns of its window.

    The weight of a step is ``γ = τ / (τ + 1)`` times that of the previous step, rounded down. The
    window ends when the weight falls below `LEAST_WEIGHT`.
    """
    steps = rule.steps[setting]
    weight, columns = FULL_WEIGHT, 0
    while columns < len(rule.reward) and (columns == 0 or weight >= LEAST_WEIGHT):
        rule.reward[columns] = weight
        rule.overflow[columns] = weight * rule.penalty[setting] * num_workers
        weight = weight * steps // (steps + 100)
        columns += 1
    return columns
