"""Solve the batch program, and compute the gap of any batch to the optimum.

`greedy` returns an optimal batch in closed form if filling by weight is optimal. Without bonuses
and without a limit on requests the program is a knapsack of unit tokens: fill the budget by
descending weight. Among equal weights, requests with most tokens come first, so that fewest
requests fill the budget. Tokens of weight 0 are left out.
"""

import time
from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np

from formulations.arrays import BoolArray, FloatArray
from formulations.batch_composition.check import brute_force, objective_of, violations, worth
from formulations.batch_composition.problem import Batch, BatchProblem, BatchResult
from formulations.deadline import TimeLimit
from formulations.errors import CapabilityError, InputError
from formulations.formulation import Formulation
from formulations.results import Termination, own_solver
from formulations.words import Words


def greedy(problem: BatchProblem) -> Batch:
    """Return an optimal batch by filling the budget by weight; remaining ties: oldest first.

    Parameters
    ----------
    problem : BatchProblem
        Data, with `BatchProblem.is_greedy`.

    Raises
    ------
    CapabilityError
        If the problem has bonuses, or a limit on requests that may bind.
    """
    if not problem.is_greedy:
        what = "filling by weight is not optimal with finish_bonus or max_requests"
        raise CapabilityError("method", what, 'use method="cp-sat"')
    if problem.mixing:
        return fill(problem, np.ones(problem.num_requests, dtype=np.bool_))
    batches = [fill(problem, chosen) for chosen in (problem.in_prefill, ~problem.in_prefill)]
    return min(batches, key=lambda batch: objective_of(problem, *batch))


def fill(problem: BatchProblem, allowed: BoolArray) -> Batch:
    """Fill the budget by descending weight with tokens of the allowed requests, shape (n,)."""
    prefill, decode = [0] * problem.num_requests, [0] * problem.num_requests
    # lexsort is stable: the oldest request comes first among equals.
    order = np.lexsort((-problem.caps, -problem.weights))
    room = problem.budget
    for i in order.tolist():
        if room == 0 or problem.weights[i] == 0:
            break
        if allowed[i]:
            taken = min(room, int(problem.caps[i]))
            (prefill if problem.in_prefill[i] else decode)[i] = taken
            room -= taken
    return tuple(prefill), tuple(decode)


def least_objective(problem: BatchProblem) -> int:
    """Return a lower bound on the objective of every batch, by fractional filling.

    The bonus of a prompt is spread over its tokens, which overstates the worth of batches that do
    not complete it. The bound is the best fractional filling.
    """
    columns = (problem.weights, problem.bonuses, problem.caps)
    items = [
        (Fraction(w * cap + g, cap), cap)
        for w, g, cap in zip(*(column.tolist() for column in columns), strict=True)
    ]
    room, worth = problem.budget, Fraction(0)
    for density, cap in sorted(items, reverse=True):
        taken = min(room, cap)
        worth += density * taken
        room -= taken
    # A batch with positive worth has at least one request.
    fewest = int(problem.fewest_requests and worth > 0)
    return min(0, fewest - problem.scale * floor(worth))


WORDS = Words(
    title="the batch of one iteration",
    source="throughput-optimal paper, (2.5a) to (2.5d); it states no program",
    objective="the negative of the worth of the batch",
    variables={
        "prefill": "prefill(i) = prompt tokens of request i in the batch",
        "decode": "decode(i) = decode tokens of request i in the batch",
        "finish": "finish(i) = 1 if the batch completes the prompt of request i",
        "part": "part(i) = 1 if request i has tokens in the batch",
        "phase": "phase = 1 for a batch of prompt tokens",
    },
    broken={
        "whole": "request {0} gets no whole number of tokens",
        "budget": "the batch has {by} tokens more than the budget",
        "phase": "request {0} decodes before its prompt is processed",
        "prompt": "request {0} gets {by} prompt tokens more than it has left",
        "token": "request {0} decodes {by} tokens more than one",
        "mixing": "prompt and decode tokens share the batch",
        "requests": "{by} requests too many are in the batch",
        "finished": "the prompt of request {0} is not completed",
    },
)


class BatchProgram(Formulation[BatchProblem, Batch, BatchResult]):
    """The program of one `BatchProblem`."""

    result = BatchResult
    always_feasible = True
    words = WORDS

    def __init__(self, problem: BatchProblem) -> None:
        super().__init__(problem)
        if problem.fewest_requests:
            objective = f"{WORDS.objective}; of equal worth, the fewest requests"
            self.words = replace(WORDS, objective=objective)

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.batch_composition.program import build

        return build(self.problem)

    def lower_bound(self) -> int:
        """Return the lower bound on the objective by fractional filling, `least_objective`."""
        return least_objective(self.problem)

    def objective_value(self, solution: Batch) -> int:
        """Return the objective as the checker computes it."""
        return objective_of(self.problem, *solution)

    def violations(self, solution: Batch, objective: int | None = None) -> dict[str, int]:
        """Return each violated constraint of a batch and the amount."""
        return violations(self.problem, *solution, objective)

    def settled(self, method: str) -> BatchResult | None:
        """Return the empty batch for a problem without requests, else None."""
        if self.problem.num_requests:
            return None
        return self.answer(((), ()), Termination.OPTIMAL, 0, method=method)

    def solution_at(self, values: FloatArray) -> Batch:
        """Return the batch at a point of the standard form."""
        index = self.standard_form.column_index()
        in_prefill = self.problem.in_prefill.tolist()

        def read(name: str, i: int) -> int:
            # The form omits variables that occur in no row; they are 0.
            place = index.get(f"{name}[{i}]")
            return 0 if place is None else round(values[place])

        return (
            tuple(read("prefill", i) if p else 0 for i, p in enumerate(in_prefill)),
            tuple(0 if p else read("decode", i) for i, p in enumerate(in_prefill)),
        )

    def brute_force(self) -> tuple[int, Batch]:
        """Return the minimum objective and an optimal batch by enumeration."""
        return brute_force(self.problem)

    def filled(self) -> BatchResult:
        """Return the batch filled by weight, which is optimal by an exchange argument."""
        began = time.perf_counter()
        batch = greedy(self.problem)
        return self.answer(
            batch,
            Termination.OPTIMAL,
            self.objective_value(batch),
            method="greedy",
            seconds=time.perf_counter() - began,
            solver=own_solver(),
            proof="filling by weight: no exchange of two tokens gains, and the matrix is totally "
            "unimodular",
        )


def solve(
    problem: BatchProblem,
    *,
    method: str = "auto",
    time_limit: TimeLimit = None,
    seed: int = 0,
) -> BatchResult:
    """Return a batch of maximum worth.

    Parameters
    ----------
    problem : BatchProblem
        Data.
    method : str
        ``greedy`` (filling by weight, if that is optimal), ``brute-force`` (tiny problems), a
        backend (``cp-sat``, ``highs``, ``pyomo``, ``pyomo:SOLVER``), or ``auto``: greedy if it
        is optimal, else ``cp-sat``.
    time_limit : float or Deadline, optional
        Seconds for a backend.
    seed : int
        Random seed of a backend.

    Raises
    ------
    InputError
        If the method is unknown.
    CapabilityError
        If greedy is not optimal, or the problem too large to enumerate.
    """
    if method == "auto":
        method = "greedy" if problem.is_greedy else "cp-sat"
    program = BatchProgram(problem)
    own = {"greedy": program.filled}
    return program.solve_by(problem, method, time_limit=time_limit, seed=seed, own=own)


def gap(problem: BatchProblem, prefill: tuple[int, ...], decode: tuple[int, ...]) -> int:
    """Return the worth of an optimal batch minus the worth of a given batch.

    Raises
    ------
    InputError
        If the batch is infeasible, or no optimal batch is found.
    """
    if violated := violations(problem, prefill, decode):
        name, by = next(iter(violated.items()))
        raise InputError("batch", WORDS.told(name, by), "give a feasible batch")
    best = solve(problem).required_solution()
    return worth(problem, *best) - worth(problem, prefill, decode)
