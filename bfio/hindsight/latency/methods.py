"""Solve one hindsight latency problem by any method of the toolkit."""

from bfio.hindsight.latency.solve import solve_hindsight
from formulations.arrays import integer
from formulations.backends import check_method
from formulations.hindsight_latency import (
    LatencyProblem,
    LatencyResult,
    solve,
    solve_by_enumeration,
)


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
    integer(seed, "seed", maximum=2**31 - 1)
    if method == "exact":
        return solve_hindsight(problem, time_limit).to_latency_result(problem)
    if method == "brute-force":
        return solve_by_enumeration(problem)
    check_method(method, ("exact", "brute-force"))
    return solve(problem, backend=method, time_limit=time_limit, seed=seed)
