"""Lemma 5.5: stable systems. Proof: ``proofs/lemma5.5.md``."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import exp, log

import numpy as np

from formulations.arrays import FloatArray
from formulations.hindsight_latency import Convention
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Examination, Outcome
from proofs_checks.papers.kv.bursts import ARRIVALS, Burst, verify
from proofs_checks.papers.kv.model import (
    CONVENTIONS,
    Jobs,
    algorithm,
    jobs,
    optima,
    peak,
    present,
    random_problem,
)
from proofs_checks.search import examine, refute

CLAIMS = Claims()


def _single(context: Context) -> Iterator[Burst]:
    length = context.choose(3, 3, 4)
    for convention, memory, number, longest in product(
        CONVENTIONS, range(3, context.choose(5, 6, 7)), (1, 2), (2, 3, 4)
    ):
        shorts = 2 if convention is Convention.PRINTED else 1
        if longest < memory and number * length <= 6:
            yield Burst(convention, memory, 1, (longest,), shorts, number, 1, 1, length)
    # One request at a time, the smallest burst under B with s + o ≤ M that we know.
    yield Burst(Convention.PRINTED, 7, 4, (3,), 1, 1, 1, 1, 4)


# Lemma 5.5: the schedule that is moved in the proof.


def idle_slots(data: Jobs, starts: Sequence[int], until: int) -> list[int]:
    """Return the slots before ``until`` that nobody occupies."""
    busy = {s + age for s, n in zip(starts, data.length, strict=True) for age in range(n)}
    return [slot for slot in range(until) if slot not in busy]


def moved(starts: Sequence[int], job: int, idle: Sequence[int], less: int = 0) -> list[int]:
    """Move a job to the first of some idle slots, and what starts between them out of its way.

    With ``less`` the others make room for so many slots less, to show that they must.
    """
    after = list(starts)
    for other, start in enumerate(starts):
        passed = sum(slot < start for slot in idle)
        if other != job and 0 < passed < len(idle):
            after[other] = start + len(idle) - passed - less
    after[job] = idle[0]
    return after


def _spread(context: Context) -> Iterator[tuple[Jobs, list[int]]]:
    """Yield requests and schedules that fit, with idle slots."""
    for _ in range(context.choose(150, 4000, 60_000)):
        data = jobs(random_problem(context.rng, least=2, most=4, memory=9, mixed=True))
        starts = [a + int(context.rng.integers(0, 16)) for a in data.arrival]
        if peak(data, starts) <= data.memory:
            yield data, starts


def _moves(context: Context) -> Iterator[tuple[Jobs, list[int], int, list[int]]]:
    """Yield jobs with a schedule, one of them, and idle slots before it, as many as it needs."""
    for data, starts in _spread(context):
        for job, (start, length) in enumerate(zip(starts, data.length, strict=True)):
            idle = [r for r in idle_slots(data, starts, start) if r >= data.arrival[job]]
            if len(idle) >= length:
                yield data, starts, job, idle[:length]


def _move_is_sound(case: tuple[Jobs, list[int], int, list[int]], less: int) -> bool:
    data, starts, job, idle = case
    after = moved(starts, job, idle, less)
    between = sum(idle[0] < start < idle[-1] for start in starts)
    cost = sum(after) - sum(starts)
    return (
        peak(data, after) <= data.memory
        and all(s >= a for s, a in zip(after, data.arrival, strict=True))
        and cost <= idle[0] - starts[job] + (data.length[job] - 1) * between
    )


# How much waits.


def work_tail(law: FloatArray, slots: int, rounds: int, level: float) -> float:
    """Return ``P(W ≥ level)`` for the work of the proof after some rounds.

    Parameters
    ----------
    law : FloatArray
        Law of the arrivals in a round.
    slots : int
        Slots that each occupies at most.
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


def _work_bounded(case: tuple[float, int, int], share: float) -> bool:
    chance, slots, duration = case
    law = np.array([1 - chance, chance])
    eta = 1 - slots * chance
    constant = 1 / (exp(2 * eta**2 / slots**2) - 1)
    level = share * slots**2 * log(duration) / (4 * eta) + 1
    return work_tail(law, slots, 60, level) <= constant / duration


# Side by side.


def largest_peak(data: Jobs) -> int:
    """Return ``π``: the most tokens that a request ever holds."""
    return max(f + n - 1 for f, n in zip(data.first, data.length, strict=True))


def _side_by_side(data: Jobs, more: int) -> bool:
    """Whether ``⌊M/π⌋`` requests are there wherever one waits under Algorithm 2."""
    starts = algorithm(data)
    least = data.memory // largest_peak(data) + more
    return all(
        len(present(data, starts, slot)) >= least
        for start, arrival in zip(starts, data.arrival, strict=True)
        for slot in range(arrival, start)
    )


def _roomy_run(data: Jobs, starts: Sequence[int], slot: int, length: int) -> bool:
    """Whether so many slots from one on leave room for any request."""
    room = data.memory - largest_peak(data)
    return all(sum(present(data, starts, slot + d)) <= room for d in range(length))


def _no_run_is_left(data: Jobs) -> bool:
    """Whether no optimum leaves a request waiting before as many roomy slots as it needs."""
    return not any(
        _roomy_run(data, starts, slot, length)
        for starts in optima(data)
        for start, arrival, length in zip(starts, data.arrival, data.length, strict=True)
        for slot in range(arrival, start)
    )


def _sharing(context: Context, more: int) -> tuple[Examination[Jobs], Examination[Jobs]]:
    """Check the steps of Theorems 3 and 4 that are about one schedule."""
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
    Mutation("one request more side by side in the correction", more=1),
    hypotheses=(*ARRIVALS, "λ < μ*, here in the form λ·ℓ < 1 with ℓ slots at most a request"),
    defect=Defect.RESULT,
    verify=verify,
    proof="lemma5.5",
)
def _lemma55_check(context: Context, *, less: int = 0, share: float = 1, more: int = 0) -> Outcome:
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
    printed = refute(
        "the optimum serves what Algorithm 2 has started before the end of a burst",
        "one request in round 0, then bursts of short ones; small M and outputs, conventions A, "
        "B, C, all optimal schedules",
        _single(context),
        verify,
        Burst.to_data,
    )
    move = examine(
        "moved to the first of d idle slots, it fits, and the others lose d − 1 rounds each at "
        "most",
        "random schedules with idle slots of random requests, each request and the idle slots "
        "before it",
        _moves(context),
        lambda case: _move_is_sound(case, less),
    )
    work = examine(
        "P(W ≥ ℓ²B²·log T/(4η) + 1) ≤ κ/T",
        "one arrival a round or none, laws by convolution, ℓ = 2, 3, 5, ℓλ = 0.3, 0.6, 0.9, T = "
        "10, 100, 1000",
        [(rho / n, n, t) for n, rho, t in product((2, 3, 5), (0.3, 0.6, 0.9), (10, 100, 1000))],
        lambda case: _work_bounded(case, share),
    )
    return printed, move, work, *_sharing(context, more)
