"""The step program as sparse arrays, written directly.

Building and compiling the Pyomo statement takes seconds at 128 requests x 25 workers x 21 steps;
this takes milliseconds. `formulations.step.program` stays the statement: a test compiles it and
compares every row, column and coefficient with what is built here.
"""

import numpy as np
from scipy.sparse import block_array, coo_array, csr_array, kron

from formulations.arrays import FloatArray, IntArray
from formulations.standard_form import StandardForm
from formulations.step.bound import peak_bounds
from formulations.step.problem import Objective, StepProblem

#: One family of rows: its matrix, lower and upper sides, and names.
_Family = tuple[csr_array, FloatArray, FloatArray, list[str]]


def build_standard_form(problem: StepProblem) -> StandardForm:
    """Write the standard form of a step problem with at least one waiting request.

    Columns are ``x[i,g]`` (i slow, g fast), then ``M[h]``, then ``m[h]`` for the gap objective.
    """
    families = [_admit_once(problem), _capacity(problem), _use_slots(problem), _peak(problem)]
    if problem.objective is Objective.GAP:
        families.append(_floor(problem))
    if problem.token_capacity is not None:
        families.append(_token_capacity(problem))
    if problem.required is not None:
        families.append(_required(problem))
    matrix = csr_array(block_array([[family[0]] for family in families], format="csr"))
    matrix.eliminate_zeros()
    # A token capacity that no request can touch is a row without variables: not part of the form.
    kept = np.flatnonzero(np.diff(matrix.indptr))
    names = [name for family in families for name in family[3]]
    lower, upper = peak_bounds(problem)
    gap = problem.objective is Objective.GAP
    num_x = problem.num_requests * problem.num_workers
    objective, offset = _objective(problem)
    return StandardForm(
        objective=objective,
        offset=offset,
        matrix=csr_array(matrix[kept]),
        row_lower=np.concatenate([family[1] for family in families])[kept],
        row_upper=np.concatenate([family[2] for family in families])[kept],
        lower=np.concatenate([np.zeros(num_x), lower, np.zeros(len(upper) if gap else 0)]),
        upper=np.concatenate([np.ones(num_x), upper, upper if gap else []]),
        integral=np.ones(len(objective), dtype=np.bool_),
        row_names=tuple(names[r] for r in kept),
        column_names=_column_names(problem),
    )


def _objective(problem: StepProblem) -> tuple[FloatArray, float]:
    # Python integers: products of weight, speed and tokens may leave 64 bits before the check.
    weights = np.array(problem.weights, dtype=object)
    if problem.objective is not Objective.IMBALANCE:
        zero = np.zeros(problem.num_requests * problem.num_workers)
        peak = _floats(weights)
        floor = -peak if problem.objective is Objective.GAP else np.zeros(0)
        return np.concatenate([zero, peak, floor]), 0.0
    times = problem.time_weights.astype(object)
    values = problem.contribution.astype(object) @ weights
    offset = -int((problem.base.astype(object) @ weights) @ times)
    x_costs = _floats(-np.outer(values, times).reshape(-1))
    return np.concatenate([x_costs, _floats(problem.num_workers * weights)]), float(offset)


def _admit_once(problem: StepProblem) -> _Family:
    N = problem.num_requests
    matrix = kron(_identity(N), np.ones((1, problem.num_workers)), format="csr")
    names = [f"admit_once[{i}]" for i in range(N)]
    return _padded(problem, matrix), np.full(N, -np.inf), np.ones(N), names


def _capacity(problem: StepProblem) -> _Family:
    G = problem.num_workers
    matrix = kron(np.ones((1, problem.num_requests)), _identity(G), format="csr")
    names = [f"capacity[{g}]" for g in range(G)]
    return _padded(problem, matrix), np.full(G, -np.inf), _floats(problem.capacity), names


def _use_slots(problem: StepProblem) -> _Family:
    matrix = csr_array(np.ones((1, problem.num_requests * problem.num_workers)))
    side = np.array([float(problem.num_admitted)])
    return _padded(problem, matrix), side, side, ["use_slots"]


def _peak(problem: StepProblem) -> _Family:
    """Rows ``τ_g Σ_i v_i(h) x[i,g] − M[h] ≤ −τ_g b_g(h)``, g slow and h fast."""
    matrix = csr_array(
        block_array([[_times(problem), -_step_columns(problem), *_no_floor(problem)]])
    )
    side = -_floats(problem.base * problem.time_weights[:, None]).reshape(-1)
    return matrix, np.full(len(side), -np.inf), side, _names("peak", problem)


def _floor(problem: StepProblem) -> _Family:
    """Rows ``m[h] − τ_g Σ_i v_i(h) x[i,g] ≤ τ_g b_g(h)``."""
    steps = _step_columns(problem)
    zero = csr_array(steps.shape)
    matrix = csr_array(block_array([[-_times(problem), zero, steps]]))
    side = _floats(problem.base * problem.time_weights[:, None]).reshape(-1)
    return matrix, np.full(len(side), -np.inf), side, _names("floor", problem)


def _token_capacity(problem: StepProblem) -> _Family:
    limits = problem.token_capacity
    assert limits is not None
    matrix = _padded(problem, _loads(problem))
    side = _floats(limits[:, None] - problem.base).reshape(-1)
    return matrix, np.full(len(side), -np.inf), side, _names("token_capacity", problem)


def _required(problem: StepProblem) -> _Family:
    flags = problem.required
    assert flags is not None
    rows = np.flatnonzero(flags)
    matrix, _, _, _ = _admit_once(problem)
    side = np.ones(len(rows))
    return csr_array(matrix[rows]), side, side, [f"required[{i}]" for i in rows]


def _loads(problem: StepProblem) -> csr_array:
    """Coefficients of x in ``Σ_i v_i(h) x[i,g]``; row (g, h), g slow."""
    G, N, steps = problem.num_workers, problem.num_requests, problem.num_steps
    i, g, h = (a.reshape(-1) for a in np.indices((N, G, steps)))
    values = _floats(problem.contribution)[i, h]
    return csr_array(coo_array((values, (g * steps + h, i * G + g)), shape=(G * steps, N * G)))


def _times(problem: StepProblem) -> csr_array:
    scale = np.repeat(_floats(problem.time_weights), problem.num_steps)
    return csr_array(_loads(problem) * scale[:, None])


def _step_columns(problem: StepProblem) -> csr_array:
    """One column per step h, repeated for every worker."""
    ones = np.ones((problem.num_workers, 1))
    return csr_array(kron(ones, _identity(problem.num_steps), format="csr"))


def _no_floor(problem: StepProblem) -> list[csr_array]:
    if problem.objective is not Objective.GAP:
        return []
    return [csr_array((problem.num_workers * problem.num_steps, problem.num_steps))]


def _padded(problem: StepProblem, matrix: csr_array) -> csr_array:
    """Append empty columns for M (and m)."""
    kinds = 2 if problem.objective is Objective.GAP else 1
    empty = csr_array((matrix.shape[0], kinds * problem.num_steps))
    return csr_array(block_array([[matrix, empty]]))


def _identity(size: int) -> csr_array:
    return csr_array(np.eye(size))


def _floats(array: IntArray) -> FloatArray:
    return np.asarray(array, dtype=np.float64)


def _names(family: str, problem: StepProblem) -> list[str]:
    return [
        f"{family}[{g},{h}]" for g in range(problem.num_workers) for h in range(problem.num_steps)
    ]


def _column_names(problem: StepProblem) -> tuple[str, ...]:
    x = [f"x[{i},{g}]" for i in range(problem.num_requests) for g in range(problem.num_workers)]
    peaks = [f"M[{h}]" for h in range(problem.num_steps)]
    gap = problem.objective is Objective.GAP
    return (*x, *peaks, *(f"m[{h}]" for h in range(problem.num_steps) if gap))
