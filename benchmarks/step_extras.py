"""Modifications of a harvested step problem: discount, memory, speeds, or other requirements."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from benchmarks.oldest_first import oldest_first
from formulations.arrays import IntArray
from formulations.step import Objective, StepProblem
from formulations.step.problem import geometric_weights

#: The modifications, with descriptions.
EXTRAS = {
    "memory": "token capacities bind on half the workers",
    "speeds": "workers of two speeds",
    "required": "half of what starts is required",
    "empty": "half of what could start stays",
    "max-load": "objective max-load",
    "gap": "objective gap",
}


def with_extra(problem: StepProblem, extra: str, seed: int) -> StepProblem:
    """Return the problem with one of `EXTRAS`; unchanged for any other word.

    Parameters
    ----------
    problem : StepProblem
        Data.
    extra : str
        Name of the modification.
    seed : int
        Seed for the choice of workers with binding memory, and for the speeds.
    """
    rng = np.random.default_rng(seed)
    admitted = problem.num_admitted
    if extra == "memory":
        return replace(problem, token_capacity=_binding_capacities(problem, rng))
    if extra == "speeds":
        return replace(problem, token_time=rng.integers(1, 3, problem.num_workers))
    if extra == "required":
        oldest = np.arange(problem.num_requests) < (admitted + 1) // 2
        return replace(problem, required=oldest)
    if extra == "empty":
        return replace(problem, admit=admitted // 2)
    if extra in EXTRAS:
        return replace(problem, objective=Objective(extra))
    return problem


def with_discount(problem: StepProblem, gamma: Fraction) -> StepProblem:
    """Return the problem with weights that decrease by a factor per step of the window."""
    weights, scale = geometric_weights(gamma, problem.num_steps)
    return replace(problem, weights=weights, scale=scale)


def _binding_capacities(problem: StepProblem, rng: np.random.Generator) -> IntArray:
    """Limit half of the workers to the memory of a simple assignment, which stays feasible."""
    loads = problem.loads(oldest_first(problem) or []).max(axis=1)
    bound = rng.permutation(problem.num_workers) < (problem.num_workers + 1) // 2
    capacities: IntArray = np.where(bound, loads, 2 * int(loads.max()))
    return capacities
