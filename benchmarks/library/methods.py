"""Adapters from the methods of the toolkit to the kinds of library problems.

Answers are not trusted here: the caller checks solutions and derives bounds again.

One method is here alone: simulated annealing by swaps, a simple search for better solutions of any
step problem. A move exchanges two requests (one of them may wait), or moves one request to a free
slot. Worse solutions are accepted with the Metropolis probability, which falls with the
temperature.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from benchmarks.step_harvest import oldest_first
from bfio.hindsight.latency import solve_hindsight
from bfio.hindsight.latency.solve import solve_latency
from bfio.hindsight.makespan import solve_makespan
from bfio.library.kind import CLOSED_FORM, Value, written_value
from bfio.library.kinds import EVERY_ASSIGNMENT, INTERVAL, written_certificate, written_prices
from bfio.step.exact import solve_exact
from bfio.step.interval_bound import interval_multipliers
from bfio.step.two_stage.heuristic import two_stage_step
from formulations.arrays import IntArray
from formulations.errors import CapabilityError
from formulations.fluid import (
    FluidObjective,
    FluidProblem,
    knapsack,
    solve_margin,
    solve_throughput,
)
from formulations.hindsight_latency import LatencyProblem
from formulations.results import BoundKind, ProgramResult
from formulations.step import Objective, StepProblem
from formulations.step.solver import solve
from formulations.thresholds.conditions import ThresholdProblem
from formulations.thresholds.solver import solve as solve_thresholds

_WAITS = -1
#: First temperature relative to the first objective, and last relative to the first temperature.
_HOT, _COLD = 3e-3, 1e-4
#: Number of parts of the search. Each reheats and starts from the best solution so far.
_ROUNDS = 4


def annealed(
    problem: StepProblem, start: Sequence[int | None], moves: int, seed: int
) -> list[int | None]:
    """Return the best assignment found by simulated annealing, never worse than the start.

    Parameters
    ----------
    problem : StepProblem
        Data.
    start : sequence of int or None
        A feasible assignment.
    moves : int
        Moves to try.
    seed : int
        Seed.
    """
    if problem.benefit is not None:
        raise CapabilityError(
            "benefit", "annealing does not support benefits", "use another method"
        )
    rng = np.random.default_rng(seed)
    best = _Walk(problem, start)
    for _ in range(_ROUNDS):
        walk = _Walk(problem, best.answer())
        hot = max(_HOT * walk.value, 1.0)
        for k in range(moves // _ROUNDS):
            walk.step(rng, hot * _COLD ** (k * _ROUNDS / moves))
            if walk.value < best.value:
                best = walk.copy()
    return best.answer()


class _Walk:
    """An assignment and its loads during simulated annealing."""

    def __init__(self, problem: StepProblem, assignment: Sequence[int | None]) -> None:
        self._problem = problem
        self._place = np.array([_WAITS if g is None else g for g in assignment])
        self._loads = problem.loads(assignment)
        used = np.bincount(self._place[self._place >= 0], minlength=problem.num_workers)
        self._free: IntArray = problem.capacity - used
        self._weights = np.array(problem.weights)
        self._times = problem.time_weights[:, None]
        self.value = self._objective(self._loads)

    def copy(self) -> "_Walk":
        """Return a copy of this state."""
        return _Walk(self._problem, self.answer())

    def answer(self) -> list[int | None]:
        """Return the assignment: worker of each request, None if it waits."""
        return [None if g == _WAITS else g for g in self._place.tolist()]

    def step(self, rng: np.random.Generator, heat: float) -> None:
        """Try one random move, accepted by the Metropolis rule at temperature ``heat``."""
        move = self._drawn(rng)
        if move is None:
            return
        loads = self._loads
        for i, source, target in move:
            loads = self._moved(loads, i, source, target)
        most = self._problem.token_capacity
        if most is not None and (loads.max(axis=1) > most).any():
            return
        value = self._objective(loads)
        if value <= self.value or rng.random() < math.exp((self.value - value) / heat):
            self._loads, self.value = loads, value
            for i, source, target in move:
                self._place[i] = target
                if source >= 0:
                    self._free[source] += 1
                if target >= 0:
                    self._free[target] -= 1

    def _drawn(self, rng: np.random.Generator) -> list[tuple[int, int, int]] | None:
        """Return the elementary moves (request, source, target) of a draw; None if impossible."""
        i, j = rng.integers(0, len(self._place), 2).tolist()
        here, there = int(self._place[i]), int(self._place[j])
        if rng.random() < 0.2 and here >= 0:
            target = int(rng.integers(0, len(self._free)))
            return [(i, here, target)] if self._free[target] > 0 and target != here else None
        required = self._problem.required
        leaving = i if there == _WAITS else j if here == _WAITS else None
        if here == there or (required is not None and leaving is not None and required[leaving]):
            return None
        return [(i, here, there), (j, there, here)]

    def _moved(self, loads: IntArray, i: int, source: int, target: int) -> IntArray:
        loads = loads.copy() if loads is self._loads else loads
        if source >= 0:
            loads[source] -= self._problem.contribution[i]
        if target >= 0:
            loads[target] += self._problem.contribution[i]
        return loads

    def _objective(self, loads: IntArray) -> int:
        times = loads * self._times
        peak = times.max(axis=0)
        if self._problem.objective is Objective.IMBALANCE:
            peak = len(times) * peak - times.sum(axis=0)
        elif self._problem.objective is Objective.GAP:
            peak = peak - times.min(axis=0)
        return int(self._weights @ peak)


#: Approximate rate (`formulations.deadline`).
_TICKS_PER_SECOND = 1_000_000
#: Approximate work of a move in `annealed`.
_TICKS_OF_A_MOVE = 40
#: Node limit of the exact step method's own enumeration, far above the default.
_MANY_NODES = 50_000_000


@dataclass(frozen=True)
class Found:
    """The answer of a method to a problem.

    Parameters
    ----------
    solution : mapping, optional
        The solution as JSON.
    certificates : tuple of mapping
        Certificates of bounds, not yet verified.
    claim : int or Fraction, optional
        A bound derived in integers, certified or not.
    proven : bool
        Whether the method claims that its solution is optimal, proven in integers.
    within : str
        The part of the method that closed the problem, if it is worth naming.
    """

    solution: Mapping[str, Any] | None = None
    certificates: tuple[Mapping[str, Any], ...] = ()
    claim: Value | None = None
    proven: bool = False
    within: str = ""


@dataclass(frozen=True)
class Limits:
    """Limits of a solve.

    Parameters
    ----------
    ticks : int, optional
        Work limit (`formulations.deadline`) for methods that count work; None to use seconds.
    seconds : float
        Time limit for methods that do not count work [s].
    seed : int
        Seed of backends.
    """

    ticks: int | None
    seconds: float
    seed: int = 0

    @classmethod
    def of_work(cls, ticks: int, seed: int = 0) -> "Limits":
        """Return limits for an amount of work, with the equivalent time for other methods."""
        return cls(ticks, ticks / _TICKS_PER_SECOND, seed)


#: A method: function of problem, limits and a solution to start from.
Method: TypeAlias = Callable[[Any, Limits, Any], Found]


def _certified(kind: str) -> Method:
    """Return the method whose only answer is a certificate, from which the verifier derives all.

    Such is the bound that follows from the problem in closed form, or from all assignments.
    """
    return lambda problem, limits, hint: Found(certificates=({"kind": kind},))


closed_form = _certified(CLOSED_FORM)


def _step_interval(problem: StepProblem, limits: Limits, hint: Any) -> Found:
    found = interval_multipliers(problem)
    if found is None:
        return Found()
    certificate = {"kind": INTERVAL, "flow": found.flow.tolist(), "price": found.price}
    return Found(certificates=(certificate,))


def _step_exact(
    problem: StepProblem, limits: Limits, hint: Any, *, fallback: str | None, nodes: int | None
) -> Found:
    result = solve_exact(
        problem,
        work_limit=limits.ticks,
        time_limit=limits.seconds if limits.ticks is None else None,
        hint=hint,
        fallback=fallback,
        node_limit=nodes,
    )
    certificate = result.certificate
    return Found(
        None if result.assignment is None else {"assignment": list(result.assignment)},
        () if certificate is None else (written_certificate(certificate),),
        result.bound,
        result.proven,
        result.method,
    )


def _step_heuristic(problem: StepProblem, limits: Limits, hint: Any) -> Found:
    return Found({"assignment": list(two_stage_step(problem))})


def _step_annealed(problem: StepProblem, limits: Limits, hint: Any) -> Found:
    start = oldest_first(problem) if hint is None else hint
    if start is None or problem.num_requests < 2:
        return Found()
    moves = int(limits.ticks or limits.seconds * _TICKS_PER_SECOND) // _TICKS_OF_A_MOVE
    return Found({"assignment": annealed(problem, start, moves, limits.seed)})


def _step_oldest_first(problem: StepProblem, limits: Limits, hint: Any) -> Found:
    assignment = oldest_first(problem)
    return Found() if assignment is None else Found({"assignment": assignment})


def _step_backend(problem: StepProblem, limits: Limits, hint: Any, *, backend: str) -> Found:
    return _of_result(
        solve(problem, backend=backend, time_limit=limits.seconds, hint=hint, seed=limits.seed)
    )


def _of_result(result: ProgramResult[Any]) -> Found:
    fields = {name: getattr(result, name) for name in result.solution_fields}
    found = None if result.objective is None else {k: list(v) for k, v in fields.items()}
    claim = result.bound if result.bound_kind is BoundKind.INTEGER else None
    return Found(found, (), claim, result.is_optimal)


def _latency_exact(problem: LatencyProblem, limits: Limits, hint: Any) -> Found:
    result = solve_hindsight(problem, limits.seconds)
    certificate = result.certificate
    return Found(
        {"starts": list(result.starts)},
        () if certificate is None else (written_prices(certificate),),
        result.bound,
        result.proven,
    )


def _by_program(
    solve: Callable[..., ProgramResult[Any]], problem: Any, limits: Limits, hint: Any, **how: Any
) -> Found:
    return _of_result(solve(problem, time_limit=limits.seconds, seed=limits.seed, **how))


def _throughput(
    problem: FluidProblem, limits: Limits, hint: Any, *, objective: FluidObjective
) -> Found:
    result = (knapsack if problem.is_pooled else solve_throughput)(problem, objective=objective)
    rates = _texts(result.rate_prices)
    return _fluid(result, result.proving_prices, {"rate_prices": rates})


def _margin(problem: FluidProblem, limits: Limits, hint: Any) -> Found:
    result = solve_margin(problem)
    return _fluid(result, result.work_prices, {})


def _fluid(result: Any, work: Any, prices: Mapping[str, Any]) -> Found:
    certificate = {"kind": "prices", "work_prices": _texts(work), **prices}
    routing = [_texts(row) for row in result.routing]
    return Found({"routing": routing}, (certificate,), result.bound, result.is_optimal)


def _texts(values: Any) -> list[int | str]:
    return [written_value(value) for value in values]


def _thresholds(problem: ThresholdProblem, limits: Limits, hint: Any, *, method: str) -> Found:
    found = _of_result(solve_thresholds(problem, method=method, time_limit=limits.seconds))
    return Found(found.solution, ({"kind": "iteration"},), found.claim, found.proven)


_STEP: dict[str, Method] = {
    "closed-form": closed_form,
    "interval": _step_interval,
    "two-stage": _step_heuristic,
    "oldest-first": _step_oldest_first,
    "exact": partial(_step_exact, fallback="cp-sat", nodes=None),
    "exact-alone": partial(_step_exact, fallback=None, nodes=_MANY_NODES),
    "every-assignment": _certified(EVERY_ASSIGNMENT),
    "annealing": _step_annealed,
    "cp-sat": partial(_step_backend, backend="cp-sat"),
    "highs": partial(_step_backend, backend="highs"),
}
_THRESHOLDS: dict[str, Method] = {
    name: partial(_thresholds, method=name) for name in ("fixed-point", "cp-sat")
}
#: The methods of each kind, in the order in which they are tried.
METHODS: dict[str, dict[str, Method]] = {
    "step": _STEP,
    "latency": {
        "closed-form": closed_form,
        "exact": _latency_exact,
        **{name: partial(_by_program, solve_latency, method=name) for name in ("cp-sat", "highs")},
    },
    "makespan": {
        "closed-form": closed_form,
        **{
            name: partial(_by_program, solve_makespan, method=name)
            for name in ("exact", "cp-sat", "highs")
        },
    },
    "fluid-stages": {"exact": partial(_throughput, objective=FluidObjective.STAGES)},
    "fluid-decode": {"exact": partial(_throughput, objective=FluidObjective.DECODE)},
    "fluid-margin": {"exact": _margin},
    "wait": _THRESHOLDS,
    "nested-wait": _THRESHOLDS,
}


def tried(method: Method, problem: Any, limits: Limits, hint: Any) -> Found:
    """Return the answer of a method; an empty one if the method cannot solve the problem."""
    try:
        return method(problem, limits, hint)
    except CapabilityError:
        return Found()
