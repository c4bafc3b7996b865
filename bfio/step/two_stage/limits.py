"""Restrictions of a step problem, other than slots, in the two-stage heuristic.

They extend the rule of BalanceRoute in the simplest way:

- Loads are compared as times: worker g needs ``τ_g`` per token, so requests that add ``D(h)``
  tokens add ``τ_g·D(h)``, and margins are differences of times.
- Required requests are admitted first, by the same two stages, then the others.
- A set that exceeds ``κ_g`` is not a candidate. If other slots of the worker must be filled too, a
  set must also leave room for the smallest waiting requests, for as many of them as fit.
- The benefit of a placement is added to the score of every set that contains it. With BR-0's
  factors the score is then still minus the change of the objective. With benefits, candidates are
  the requests with the largest score when nothing overflows, not the largest requests.

`repaired` mends an assignment if token capacities have left requests without a worker.

First the missing requests are admitted, regardless of tokens. Then steepest-descent exchanges of
requests reduce the excess ``Σ_g max_h max(0, L_g(h) − κ_g)``. If no exchange reduces the remaining
excess, the procedure restarts once, with no request admitted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import BoolArray, IntArray
from formulations.step.check import violations
from formulations.step.problem import StepProblem


@dataclass(frozen=True)
class Limits:
    """Restrictions of a step problem in the form the heuristic uses.

    Parameters
    ----------
    time : IntArray
        Shape (G,): ``τ_g``, time per token of each worker.
    most_time : IntArray or None
        Shape (G,): ``τ_g·κ_g``, most time of each worker at any look-ahead step.
    required : BoolArray
        Shape (N,): requests that must be admitted.
    num_slots : int
        Number of slots that may be filled.
    benefit : IntArray, optional
        Shape (N, G): benefit of each placement, in units of the scaled objective.
    """

    time: IntArray
    most_time: IntArray | None
    required: BoolArray
    num_slots: int
    benefit: IntArray | None = None

    @classmethod
    def of(cls, problem: StepProblem) -> "Limits | None":
        """Return the restrictions of a problem, or None if it has none."""
        given = (problem.token_capacity, problem.token_time, problem.required, problem.admit)
        if all(value is None for value in (*given, problem.benefit)):
            return None
        required = problem.required
        return cls(
            time=problem.time_weights,
            most_time=_most_time(problem),
            required=np.zeros(problem.num_requests, np.bool_) if required is None else required,
            num_slots=int(problem.capacity.sum()) if problem.admit is None else problem.admit,
            benefit=problem.benefit,
        )

    @classmethod
    def none(cls, num_workers: int, num_requests: int, num_slots: int) -> "Limits":
        """Return limits without any restriction."""
        time = np.ones(num_workers, dtype=np.int64)
        required = np.zeros(num_requests, dtype=np.bool_)
        return cls(time, None, required, num_slots)


def _most_time(problem: StepProblem) -> IntArray | None:
    """Return ``τ_g·κ_g`` in 64 bits, with limits capped at the largest possible load."""
    if problem.token_capacity is None:
        return None
    heaviest = int(problem.base.max()) + int(problem.contribution.sum(axis=0).max(initial=0))
    limits: IntArray = np.minimum(problem.token_capacity, heaviest) * problem.time_weights
    return limits


def repaired(problem: StepProblem, assignment: Sequence[int | None]) -> list[int | None] | None:
    """Return the assignment if it is feasible, else a repaired one, or None if none is found.

    Parameters
    ----------
    problem : StepProblem
        Data.
    assignment : sequence of int or None
        Worker of each request, None for those that keep waiting; within the free slots.
    """
    if not violations(problem, assignment):
        return list(assignment)
    if problem.required is not None and int(problem.required.sum()) > problem.num_admitted:
        return None
    for start in (assignment, [None] * problem.num_requests):
        exchange = _Exchange(problem, start)
        exchange.admit_missing()
        found = exchange.settled()
        if found is not None and not violations(problem, found):
            return found
    return None


class _Exchange:
    """An assignment with its loads, free slots and token limits, changed by exchanges."""

    def __init__(self, problem: StepProblem, assignment: Sequence[int | None]) -> None:
        self._problem = problem
        self._added = problem.contribution
        self._owner = np.array([-1 if g is None else g for g in assignment], dtype=np.int64)
        self._loads = problem.loads(assignment)
        self._free = problem.capacity - np.bincount(
            self._owner[self._owner >= 0], minlength=problem.num_workers
        )
        no_limit = self._loads.max() + self._added.sum(axis=0).max(initial=0)
        limits = problem.token_capacity
        self._most: IntArray = np.full(problem.num_workers, no_limit) if limits is None else limits
        required = problem.required
        self._required = np.zeros(problem.num_requests, np.bool_) if required is None else required

    def admit_missing(self) -> None:
        """Admit required and smallest other requests to the workers with most room per slot."""
        waiting = np.flatnonzero(self._owner < 0)
        order = np.lexsort((self._sizes(waiting), ~self._required[waiting]))
        missing = waiting[order[: self._num_missing(waiting)]]
        for request in missing[np.argsort(-self._sizes(missing), kind="stable")].tolist():
            workers = np.flatnonzero(self._free > 0)
            room = self._most[workers] - self._loads[workers].max(axis=1)
            share = room / self._free[workers]
            self._move(request, int(workers[np.argmax(share)]))

    def settled(self) -> list[int | None] | None:
        """Exchange requests until no worker exceeds its limit; None if no exchange helps."""
        while (excess := self._excess(self._loads, np.arange(len(self._most)))).any():
            worst = np.argsort(-excess, kind="stable")[: np.count_nonzero(excess)]
            if not any(self._exchange_best(worker, excess) for worker in worst.tolist()):
                return None
        return [None if g < 0 else g for g in self._owner.tolist()]

    def _num_missing(self, waiting: IntArray) -> int:
        """Return the number of requests to admit, after evicting others whose slots are needed."""
        admitted = np.flatnonzero(self._owner >= 0)
        missing = self._problem.num_admitted - len(admitted)
        short = int(self._required[waiting].sum()) - missing
        if short > 0:
            others = admitted[~self._required[admitted]]
            for request in others[np.argsort(-self._sizes(others), kind="stable")][
                :short
            ].tolist():
                self._move(request, -1)
        return missing + max(0, short)

    def _sizes(self, requests: IntArray) -> IntArray:
        sizes: IntArray = self._added[requests].max(axis=1)
        return sizes

    def _excess(self, loads: IntArray, workers: IntArray) -> IntArray:
        """Tokens above each worker's capacity at its worst step, for loads of shape (..., H+1)."""
        over: IntArray = np.maximum(loads.max(axis=-1) - self._most[workers], 0)
        return over

    def _move(self, request: int, worker: int) -> None:
        """Move a request to a worker, or to the queue (-1)."""
        before = int(self._owner[request])
        for g, sign in ((before, -1), (worker, 1)):
            if g >= 0:
                self._loads[g] += sign * self._added[request]
                self._free[g] -= sign
        self._owner[request] = worker

    def _exchange_best(self, worker: int, excess: IntArray) -> bool:
        """Make the exchange of one of this worker's requests that reduces the excess most."""
        members = np.flatnonzero(self._owner == worker)
        partners = np.flatnonzero(self._owner != worker)
        swaps = self._gain_of_swaps(worker, members, partners, excess)
        targets = np.flatnonzero(self._free > 0)
        moves = self._gain_of_moves(worker, members, targets, excess)
        best_swap, best_move = swaps.max(initial=0), moves.max(initial=0)
        if max(best_swap, best_move) <= 0:
            return False
        if best_move >= best_swap:
            i, g = np.unravel_index(int(moves.argmax()), moves.shape)
            self._move(int(members[i]), int(targets[g]))
            return True
        i, j = np.unravel_index(int(swaps.argmax()), swaps.shape)
        member, partner = int(members[i]), int(partners[j])
        other = int(self._owner[partner])
        self._move(member, other)
        self._move(partner, worker)
        return True

    def _gain_of_swaps(
        self, worker: int, members: IntArray, partners: IntArray, excess: IntArray
    ) -> IntArray:
        """Reduction of the excess by each swap, shape (members, partners)."""
        change = self._added[partners] - self._added[members][:, None]
        gain = excess[worker] - self._excess(self._loads[worker] + change, np.array(worker))
        owner = self._owner[partners]
        placed = owner >= 0
        others = self._excess(self._loads[owner] - change, owner)
        gain = gain + np.where(placed, excess[owner] - others, 0)
        # A required request may swap with a request on a worker, but not with a waiting one.
        gain[np.ix_(self._required[members], ~placed)] = 0
        swaps: IntArray = gain
        return swaps

    def _gain_of_moves(
        self, worker: int, members: IntArray, targets: IntArray, excess: IntArray
    ) -> IntArray:
        """Reduction of the excess by each move to a free slot, shape (members, targets)."""
        added = self._added[members][:, None]
        gain = excess[worker] - self._excess(self._loads[worker] - added, np.array(worker))
        there = self._excess(self._loads[targets] + added, targets)
        moves: IntArray = gain + excess[targets] - there
        return moves
