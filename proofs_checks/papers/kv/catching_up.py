"""Lemmas 5.5 and 5.6: bursts during which the optimum delays a request that Algorithm 2 starts.

Slots are those of `proofs_checks.papers.kv.model`: a request occupies consecutive slots from its
start on, or from the next slot on under convention C.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, product
from math import exp, log

import numpy as np

from formulations.arrays import FloatArray
from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Examination, Outcome, dismiss_if, verifier
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    Jobs,
    algorithm,
    jobs,
    optima,
    peak,
    present,
    problem_of,
    random_problem,
)
from proofs_checks.search import examine

CLAIMS = Claims()


@dataclass(frozen=True)
class Burst:
    """Some requests in round 0, then short ones at equal intervals, then none.

    Parameters
    ----------
    convention : Convention
        Which slots and tokens a request occupies.
    memory, prompt : int
        ``M`` and ``s`` [tokens].
    present : tuple of int
        Outputs of the requests that arrive in round 0; the statement concerns the first.
    output, number : int
        Output of the short requests, and how many arrive at a time.
    gap, period : int
        Round of the first short arrivals, and rounds between short arrivals.
    length : int
        ``L``: number of short arrival times.
    """

    convention: Convention
    memory: int
    prompt: int
    present: tuple[int, ...]
    output: int
    number: int
    gap: int
    period: int
    length: int

    @property
    def problem(self) -> LatencyProblem:
        """The hindsight problem with these requests."""
        times = [
            self.gap + self.period * k for k in range(self.length) for _ in range(self.number)
        ]
        outputs = [*self.present, *[self.output] * len(times)]
        arrivals = [*[0] * len(self.present), *times]
        prompts = [self.prompt] * len(outputs)
        return problem_of(self.memory, prompts, outputs, self.convention, arrivals)

    def starts(self) -> set[int]:
        """Return the rounds in which optimal schedules start the first request."""
        return {schedule[0] for schedule in optima(jobs(self.problem))}

    @property
    def last(self) -> int:
        """Round of the last arrival."""
        return self.gap + self.period * (self.length - 1)


def burst_of(data: Data) -> Burst:
    """Read a burst; reject invalid ones and those too large to be solved here."""
    burst = Burst(
        **data | {"convention": Convention(data["convention"]), "present": tuple(data["present"])}
    )
    small = len(burst.present) + burst.length * burst.number <= 8
    if not small or min(burst.number, burst.gap, burst.period) < 1 or burst.length < 3:
        raise ValueError("no burst")
    return burst


@verifier
def verify(data: Data) -> str | None:
    """Check that the optimum delays the first request past the burst, for three burst lengths."""
    burst = burst_of(data)
    dismiss_if(
        any(burst.prompt + output > burst.memory for output in (*burst.present, burst.output))
    )
    dismiss_if(algorithm(jobs(burst.problem))[0] != 0)
    shown = []
    for length in range(burst.length - 2, burst.length + 1):
        case = replace(burst, length=length)
        starts = case.starts()
        if min(starts) < case.last:
            return None
        shown.append(f"L = {length}: {min(starts) + burst.present[0]}")
    return (
        f"convention {burst.convention.value}, M = {burst.memory}, s = {burst.prompt}: outputs "
        f"{list(burst.present)} wait in round 0, Algorithm 2 starts the first; then L times "
        f"{burst.number} of output {burst.output}, from round {burst.gap} on, every "
        f"{burst.period} rounds, then none for a while. Least t̂ − t: {', '.join(shown)}"
    )


def verify_queue(data: Data) -> str | None:
    """Check that the optimum delays a request past a burst, with two more requests at 0."""
    return verify(data) if len(data["present"]) >= 3 else None


#: Hypotheses of both lemmas.
ARRIVALS = ("arrivals per round i.i.d. within [0, B]", "outputs i.i.d.")


# Lemma 5.5: stable systems. Proof: ``proofs/lemma5.5.md``.


def _single(context: Context) -> Iterator[Burst]:
    length = context.choose(3, 3, 4)
    for convention, memory, number, longest in product(
        CONVENTIONS, range(3, context.choose(5, 6, 7)), (1, 2), (2, 3, 4)
    ):
        shorts = 2 if convention is Convention.PRINTED else 1
        if longest < memory and number * length <= 6:
            yield Burst(convention, memory, 1, (longest,), shorts, number, 1, 1, length)
    # One request at a time; the smallest burst known under B with s + o ≤ M.
    yield Burst(Convention.PRINTED, 7, 4, (3,), 1, 1, 1, 1, 4)


# Lemma 5.5: the move of a schedule in the proof.


def idle_slots(data: Jobs, starts: Sequence[int], until: int) -> list[int]:
    """Return the slots before ``until`` that no request occupies."""
    busy = {s + age for s, n in zip(starts, data.length, strict=True) for age in range(n)}
    return [slot for slot in range(until) if slot not in busy]


def moved(starts: Sequence[int], job: int, idle: Sequence[int], less: int = 0) -> list[int]:
    """Move a job to the first of some idle slots, and delay the jobs that start between them.

    ``less`` reduces these delays, to show that they are needed.
    """
    after = list(starts)
    for other, start in enumerate(starts):
        passed = sum(slot < start for slot in idle)
        if other != job and 0 < passed < len(idle):
            after[other] = start + len(idle) - passed - less
    after[job] = idle[0]
    return after


def _spread(context: Context) -> Iterator[tuple[Jobs, list[int]]]:
    """Yield requests with feasible schedules that leave idle slots."""
    for _ in range(context.choose(150, 4000, 60_000)):
        data = jobs(random_problem(context.rng, least=2, most=4, memory=9, mixed=True))
        starts = [a + int(context.rng.integers(0, 16)) for a in data.arrival]
        if peak(data, starts) <= data.memory:
            yield data, starts


def _moves(context: Context) -> Iterator[tuple[Jobs, list[int], int, list[int]]]:
    """Yield jobs, a schedule, one of the jobs, and as many idle slots before it as it needs."""
    for data, starts in _spread(context):
        for job, (start, length) in enumerate(zip(starts, data.length, strict=True)):
            idle = [r for r in idle_slots(data, starts, start) if r >= data.arrival[job]]
            if len(idle) >= length:
                yield data, starts, job, idle[:length]


def _move_is_sound(less: int, data: Jobs, starts: list[int], job: int, idle: list[int]) -> bool:
    after = moved(starts, job, idle, less)
    between = sum(idle[0] < start < idle[-1] for start in starts)
    cost = sum(after) - sum(starts)
    return (
        peak(data, after) <= data.memory
        and all(s >= a for s, a in zip(after, data.arrival, strict=True))
        and cost <= idle[0] - starts[job] + (data.length[job] - 1) * between
    )


# The amount of waiting work.


def work_tail(law: FloatArray, slots: int, rounds: int, level: float) -> float:
    """Return ``P(W ≥ level)`` for the proof's waiting work W after some rounds.

    Parameters
    ----------
    law : FloatArray
        Law of the arrivals in a round.
    slots : int
        Most slots that a request occupies.
    rounds : int
        Rounds.
    level : float
        Work [slots].
    """
    one = np.zeros(slots * (len(law) - 1) + 1)
    one[::slots] = law
    work: FloatArray = one
    for _ in range(rounds):
        left = work[1:].copy() if len(work) > 1 else np.zeros(1)
        left[0] += work[0]
        work = np.convolve(left, one)
    return float(work[np.arange(len(work)) >= level].sum())


def _work_bounded(share: float, part: float, chance: float, slots: int, duration: int) -> bool:
    law = np.array([1 - chance, chance])
    eta = 1 - slots * chance
    constant = part / (exp(2 * eta**2 / slots**2) - 1)
    level = share * slots**2 * log(duration) / (4 * eta) + 1
    return work_tail(law, slots, 60, level) <= constant / duration


# Requests that run side by side.


def largest_peak(data: Jobs) -> int:
    """Return ``π``: the largest number of tokens that a request ever holds."""
    return max(f + n - 1 for f, n in zip(data.first, data.length, strict=True))


def _side_by_side(data: Jobs, more: int) -> bool:
    """Return whether at least ``⌊M/π⌋`` requests run whenever one waits under Algorithm 2."""
    starts = algorithm(data)
    least = data.memory // largest_peak(data) + more
    return all(
        len(present(data, starts, slot)) >= least
        for start, arrival in zip(starts, data.arrival, strict=True)
        for slot in range(arrival, start)
    )


def _roomy_run(data: Jobs, starts: Sequence[int], slot: int, length: int) -> bool:
    """Return whether each of ``length`` slots from ``slot`` on has memory for any request."""
    room = data.memory - largest_peak(data)
    return all(sum(present(data, starts, slot + d)) <= room for d in range(length))


def _no_run_is_left(data: Jobs) -> bool:
    """Whether no optimum delays a request past enough successive slots with memory for any."""
    return not any(
        _roomy_run(data, starts, slot, length)
        for starts in optima(data)
        for start, arrival, length in zip(starts, data.arrival, data.length, strict=True)
        for slot in range(arrival, start)
    )


def _sharing(context: Context, more: int) -> tuple[Examination[Jobs], Examination[Jobs]]:
    """Check the steps of Theorems 3 and 4 that concern a single schedule."""
    number = context.choose(120, 600, 20_000)
    drawn = [jobs(random_problem(context.rng, least=3, most=9, memory=16)) for _ in range(number)]
    few = [
        jobs(random_problem(context.rng, least=2, most=4, memory=12)) for _ in range(number // 3)
    ]
    return (
        examine(
            "where a request waits under Algorithm 2, ⌊M/π⌋ are there",
            "random requests of one prompt, 3 to 9",
            drawn,
            lambda data: _side_by_side(data, more),
        ),
        examine(
            "no optimum leaves a request waiting before as many roomy slots as it needs",
            "the same, 2 to 4, all optimal schedules",
            few,
            _no_run_is_left,
        ),
    )


@CLAIMS.result(
    "kv.lemma5.5",
    Mutation("room for one slot less in the correction", less=1),
    Mutation("a tenth of the level of work in the correction", share=0.1),
    Mutation("a twentieth of κ in the correction", part=0.05),
    Mutation("one request more side by side in the correction", more=1),
    hypotheses=(*ARRIVALS, "λ < μ*, here in the form λ·ℓ < 1 with ℓ slots at most a request"),
    defect=Defect.RESULT,
    verify=verify,
    proof="lemma5.5",
)
def _lemma55_check(
    context: Context, *, less: int = 0, share: float = 1, part: float = 1, more: int = 0
) -> Outcome:
    """OFF catches up in a stable system.

    Source: KV-cache paper, Lemma 5.5 (section 5.1)
    Statement: If λ < μ*, OFF completes S_ON ∪ U within a constant C_1 of rounds, with probability
        1 − O(1/T).
    Formula: λ < μ*  ⇒  Pr(t̂ − t ≤ C_1) ≥ 1 − O(1/T)
    Summary: A burst of short requests right after a long one was started: the optimum starts the
        long one after the burst. A burst longer than any constant has a positive probability that
        does not depend on T.
    Reading: the paper leaves μ* open; λ·ℓ < 1 makes every policy stable that does not idle. t̂ is
        when OFF, optimal from Algorithm 2's state at t on, has completed S_ON ∪ U; the least over
        all optima is taken where it is refuted, the largest where it is corrected.
    Correction: C_1 = K·log T does, and no smaller order: if λ·ℓ < 1, every optimum has completed
        S_ON ∪ U by t + K·log T with probability 1 − O(1/T), K depending on λ, B, ℓ and M. A
        request that waits while d slots stand idle could use them, at the cost of d − 1 rounds for
        each that starts between them; and idle slots come within O(log T). Where m = ⌊M/π⌋
        requests of the largest peak π fit side by side, K·log T does if λ·(2ℓ − 1) < m, and K·(log
        T)² if λ·ℓ < m and rounds without arrivals occur. From there up to μ* no proof is known to
        us.
    """
    printed = context.refute(
        "the optimum serves what Algorithm 2 has started before the end of a burst",
        "one request in round 0, then bursts of short ones; small M and outputs, conventions A, "
        "B, C, all optimal schedules",
        _single(context),
    )
    move = examine(
        "moved to the first of d idle slots, it fits, and the others lose d − 1 rounds each at "
        "most",
        "random schedules with idle slots of random requests, each request and the idle slots "
        "before it",
        _moves(context),
        partial(_move_is_sound, less),
    )
    work = examine(
        "P(W ≥ ℓ²B²·log T/(4η) + 1) ≤ κ/T",
        "one arrival a round or none, laws by convolution, ℓ = 2, 3, 5, ℓλ = 0.3, 0.6, 0.9, T = "
        "2, 10, 100, 1000",
        [(rho / n, n, t) for n, rho, t in product((2, 3, 5), (0.3, 0.6, 0.9), (2, 10, 100, 1000))],
        partial(_work_bounded, share, part),
    )
    return printed, move, work, *_sharing(context, more)


# Lemma 5.6: overloaded systems. Proof: ``proofs/lemma5.6.md``.


#: Convention, memory, prompt and unit of time with room for one request at a time; outputs that
#: occupy one, two and three units.
_ONE_AT_A_TIME = (
    (Convention.PRINTED, 7, 4, 1, (1, 2, 3)),
    (Convention.HALF_OPEN, 8, 5, 1, (1, 2, 3)),
    (Convention.CLOSED, 11, 6, 2, (1, 3, 5)),
)


def queued(convention_index: int, others: int, length: int) -> Burst:
    """Return an instance of lemma5.6.md: J of two units, others of three, a burst of one unit."""
    convention, memory, prompt, unit, (one, two, three) = _ONE_AT_A_TIME[convention_index]
    present = (two, *[three] * others)
    return Burst(convention, memory, prompt, present, one, 1, 3 * unit, unit, length)


#: Short and long requests that arrive in a round.
Round = tuple[int, int]


def stream(convention_index: int, rounds: tuple[Round, ...]) -> LatencyProblem:
    """Return an instance with J of three units in round 0, then arrivals in rounds 1, 2, ..."""
    convention, memory, prompt, _, (one, _, three) = _ONE_AT_A_TIME[convention_index]
    arrivals, outputs = [0], [three]
    for now, (short, long) in enumerate(rounds, 1):
        arrivals += [now] * (short + long)
        outputs += [one] * short + [three] * long
    return problem_of(memory, [prompt] * len(outputs), outputs, convention, arrivals)


def overloaded(rounds: tuple[Round, ...], behind: int = 0) -> bool:
    """Whether short requests never run out, and outnumber the long ones and J by at least two."""
    short, long = (sum(column) for column in zip(*rounds, strict=True))
    never_out = all(
        done >= now - behind for now, done in enumerate(accumulate(s for s, _ in rounds), 1)
    )
    return never_out and short >= long + 3


def _streams(context: Context, behind: int) -> Iterator[tuple[int, tuple[Round, ...]]]:
    kinds = context.choose((0,), (0, 1), (0, 1, 2))
    most = context.choose(5, 6, 7)
    for length, kind in product(range(1, most - 1), kinds):
        for rounds in product(((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 0)), repeat=length):
            if sum(map(sum, rounds)) < most and overloaded(rounds, behind):
                yield kind, rounds


def _outlasts(kind: int, rounds: tuple[Round, ...]) -> bool:
    """Return whether Algorithm 2 starts J at 0, but each optimum after all short requests."""
    data, unit = jobs(stream(kind, rounds)), _ONE_AT_A_TIME[kind][3]
    after = 1 + unit * sum(short for short, _ in rounds)
    return algorithm(data)[0] == 0 and all(starts[0] >= after for starts in optima(data))


@CLAIMS.result(
    "kv.lemma5.6",
    Mutation("one other request in the queue", others=1),
    Mutation("one round later in the correction", later=1),
    Mutation("short ones may run out in the correction", behind=1),
    hypotheses=(*ARRIVALS, "λ > μ*"),
    defect=Defect.RESULT,
    verify=verify_queue,
    proof="lemma5.6",
)
def _lemma56_check(
    context: Context, *, others: int = 2, later: int = 0, behind: int = 0
) -> Outcome:
    """OFF catches up in an overloaded system.

    Source: KV-cache paper, Lemma 5.6 (section 5.1)
    Statement: If λ > μ*, there is t_0 such that for t ≥ t_0 OFF completes S_ON ∪ U within a
        constant C_2 of rounds, with probability 1 − O(1/T).
    Formula: λ > μ*  ⇒  Pr(t̂ − t ≤ C_2) ≥ 1 − O(1/T) for t ≥ t_0
    Summary: With a queue of long requests the optimum starts one of them that just fits the time
        before a burst of short ones, and the shorter one that Algorithm 2 starts only after the
        burst, however long it is.
    Reading: for each fixed t, as T grows: so is the lemma printed, with constants t_0 and C_2. The
        probability found falls with t; the printed proof argues with a backlog that grows with t.
    Correction: For every t there is a positive probability, independent of T, of t̂ − t ≥ 5 + L,
        for every L ≥ 3 (one request at a time; units of one, J of two, others of three rounds),
        and, where short requests alone overload the worker, of t̂ − t > T − t: no C_2 = o(T) is
        enough, K·log T neither. For t that grows with T it is open; among equal requests OFF must
        then be taken to serve those first that Algorithm 2 has started, else t̂ − t is not bounded
        at all.
    """
    lengths = context.choose((3, 4), (3, 4, 5), (3, 4, 5))
    kinds = context.choose((0, 1), (0, 1, 2), (0, 1, 2))
    printed = context.refute(
        "the optimum serves what Algorithm 2 has started before the end of a burst",
        "one request of two units and two of three in round 0, then a burst of units; one fits at "
        "a time; conventions B and C (normal also A), all optimal schedules",
        [queued(kind, others, 4) for kind in kinds],
    )
    corrected = examine(
        "it starts right after the burst, in round 3 + L (units), for every L ≥ 3",
        "the same with two and three others",
        [
            queued(kind, n, length)
            for kind in (0, 1)
            for n in (2, 3)
            for length in lengths
            if n + length <= context.choose(6, 7, 7)
        ],
        lambda burst: burst.starts() == {burst.last + burst.period + later},
    )
    never = examine(
        "under a stream of short ones that never runs out it starts after the last of them",
        "every stream that meets theorem 2, up to 5 requests (normal 6, and convention C), all "
        "optimal schedules",
        _streams(context, behind),
        _outlasts,
    )
    return printed, corrected, never
