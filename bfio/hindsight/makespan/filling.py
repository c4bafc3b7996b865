"""Schedules by insertion: valleys beside high requests are filled by lower ones.

Where idling is free and a step costs its largest load, hindsight can balance: a request starts
whenever and wherever it raises the peaks least, before or after all that have places already.
List schedules, which never idle, cannot hold one back until it fits beside another.
"""

from collections.abc import Iterator

import numpy as np

from bfio.hindsight.makespan.form import SearchForm
from bfio.hindsight.makespan.insertion import BLOCK, Places, Profile, insert_next, put_all
from formulations.arrays import IntArray
from formulations.deadline import Deadline
from formulations.hindsight_makespan import MakespanObjective, objective_value
from formulations.hindsight_makespan.problem import Schedule

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
