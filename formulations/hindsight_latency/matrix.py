"""The hindsight latency program as sparse arrays, written directly.

`formulations.hindsight_latency.program` stays the statement: a test compiles it and compares
every row, column and coefficient with what is built here.
"""

import numpy as np
from scipy.sparse import coo_array, csr_array

from formulations.arrays import IntArray
from formulations.errors import CapabilityError
from formulations.hindsight_latency.kinds import Kind, kinds
from formulations.hindsight_latency.problem import LatencyProblem
from formulations.standard_form import StandardForm

#: Most nonzeros written; beyond, no solver would return anyway.
MAX_NONZEROS = 50_000_000


def build_standard_form(problem: LatencyProblem, *, aggregate: bool = True) -> StandardForm:
    """Write the standard form of a problem with at least one request.

    Columns are ``x[c,k]`` (c slow, k fast); rows are ``start_once[c]``, then ``memory[τ]``.

    Raises
    ------
    CapabilityError
        If there would be more than `MAX_NONZEROS` nonzeros.
    """
    groups = kinds(problem, aggregate=aggregate)
    _check_size(problem, groups)
    kind, start = _columns(groups)
    sizes = np.array([len(group.members) for group in groups], dtype=np.int64)
    rows, cols, values = _memory_entries(problem, groups, kind, start)
    rounds, memory_row = np.unique(rows, return_inverse=True)
    num_rows = len(groups) + len(rounds)
    matrix = coo_array(
        (
            np.concatenate((np.ones(len(kind)), values)),
            (
                np.concatenate((kind, len(groups) + memory_row)),
                np.concatenate((np.arange(len(kind)), cols)),
            ),
        ),
        shape=(num_rows, len(kind)),
    )
    open_side = np.full(len(rounds), -np.inf)
    full_side = np.full(len(rounds), float(problem.memory))
    constant = sum(problem.output.tolist()) - sum(problem.arrival.tolist())
    return StandardForm(
        objective=start.astype(np.float64),
        offset=float(constant),
        matrix=csr_array(matrix),
        row_lower=np.concatenate((sizes, open_side)),
        row_upper=np.concatenate((sizes, full_side)),
        lower=np.zeros(len(kind)),
        upper=sizes[kind].astype(np.float64),
        integral=np.ones(len(kind), dtype=np.bool_),
        row_names=(
            *(f"start_once[{c}]" for c in range(len(groups))),
            *(f"memory[{t}]" for t in rounds.tolist()),
        ),
        column_names=tuple(
            f"x[{c},{k}]" for c, k in zip(kind.tolist(), start.tolist(), strict=True)
        ),
    )


def _check_size(problem: LatencyProblem, groups: tuple[Kind, ...]) -> None:
    ages = problem.convention.last_age
    nonzeros = sum((g.last_start - g.arrival + 1) * (ages(g.output) + 2) for g in groups)
    if nonzeros > MAX_NONZEROS:
        raise CapabilityError(
            "problem",
            f"about {nonzeros} nonzeros are more than {MAX_NONZEROS}",
            "use fewer requests or shorter outputs, or the exact method",
        )


def _columns(groups: tuple[Kind, ...]) -> tuple[IntArray, IntArray]:
    """Return kind and start of every column."""
    starts = [np.arange(g.arrival, g.last_start + 1, dtype=np.int64) for g in groups]
    kind = np.repeat(np.arange(len(groups), dtype=np.int64), [len(s) for s in starts])
    return kind, np.concatenate(starts)


def _memory_entries(
    problem: LatencyProblem, groups: tuple[Kind, ...], kind: IntArray, start: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return round, column and tokens of every entry of the memory rows."""
    convention = problem.convention
    first = convention.first_age
    lengths = np.array([convention.last_age(g.output) - first + 1 for g in groups])[kind]
    prompts = np.array([g.prompt for g in groups], dtype=np.int64)[kind]
    column = np.repeat(np.arange(len(kind), dtype=np.int64), lengths)
    begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
    age = np.arange(len(column), dtype=np.int64) - begins + first
    return start[column] + age, column, prompts[column] + age
