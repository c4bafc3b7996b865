"""From what a policy sees to the integer program of that step."""

from fractions import Fraction

from bfio.decode.state import DecodeState
from formulations.step.problem import Objective, StepProblem, geometric_weights


def step_problem(
    state: DecodeState,
    *,
    horizon: int = 0,
    gamma: Fraction = Fraction(1),
    objective: Objective = Objective.IMBALANCE,
    admit: int | None = None,
) -> StepProblem:
    """Return the step program (IO) of a state.

    Parameters
    ----------
    state : DecodeState
        The step.
    horizon : int
        ``H``; a state with fewer than ``H + 1`` columns shortens the window.
    gamma : Fraction
        Discount per look-ahead step, in (0, 1].
    objective : Objective
        What to minimise.
    admit : int, optional
        Exact number of requests to admit, by default all that fit.
    """
    columns = min(horizon + 1, state.projected_loads.shape[1])
    weights, scale = geometric_weights(gamma, columns)
    return StepProblem(
        capacity=state.free_slots,
        base=state.projected_loads[:, :columns],
        contribution=state.contributions[:, :columns],
        weights=weights,
        scale=scale,
        objective=objective,
        admit=admit,
    )
