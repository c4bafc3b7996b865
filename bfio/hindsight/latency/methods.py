"""Solve a hindsight latency problem by any method: ours, enumeration, or a backend."""

from math import inf

from bfio.hindsight.latency.prepare import prepare
from bfio.hindsight.latency.solve import solve_hindsight
from formulations.deadline import Deadline, OutOfTime, TimeLimit
from formulations.hindsight_latency import LatencyProblem, LatencyProgram, LatencyResult
from formulations.results import Termination


def solve_latency(
    problem: LatencyProblem,
    *,
    method: str = "exact",
    time_limit: TimeLimit = None,
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
    time_limit : float or Deadline, optional
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
    deadline = Deadline.of(time_limit)
    return LatencyProgram.solve_by(
        problem,
        method,
        time_limit=deadline,
        seed=seed,
        own={"exact": lambda: _exact(problem, deadline)},
    )


def _exact(problem: LatencyProblem, deadline: Deadline) -> LatencyResult:
    if deadline.at < inf:
        with deadline.stopped():
            prepare()
    try:
        return solve_hindsight(problem, deadline).to_latency_result(problem)
    except OutOfTime:
        program = LatencyProgram(problem)
        return program.answer(None, Termination.TIME_LIMIT, None, method="exact")
