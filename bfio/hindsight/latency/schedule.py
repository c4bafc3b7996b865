"""Feasible schedules: place requests one by one, and search over the order of placement.

Placement in the best order need not give an optimum. Two requests may fit beside the peak of a
third only if both start later than each could alone. So serial placement is a heuristic here,
unlike for requests of constant size. The search over rounds proves optimality.
"""

import math

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.kernels import entry_point
from bfio.common.memory import allowed_bytes
from bfio.hindsight.in_hand import is_over
from bfio.hindsight.latency.configurations import NormalForm
from bfio.kvcache.run import CacheLimits
from bfio.kvcache.simulation import serve
from formulations.arrays import IntArray
from formulations.hindsight_latency import Convention, LatencyProblem

#: Maximum length of a schedule with memory tracked round by round.
MAX_ROUNDS = 1_000_000
#: Rounds checked in all orders together, and between two checks of the time.
_MAX_WORK = 2_000_000_000
_PIECE_WORK = 10_000_000
#: Memory of one round of an online algorithm [bytes].
_ROUND_BYTES = 256


def sequential_starts(form: NormalForm) -> IntArray:
    """Return a schedule in batches whose peaks fit together; valid for any data."""
    starts = np.zeros(form.num_requests, dtype=np.int64)
    begin, end, used = 0, 0, form.memory + 1
    peaks, durations = form.peak.tolist(), form.duration.tolist()
    for i in np.lexsort((form.duration, form.arrival)).tolist():
        arrival = int(form.arrival[i])
        if used + peaks[i] > form.memory or arrival > begin:
            begin, used = max(end, arrival), 0
        starts[i] = begin
        used += peaks[i]
        end = max(end, begin + durations[i])
    return starts


def good_starts(form: NormalForm, decodes: int, deadline: float = math.inf) -> IntArray:
    """Return a good schedule by annealing over orders, starting with shortest first.

    For schedules that are too long, return the best of simple batches, MC-Benchmark and MC-SF.

    Parameters
    ----------
    form : NormalForm
        Data of the problem.
    decodes : int
        Maximum number of orders tried; fewer if each takes long.
    deadline : float
        Value of `time.perf_counter` at which to stop. Unless it is reached, the schedule is
        deterministic.
    """
    simple = sequential_starts(form)
    rounds = int((simple + form.duration).max(initial=0)) + 1
    total = int(form.arrival.max(initial=0) + form.duration.sum() + form.duration.max(initial=0))
    if form.num_requests < 2:
        return simple
    if max(rounds, total) > MAX_ROUNDS:
        return _best_served(form, simple, deadline)
    first = np.lexsort((form.prompt, form.duration, form.arrival)).astype(np.int64)
    value, starts = _annealed(form, first, total + 1, decodes, deadline)
    return starts if value <= simple.sum() else simple


def _best_served(form: NormalForm, simple: IntArray, deadline: float) -> IntArray:
    """Run online algorithms until the deadline; return the best starts."""
    rounds = int((simple + form.duration).max() - form.arrival.min())
    many = fewest_rounds(form) > CacheLimits().batches
    if many or rounds * _ROUND_BYTES > allowed_bytes():
        return simple  # Every run would reach its limit of batches, or of memory.
    problem = LatencyProblem(
        form.memory, form.arrival, form.prompt, form.duration, Convention.PRINTED
    )
    best = simple
    for algorithm in ("mc-benchmark", "mc-sf"):
        if not is_over(deadline):
            run = serve(problem, algorithm)
            if run.is_finished and run.start.sum() < best.sum():
                best = run.start
    return best


def fewest_rounds(form: NormalForm) -> int:
    """Return a lower bound on the number of rounds with a running request in any schedule."""
    durations, peaks = form.duration.tolist(), form.peak.tolist()
    areas = (
        d * (first + peak) // 2
        for d, first, peak in zip(durations, form.prompt.tolist(), peaks, strict=True)
    )
    return int(max(max(durations, default=0), -(-sum(areas) // form.memory)))


def _annealed(
    form: NormalForm, order: IntArray, rounds: int, decodes: int, deadline: float
) -> tuple[int, IntArray]:
    """Anneal over orders by swaps and insertions, in pieces that allow stopping.

    Returns the least sum of starts, and the starts; ``order`` is overwritten.
    """
    generator = np.random.default_rng(0)
    used, starts = np.zeros(rounds, np.int64), np.zeros(len(order), np.int64)
    value, looks = place_in_order(order, form, used, starts)
    current, work = value, looks + rounds
    # Four short cooling cycles give better results than a long one on the test instances.
    period = max(min(decodes, _MAX_WORK // work) // 4, 1)
    piece = max(_PIECE_WORK // work, 1)
    hottest = 1.0 + 0.02 * value / len(order)
    for begin in range(0, min(decodes, 4 * period), piece):
        if is_over(deadline):
            break
        count = min(piece, min(decodes, 4 * period) - begin)
        cooling = (begin, count, period, hottest)
        current, value = search_orders(
            order, form, used, *cooling, current, value, starts, generator
        )
    return value, starts


@entry_point
def place_in_order(
    order: IntArray, form: NormalForm, used: IntArray, starts: IntArray
) -> tuple[int, int]:
    """Start each request as early as the requests placed before it allow.

    Returns the sum of starts, and the number of rounds checked.
    """
    used[:] = 0
    total, looks = 0, 0
    memory, prompt, duration = form.memory, form.prompt, form.duration
    for i in order:
        start = form.arrival[i]
        age = duration[i] - 1
        while age >= 0:
            looks += 1
            room = memory - used[start + age] - prompt[i]
            if room < age:
                # At this round the request may have at most age ``room``, or be absent.
                start += age - max(room, -1)
                age = duration[i] - 1
            else:
                age -= 1
        starts[i] = start
        total += start
        for age in range(duration[i]):
            used[start + age] += prompt[i] + age
    return total, looks


@entry_point
def search_orders(
    order: IntArray,
    form: NormalForm,
    used: IntArray,
    begin: int,
    count: int,
    period: int,
    hottest: float,
    current: int,
    best: int,
    best_starts: IntArray,
    generator: np.random.Generator,
) -> tuple[int, int]:
    """Anneal from step ``begin`` on; return the value of the order and the best value."""
    n = len(order)
    starts = np.zeros(n, np.int64)
    trial = order.copy()
    for step in range(begin, begin + count):
        temperature = hottest * (1.0 - (step % period) / period) ** 2 + 1e-6
        copy_to(trial, order)
        source = int(generator.random() * n)
        reach = 6 if generator.random() < 0.5 else n
        target = min(n - 1, max(0, source - reach + int(generator.random() * (2 * reach + 1))))
        moved = trial[source]
        if generator.random() < 0.5:
            trial[source] = trial[target]
        elif source < target:
            for j in range(source, target):
                trial[j] = trial[j + 1]
        else:
            for j in range(source, target, -1):
                trial[j] = trial[j - 1]
        trial[target] = moved
        value, _ = place_in_order(trial, form, used, starts)
        if value <= current or generator.random() < math.exp((current - value) / temperature):
            current = value
            copy_to(order, trial)
            if value < best:
                best = value
                copy_to(best_starts, starts)
    return current, best
