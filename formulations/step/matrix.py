"""The step program as sparse arrays, written directly.

Building and compiling the Pyomo statement takes seconds at 128 requests x 25 workers x 21 steps;
this takes milliseconds. `formulations.step.program` stays the statement.
"""

import numpy as np

from formulations.arrays import FloatArray, IntArray
from formulations.errors import CapabilityError
from formulations.form_writer import FormWriter
from formulations.standard_form import StandardForm
from formulations.step.bound import peak_bounds
from formulations.step.problem import Objective, StepProblem

#: Most nonzeros written; beyond, no solver would return anyway.
MAX_NONZEROS = 20_000_000


def build_standard_form(problem: StepProblem) -> StandardForm:
    """Write the standard form of a step problem with at least one waiting request.

    Columns are ``x[i,g]`` (i slow, g fast), then ``M[h]``, then ``m[h]`` for the gap objective.

    Raises
    ------
    CapabilityError
        If there would be more than `MAX_NONZEROS` nonzeros.
    """
    N, G, steps = problem.num_requests, problem.num_workers, problem.num_steps
    _check_size(N * G * (steps + 2))
    writer = FormWriter()
    x_costs, peak_costs, offset = _costs(problem)
    x = np.arange(N * G)
    writer.columns((f"x[{i},{g}]" for i in range(N) for g in range(G)), cost=x_costs)
    lowest, highest = peak_bounds(problem)
    names = [f"M[{h}]" for h in range(steps)]
    peak = writer.columns(names, lower=lowest, upper=highest, cost=peak_costs)
    first = writer.rows((f"admit_once[{i}]" for i in range(N)), upper=1)
    writer.add(first + x // G, x, 1)
    first = writer.rows((f"capacity[{g}]" for g in range(G)), upper=problem.capacity)
    writer.add(first + x % G, x, 1)
    admitted = problem.num_admitted
    writer.add(writer.rows(["use_slots"], lower=admitted, upper=admitted), x, 1)
    load = _Loads(problem)
    base = (problem.base * problem.time_weights[:, None]).reshape(-1)
    first = writer.rows(load.names("peak"), upper=-base)
    writer.add(first + load.row, load.column, load.times)
    writer.add(first + load.places, peak + load.places % steps, -1)
    if problem.objective is Objective.GAP:
        names = [f"m[{h}]" for h in range(steps)]
        floor = writer.columns(names, upper=highest, cost=-peak_costs)
        first = writer.rows(load.names("floor"), upper=base)
        writer.add(first + load.row, load.column, -load.times)
        writer.add(first + load.places, floor + load.places % steps, 1)
    if problem.token_capacity is not None:
        room = (problem.token_capacity[:, None] - problem.base).reshape(-1)
        first = writer.rows(load.names("token_capacity"), upper=room)
        writer.add(first + load.row, load.column, load.tokens)
    if problem.required is not None:
        required = np.flatnonzero(problem.required)
        first = writer.rows((f"required[{i}]" for i in required), lower=1, upper=1)
        each = np.arange(len(required) * G)
        writer.add(first + each // G, required[each // G] * G + each % G, 1)
    return writer.form(offset)


def _check_size(nonzeros: int) -> None:
    if nonzeros > MAX_NONZEROS:
        raise CapabilityError(
            "program",
            f"about {nonzeros} nonzeros are more than {MAX_NONZEROS}",
            "use --method exact, or fewer requests, workers or look-ahead steps",
        )


class _Loads:
    """Coefficients of x in ``Σ_i v_i(h) x[i,g]``; rows (g, h), g slow."""

    def __init__(self, problem: StepProblem) -> None:
        G, steps = problem.num_workers, problem.num_steps
        indices = np.indices((problem.num_requests, G, steps))
        i, g, h = (index.reshape(-1) for index in indices)
        self.row: IntArray = g * steps + h
        self.column: IntArray = i * G + g
        self.tokens: FloatArray = problem.contribution[i, h].astype(np.float64)
        self.times: FloatArray = self.tokens * problem.time_weights[g]
        self.places = np.arange(G * steps)
        self._steps = steps

    def names(self, family: str) -> list[str]:
        return [f"{family}[{row // self._steps},{row % self._steps}]" for row in self.places]


def _costs(problem: StepProblem) -> tuple[FloatArray, FloatArray, float]:
    """Return the costs of x and M, and the constant."""
    # Python integers: products of weight, speed and tokens may leave 64 bits before the check.
    weights = np.array(problem.weights, dtype=object)
    benefit = np.zeros(problem.num_requests * problem.num_workers, dtype=object)
    if problem.benefit is not None:
        benefit += problem.benefit.reshape(-1)
    if problem.objective is not Objective.IMBALANCE:
        return (-benefit).astype(np.float64), weights.astype(np.float64), 0.0
    times = problem.time_weights.astype(object)
    values = problem.contribution.astype(object) @ weights
    offset = -int((problem.base.astype(object) @ weights) @ times)
    x_costs = -np.outer(values, times).reshape(-1) - benefit
    peak_costs = problem.num_workers * weights
    return x_costs.astype(np.float64), peak_costs.astype(np.float64), float(offset)
