"""The second program as sparse arrays, put together from those of step and window."""

import numpy as np

from formulations.second.problem import SecondProblem
from formulations.standard_form import StandardForm
from formulations.step.matrix import build_standard_form as build_step

#: Rows of a window's own; the others limit assignments.
_FAMILIES = ("peak[", "floor[")


def build_standard_form(problem: SecondProblem) -> StandardForm:
    """Write the standard form of a second program with at least one waiting request.

    Columns are those of the step, then ``window_M`` and ``window_m``.

    Raises
    ------
    CapabilityError
        If step or window would have too many nonzeros.
    """
    from scipy.sparse import csr_array, hstack, vstack

    step = build_step(problem.step)
    # Without weights the first objective is no row, and 0.
    limit = ["most"] if step.objective.any() else []
    first = csr_array(step.objective[None, :])[: len(limit)]
    costs = np.zeros(step.num_columns)
    pairs = problem.step.num_requests * problem.step.num_workers
    costs[:pairs] = np.repeat(problem.costs, problem.step.num_workers)
    form = StandardForm(
        objective=costs,
        offset=0.0,
        matrix=csr_array(vstack([step.matrix, first])),
        row_lower=np.append(step.row_lower, [-np.inf] * len(limit)),
        row_upper=np.append(step.row_upper, [problem.most - step.offset] * len(limit)),
        lower=step.lower,
        upper=step.upper,
        integral=step.integral,
        row_names=(*step.row_names, *limit),
        column_names=step.column_names,
    )
    if problem.window is None:
        return form
    window = build_step(problem.window)
    rows = [r for r, name in enumerate(window.row_names) if name.startswith(_FAMILIES)]
    own = window.matrix[rows]
    between = csr_array((len(rows), step.num_columns - pairs))
    below = hstack([own[:, :pairs], between, own[:, pairs:]])
    above = hstack([form.matrix, csr_array((form.num_rows, window.num_columns - pairs))])
    costs[:pairs] += window.objective[:pairs]
    return StandardForm(
        objective=np.concatenate([costs, window.objective[pairs:]]),
        offset=window.offset,
        matrix=csr_array(vstack([above, below])),
        row_lower=np.concatenate([form.row_lower, window.row_lower[rows]]),
        row_upper=np.concatenate([form.row_upper, window.row_upper[rows]]),
        lower=np.concatenate([form.lower, window.lower[pairs:]]),
        upper=np.concatenate([form.upper, window.upper[pairs:]]),
        integral=np.concatenate([form.integral, window.integral[pairs:]]),
        row_names=(*form.row_names, *(f"window_{window.row_names[r]}" for r in rows)),
        column_names=(*form.column_names, *(f"window_{n}" for n in window.column_names[pairs:])),
    )
