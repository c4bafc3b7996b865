"""Schedules by insertion: valleys beside high requests are filled by lower ones.

Of all starts and workers at which a request fits beside those that have places already, the
cheapest is taken: its price is what it adds to the objective, and besides, at a lower price,
the tokens by which it stays under the peaks that are there anyway. Requests placed highest
first open new steps, those that follow fill the valleys beside and behind them.

A step and a worker are a cell. Blocks of cells know how far their loads are below the peaks in
all, so most places are turned down after a few blocks; what is chosen is not changed by that.

Where idling is free and a step costs its largest load, hindsight can balance: a request starts
whenever and wherever it raises the peaks least, before or after all that have places already.
List schedules, which never idle, cannot hold one back until it fits beside another.
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

#: Steps of a block.
BLOCK = 16
#: Above every price.
_NEVER = 2**61


class Profile(NamedTuple):
    """What runs at each step, and what prices insertions.

    ``load``, ``running`` and ``room`` have shape (G, T), ``peak`` (T,). ``room`` is the sum of
    ``peak − load`` from the first step of the block on. ``memory`` has shape (G,). ``per_step`` is
    the price of a step that becomes busy, ``per_token`` of a token that a peak rises, ``per_gap``
    of a token by which a step of the request stays below its peak.
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
    """Requests and where they are: ``span`` holds the first busy step and the one after the last.

    ``effort`` has one entry, the cells and blocks looked at so far.
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
    """Insert ``order[first:]`` one by one; return how many of the order have places then.

    It ends early after some effort, or where a request might need steps beyond the arrays.
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
    """Let requests that have places run there."""
    for i in placed:
        put(profile, places, i)


@compilable
def insert(profile: Profile, places: Places, i: int, early: int, late: int) -> None:
    """Give request i the cheapest place from step ``early`` to step ``late``."""
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
    """Return worker and start of least price; of equal ones the lowest worker, the latest start.

    Worker -1 says that there is none: never where ``late`` leaves the whole request new steps.
    """
    prompt, output = places.prompt[i], places.output[i]
    # One more than a price that some place has: the first of that price is below it.
    least, at_worker, at_start = _sampled(profile, places, i, early, late), -1, -1
    for g in range(profile.load.shape[0]):
        # A free slot from the step on, for so many steps.
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
    """Return one more than the least price of one place in each block; `_NEVER` if none fits."""
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
    """Return the price of a place, or, once that is clear, something no less than ``least``.

    Lower bounds of all blocks first, then, block by block, prices in their place.
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

    The price of a step is convex in ``load − room``: all together cost no less than their mean
    does each.
    """
    room: int = profile.room[g, after - 1]
    if k % BLOCK:
        room -= profile.room[g, k - 1]
    steps = after - k
    above = steps * load + steps * (steps - 1) // 2 - room
    return above * profile.per_token if above > 0 else -above * profile.per_gap


@compilable
def _price_within(profile: Profile, g: int, k: int, after: int, load: int) -> int:
    """Return the price of the steps from k on, in the first of which the request weighs `load`."""
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
    """Let request i run in its place."""
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
            # Where no peak rose, other workers are as far below it as before.
            if risen or h == g:
                _measure_room(profile, h, block)


@compilable
def _measure_room(profile: Profile, h: int, block: int) -> None:
    room = 0
    for k in range(block * BLOCK, (block + 1) * BLOCK):
        room += profile.peak[k] - profile.load[h, k]
        profile.room[h, k] = room


#: How many tokens below the peaks weigh as much as one above them.
_GAPS = 20
#: Most cells and blocks looked at for all schedules of a problem, and between two looks at the
#: clock: some twenty seconds, and a twentieth.
_MAX_EFFORT, _EFFORT = 3 * 10**9, 10**7
#: Most cells (workers x steps), and blocks looked at for one request.
_MAX_CELLS, _MAX_BLOCKS = 4_000_000, 10**8
#: Largest price.
_MAX_PRICE = 2**60


def takes_insertions(form: SearchForm) -> bool:
    """Whether idling is free, steps are what costs, and prices stay within 64 bits."""
    problem = form.problem
    free = problem.objective is MakespanObjective.WALL_CLOCK and not problem.work_conserving
    steps = sum(problem.output.tolist())
    most = form.per_step * steps + max(form.per_token, 1) * problem.work
    return free and most * _GAPS * 2 < _MAX_PRICE


def filled(form: SearchForm, deadline: Deadline) -> Iterator[tuple[int, Schedule]]:
    """Yield schedules by insertion with their objectives, until time or effort is used up.

    In descending order of the prompt and some outputs, one of which makes the peak: the more,
    the earlier long requests come. And of work and output, where gaps below the peaks count too.
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
    """A schedule in the making, request by request.

    Parameters
    ----------
    form : SearchForm
        The problem, and what a step and a token cost.
    gaps : int
        1 if tokens below the peaks count a little, 0 if not.

    Attributes
    ----------
    profile, places
        What runs at each step, and where the requests are, in steps of the arrays.
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
        """Cells and blocks looked at so far."""
        return int(self.places.effort[0])

    def insert(self, order: IntArray, deadline: Deadline, most_effort: int) -> bool:
        """Insert the requests of an order; False if time, effort or steps do not suffice."""
        done = 0
        while not deadline.is_over and self.effort <= most_effort:
            done = insert_next(self.profile, self.places, order, done, _EFFORT)
            if done == len(order):
                return True
            if not self._fits(int(order[done])) and not self._grow(order[:done]):
                return False
        return False

    def schedule(self) -> Schedule:
        """Return starts and workers; the first starts with the last arrival."""
        starts = self.places.start - self.places.start.min() + self._form.origin
        return tuple(starts.tolist()), tuple(self.places.worker.tolist())

    def _fits(self, i: int) -> bool:
        """Whether the arrays hold request i wherever it starts."""
        (first, after), output = self.places.span.tolist(), int(self.places.output[i])
        return bool(first >= output and after + output <= len(self.profile.peak))

    def _grow(self, placed: IntArray) -> bool:
        """Put the placed requests into the middle of longer arrays, if these are not too large."""
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
        """Return a profile in which nothing runs."""
        problem, form = self._form.problem, self._form
        # Without memories there is no use for more workers than requests.
        workers = form.lanes if problem.memory is None else problem.workers
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
            per_step=form.per_step * _GAPS,
            per_token=form.per_token * _GAPS,
            per_gap=form.per_token * self._gaps,
        )
