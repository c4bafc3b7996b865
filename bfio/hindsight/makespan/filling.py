"""Schedules by insertion: small requests fill the gaps between a worker's load and the peak.

Requests are inserted one by one, each at the worker and start of least price where it fits. The
price is the increase of the objective, plus a smaller price per token by which the load stays
below the existing peaks. Requests with the highest peaks come first and add busy steps; later
requests fill the gaps.

A cell is one step on one worker. The total gap below the peaks is stored for each block of cells,
so most places are rejected after a few blocks. The chosen place does not change.

If idling is free and a step costs its maximum load, an offline schedule can balance the loads: a
request starts at the time and on the worker where it raises the peaks least, also before or after
all placed requests. List schedules never idle, so they cannot delay a request to fill a gap.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.hindsight.makespan.search import SearchForm
from formulations.arrays import IntArray
from formulations.deadline import Deadline
from formulations.hindsight_makespan import MakespanObjective, objective_value
from formulations.hindsight_makespan.problem import Schedule

#: Number of steps per block.
BLOCK = 16
#: Greater than every price.
_NEVER = 2**61


class Profile(NamedTuple):
    """Loads at each step, and the prices of insertions.

    ``load``, ``running`` and ``room`` have shape (G, T), ``peak`` (T,). ``room`` is the sum of
    ``peak − load`` from the first step of the block on. ``memory`` has shape (G,). ``per_step`` is
    the price of a step that becomes busy, ``per_token`` of a token by which a peak rises,
    ``per_gap`` of a token by which a step of the request stays below its peak.
    """

    load: IntArray
    running: IntArray
    peak: IntArray
    room: IntArray
    memory: IntArray
    slots: int
    per_step: int
    per_token: int
    per_gap: int


class Places(NamedTuple):
    """Requests and their places. ``span`` holds the first busy step and the one after the last.

    ``effort`` has one entry, the number of cells and blocks checked so far.
    """

    prompt: IntArray
    output: IntArray
    start: IntArray
    worker: IntArray
    span: IntArray
    effort: IntArray


@entry_point
def insert_next(
    profile: Profile, places: Places, order: IntArray, first: int, most_effort: int
) -> int:
    """Insert ``order[first:]`` one by one; return how many requests of ``order`` are placed.

    It stops early after ``most_effort`` cells and blocks, or if the arrays may be too short.
    """
    until = places.effort[0] + most_effort
    for r in range(first, len(order)):
        i = order[r]
        output = places.output[i]
        early, late = places.span[0] - output, places.span[1] + output
        if early < 0 or late > len(profile.peak) or places.effort[0] > until:
            return r
        insert(profile, places, i, early, places.span[1])
    return len(order)


@entry_point
def put_all(profile: Profile, places: Places, placed: IntArray) -> None:
    """Add placed requests to the profile."""
    for i in placed:
        put(profile, places, i)


@compilable
def insert(profile: Profile, places: Places, i: int, early: int, late: int) -> None:
    """Place request i at the cheapest start from step ``early`` to step ``late``."""
    worker, start = cheapest_place(profile, places, i, early, late)
    places.worker[i] = worker
    places.start[i] = start
    put(profile, places, i)
    places.span[0] = min(places.span[0], start)
    places.span[1] = max(places.span[1], start + places.output[i])


@compilable
def cheapest_place(
    profile: Profile, places: Places, i: int, early: int, late: int
) -> tuple[int, int]:
    """Return worker and start of least price; ties: lowest worker, then latest start.

    Worker -1 means that no place fits; this cannot occur if steps from ``late`` on are unused.
    """
    prompt, output = places.prompt[i], places.output[i]
    # The sampled value exceeds an attained price by 1, so a place of that price is accepted.
    least, at_worker, at_start = _sampled(profile, places, i, early, late), -1, -1
    for g in range(profile.load.shape[0]):
        # Number of consecutive steps from ``start`` on with a free slot.
        free = 0
        places.effort[0] += late + output - early
        for start in range(late + output - 1, early - 1, -1):
            free = free + 1 if profile.running[g, start] < profile.slots else 0
            if free < output or start > late:
                continue
            price = _price(profile, places, g, start, output, prompt, least)
            if price < least:
                least, at_worker, at_start = price, g, start
            if least == 0:
                return at_worker, at_start
    return at_worker, at_start


@compilable
def _sampled(profile: Profile, places: Places, i: int, early: int, late: int) -> int:
    """Return 1 plus the least price over one place per block; `_NEVER` if none fits."""
    prompt, output = places.prompt[i], places.output[i]
    least = _NEVER - 1
    for g in range(profile.load.shape[0]):
        for start in range(late, early - 1, -BLOCK):
            price = _price(profile, places, g, start, output, prompt, least)
            if price < least and _is_free(profile, g, start, output):
                least = price
        if least == 0:
            break
    return least + 1


@compilable
def _is_free(profile: Profile, g: int, start: int, output: int) -> bool:
    k = start
    while k < start + output and profile.running[g, k] < profile.slots:
        k += 1
    return k == start + output


@compilable
def _price(
    profile: Profile, places: Places, g: int, start: int, output: int, prompt: int, least: int
) -> int:
    """Return the price of a place if it is below ``least``, else some value >= ``least``.

    The lower bounds of all blocks are added first and then replaced by prices, block by block.
    """
    end = start + output
    price, k = 0, start
    while k < end and price < least:
        after = min((k // BLOCK + 1) * BLOCK, end)
        price += _floor(profile, g, k, after, prompt + k - start)
        places.effort[0] += 1
        k = after
    k = start
    while k < end and price < least:
        after = min((k // BLOCK + 1) * BLOCK, end)
        price -= _floor(profile, g, k, after, prompt + k - start)
        price += _price_within(profile, g, k, after, prompt + k - start)
        places.effort[0] += after - k
        k = after
    return price


@compilable
def _floor(profile: Profile, g: int, k: int, after: int, load: int) -> int:
    """Return a lower bound on the price of the steps ``k .. after − 1`` of one block.

    The price of a step is convex in ``load − room``, so the sum of prices is at least the number
    of steps times the price at the mean (Jensen).
    """
    room: int = profile.room[g, after - 1]
    if k % BLOCK:
        room -= profile.room[g, k - 1]
    steps = after - k
    above = steps * load + steps * (steps - 1) // 2 - room
    return above * profile.per_token if above > 0 else -above * profile.per_gap


@compilable
def _price_within(profile: Profile, g: int, k: int, after: int, load: int) -> int:
    """Return the price of the steps ``k .. after − 1``; the request has load ``load`` at k."""
    price = 0
    for step in range(k, after):
        new = profile.load[g, step] + load + step - k
        above = new - profile.peak[step]
        price += max(above, 0) * profile.per_token - min(above, 0) * profile.per_gap
        if profile.peak[step] == 0:
            price += profile.per_step
        if new > profile.memory[g]:
            return _NEVER
    return price


@compilable
def put(profile: Profile, places: Places, i: int) -> None:
    """Add request i to the profile at its place."""
    g, start, output = places.worker[i], places.start[i], places.output[i]
    risen = False
    for j in range(output):
        profile.load[g, start + j] += places.prompt[i] + j
        profile.running[g, start + j] += 1
        if profile.load[g, start + j] > profile.peak[start + j]:
            profile.peak[start + j] = profile.load[g, start + j]
            risen = True
    for block in range(start // BLOCK, (start + output - 1) // BLOCK + 1):
        for h in range(profile.load.shape[0]):
            # If no peak rose, the gaps of other workers are unchanged.
            if risen or h == g:
                _measure_room(profile, h, block)


@compilable
def _measure_room(profile: Profile, h: int, block: int) -> None:
    room = 0
    for k in range(block * BLOCK, (block + 1) * BLOCK):
        room += profile.peak[k] - profile.load[h, k]
        profile.room[h, k] = room


#: Ratio of the price of a token above the peaks to that of a token below.
_GAPS = 20
#: Maximum number of cells and blocks checked: for all schedules of a problem (about 20 s), and
#: between two checks of the time (1/20 s).
_MAX_EFFORT, _EFFORT = 3 * 10**9, 10**7
#: Maximum number of cells (workers x steps), and of blocks checked for one request.
_MAX_CELLS, _MAX_BLOCKS = 4_000_000, 10**8
#: Limit on the price of a schedule, so that sums fit 64 bits.
_MAX_PRICE = 2**60


def takes_insertions(form: SearchForm) -> bool:
    """Whether idling is free, the objective is wall-clock time, and prices fit 64 bits."""
    problem = form.problem
    free = problem.objective is MakespanObjective.WALL_CLOCK and not problem.work_conserving
    steps = sum(problem.output.tolist())
    most = form.data.per_step * steps + max(form.data.per_token, 1) * problem.work
    return free and most * _GAPS * 2 < _MAX_PRICE


def filled(form: SearchForm, deadline: Deadline) -> Iterator[tuple[int, Schedule]]:
    """Yield schedules by insertion with their objectives, until the time or effort limit.

    Each order is descending in one key: prompt plus a multiple of output, work, or output. With
    multiple 1 the key is the peak; larger multiples put long requests earlier. In the orders by
    work and by output, gaps below the peaks also have a price.
    """
    problem = form.problem
    prompt, output = problem.prompt, problem.output
    work = output * (2 * prompt + output - 1)
    rules = (
        (prompt + output, 0),
        (prompt + 16 * output, 0),
        (work, 1),
        (prompt + 2 * output, 0),
        (prompt + 4 * output, 0),
        (output, 1),
    )
    effort = 0
    for key, gaps in rules:
        filling = Filling(form, gaps)
        order = np.argsort(-key, kind="stable")
        if not filling.insert(order, deadline, _MAX_EFFORT - effort):
            return
        effort += filling.effort
        schedule = filling.schedule()
        yield objective_value(problem, *schedule), schedule


class Filling:
    """A schedule under construction by insertion.

    Parameters
    ----------
    form : SearchForm
        The problem, and the costs of a step and of a token.
    gaps : int
        1 if tokens below the peaks have a price, else 0.

    Attributes
    ----------
    profile, places
        Loads at each step, and places of the requests; steps are array indices.
    """

    def __init__(self, form: SearchForm, gaps: int) -> None:
        self._form, self._gaps = form, gaps
        problem = form.problem
        num = problem.num_requests
        self.places = Places(
            prompt=problem.prompt.copy(),
            output=problem.output.copy(),
            start=np.zeros(num, dtype=np.int64),
            worker=np.zeros(num, dtype=np.int64),
            span=np.zeros(2, dtype=np.int64),
            effort=np.zeros(1, dtype=np.int64),
        )
        self.profile = self._empty(0)

    @property
    def effort(self) -> int:
        """Number of cells and blocks checked so far."""
        return int(self.places.effort[0])

    def insert(self, order: IntArray, deadline: Deadline, most_effort: int) -> bool:
        """Insert the requests of an order; False if the time, effort or step limit is reached."""
        done = 0
        while not deadline.is_over and self.effort <= most_effort:
            done = insert_next(self.profile, self.places, order, done, _EFFORT)
            if done == len(order):
                return True
            if not self._fits(int(order[done])) and not self._grow(order[:done]):
                return False
        return False

    def schedule(self) -> Schedule:
        """Return starts and workers; the first start is at the last arrival."""
        starts = self.places.start - self.places.start.min() + self._form.origin
        return tuple(starts.tolist()), tuple(self.places.worker.tolist())

    def _fits(self, i: int) -> bool:
        """Whether the arrays are long enough for any start of request i."""
        (first, after), output = self.places.span.tolist(), int(self.places.output[i])
        return bool(first >= output and after + output <= len(self.profile.peak))

    def _grow(self, placed: IntArray) -> bool:
        """Move the placed requests to longer arrays; False if these would be too large."""
        first, after = self.places.span.tolist()
        margin = after - first + 4 * int(self.places.output.max())
        steps = after - first + 2 * margin
        cells = steps * len(self.profile.memory)
        blocks = cells * (1 + int(self.places.output.max()) // BLOCK)
        if cells > _MAX_CELLS or blocks > _MAX_BLOCKS:
            return False
        self.profile = self._empty(steps)
        self.places.start[placed] += margin - first
        self.places.span[:] = margin, margin + after - first
        put_all(self.profile, self.places, placed)
        return True

    def _empty(self, steps: int) -> Profile:
        """Return an empty profile."""
        problem, form = self._form.problem, self._form
        # Without a memory limit, more workers than requests are not needed.
        workers = form.data.lanes if problem.memory is None else problem.workers
        blocks = -(-steps // BLOCK)
        memory = np.full(workers, np.iinfo(np.int64).max)
        if problem.memory is not None:
            memory[:] = problem.memory
        return Profile(
            load=np.zeros((workers, blocks * BLOCK), dtype=np.int64),
            running=np.zeros((workers, blocks * BLOCK), dtype=np.int64),
            peak=np.zeros(blocks * BLOCK, dtype=np.int64),
            room=np.zeros((workers, blocks * BLOCK), dtype=np.int64),
            memory=memory,
            slots=form.slots,
            per_step=form.data.per_step * _GAPS,
            per_token=form.data.per_token * _GAPS,
            per_gap=form.data.per_token * self._gaps,
        )
