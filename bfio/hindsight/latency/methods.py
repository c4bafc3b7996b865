"""Solve one hindsight latency problem by any method of the toolkit."""

from bfio.hindsight.latency.solve import solve_hindsight
from formulations.hindsight_latency import LatencyProblem, LatencyProgram, LatencyResult


def solve_latency(
    problem: LatencyProblem,
    *,
    method: str = "exact",
    time_limit: float | None = None,
    seed: int = 0,
) -> LatencyResult:
    """Solve one hindsight latency problem and check the answer.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    method : str
        ``exact`` (our own), ``brute-force`` (tiny problems), or a backend: ``cp-sat``, ``highs``,
        ``pyomo``, ``pyomo:SOLVER``.
    time_limit : float, optional
        Wall-clock seconds.
    seed : int
        Random seed of the backends.

    Returns
    -------
    LatencyResult
        ``termination`` is optimal only with a proof in integers.

    Raises
    ------
    InputError
        If the method is unknown or the time limit negative.
    CapabilityError
        If the problem is too large for a backend or for enumeration.
    """
    return LatencyProgram.solve_by(
        problem,
        method,
        time_limit=time_limit,
        seed=seed,
        own={"exact": lambda: solve_hindsight(problem, time_limit).to_latency_result(problem)},
    )
