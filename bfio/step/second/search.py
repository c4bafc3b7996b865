"""Search for the least second objective among assignments within a limit on the first.

Requests are exchanged at random in a few annealing rounds, each starting from the best assignment
so far. The temperature decreases from round to round, to 0 in the last one. A unit of the second
objective has a small weight compared with the change of the first objective by an exchange, so
rounds end within the limit.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from bfio.common.kernel_groups import ensure_compiled
from bfio.common.words import RandomState
from bfio.step.exact.effort import CALL, Effort
from bfio.step.exact.windows.model import StepModel, step_model
from bfio.step.second.anneal import Program, anneal_second
from formulations.arrays import IntArray
from formulations.second import SecondProblem, second_problem, second_value, violations
from formulations.step.problem import Assignment, StepProblem
from formulations.step.share_bound import MAX_VALUE, largest_objective

#: Temperatures of the rounds, in typical changes of the first objective.
_TEMPERATURES = (0.03, 0.01, 0.003, 0.0)
#: Weight of a typical change of the second objective, in typical changes of the first.
_PRICE = 0.001
#: Exchanges tried in each round, per possible exchange, and limits on their total number.
_LOOKS = 4
_FEWEST, _MOST = 1_000, 10_000


def improved(
    problem: SecondProblem, start: Sequence[int | None], effort: Effort, target: int = 0
) -> Assignment:
    """Return an assignment within the limit whose second objective is at most that of ``start``.

    The result is deterministic: the random seed and the number of exchanges are fixed, unless a
    limit of ``effort`` is reached between two rounds.

    Parameters
    ----------
    problem : SecondProblem
        Data.
    start : sequence of int or None
        An assignment within the limit.
    effort : Effort
        Limits.
    target : int
        Stop before the next round when the second objective is at most this.
    """
    window = _idle(problem.step) if problem.window is None else problem.window
    largest = max(largest_objective(problem.step), largest_objective(window))
    if largest > MAX_VALUE or problem.step.num_admitted == 0:
        return tuple(start)
    search = _Search(problem, window)
    owner = search.model.owner_of(start)
    state = np.ones(1, dtype=np.uint64)
    for temperature in _TEMPERATURES:
        if effort.is_over:
            break
        effort.spend(CALL)
        if search.run_round(owner, temperature, state, effort.spent) <= target:
            break
    return search.model.assignment(owner)


@cache
def prepare_second() -> None:
    """Compile the kernel or load it from Numba's cache, once per process."""
    ensure_compiled("second")
    step = StepProblem(np.array([1, 1]), np.array([[3], [4]]), np.array([[2], [1], [2]]))
    problem = second_problem(step, 10, "age")
    start = (0, None, 1)
    if violations(problem, start) or second_value(problem, improved(problem, start, Effort())) > 2:
        raise AssertionError("the search made an assignment worse")


def settled(problem: SecondProblem, assignment: Sequence[int | None]) -> Assignment:
    """Return an equivalent assignment in which interchangeable requests are in canonical order.

    Among requests with equal loads the cheapest start (ties: oldest), in order of worker index.
    """
    step = problem.step
    columns = [step.contribution]
    if problem.window is not None:
        columns.append(problem.window.contribution)
    if step.required is not None:
        columns.append(step.required[:, None].astype(np.int64))
    _, kind = np.unique(np.concatenate(columns, axis=1), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    answer: list[int | None] = [None] * len(assignment)
    workers: dict[int, list[int]] = {}
    for k, g in zip(kind.tolist(), assignment, strict=True):
        if g is not None:
            workers.setdefault(k, []).append(g)
    for k, taken in workers.items():
        members = np.flatnonzero(kind == k)
        members = members[np.argsort(problem.costs[members], kind="stable")]
        for i, g in zip(members.tolist(), sorted(taken), strict=False):
            answer[i] = g
    return tuple(answer)


class _Search:
    """A problem in the kernel's form, with the scales of its objectives."""

    def __init__(self, problem: SecondProblem, window: StepProblem) -> None:
        self.model = step_model(problem.step)
        order = self.model.order
        self._most = problem.most
        self._cost = np.ascontiguousarray(problem.costs[order])
        self._first = _program(self.model)
        self._second = _program(step_model(window, order))
        exchanges = problem.step.num_admitted * problem.step.num_requests
        self._turns = min(max(_LOOKS * exchanges, _FEWEST), _MOST)
        self._unit = _typical_change(problem.step)
        second = _typical_change(window) + _mean_difference(problem.costs)
        self._price = _PRICE * self._unit / max(1.0, second)

    def run_round(
        self, owner: IntArray, temperature: float, state: RandomState, spent: IntArray
    ) -> int:
        """Improve a placement in place; return its second objective."""
        return anneal_second(
            self._first,
            self._second,
            self._cost,
            self._most,
            self._price,
            temperature * self._unit,
            self._turns,
            not self.model.fills,
            owner,
            state,
            spent,
        )


def _program(model: StepModel) -> Program:
    return Program(model.requests, model.workers, model.goal)


def _typical_change(step: StepProblem) -> float:
    """Return the mean change of an objective by exchanging two requests of neighbouring sizes."""
    sizes = np.sort(step.contribution, axis=0)
    mean = (sizes[-1] - sizes[0]) / max(1, len(sizes) - 1)
    # Requests of equal size count as one token apart, so that only an idle window gives 0.
    return float((np.maximum(mean, 1.0) * np.array(step.weights)).sum()) * step.num_workers


def _mean_difference(costs: IntArray) -> float:
    return float(np.abs(costs - np.roll(costs, len(costs) // 2)).mean())


def _idle(step: StepProblem) -> StepProblem:
    """Return a window without weight."""
    return StepProblem(
        step.capacity,
        np.zeros_like(step.base[:, :1]),
        np.zeros_like(step.contribution[:, :1]),
        weights=(0,),
        admit=step.num_admitted,
    )
