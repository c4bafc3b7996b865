"""Solve the fluid programs with a backend, and prove the answer in rationals."""

from fractions import Fraction

from formulations.backends import SolveLimits
from formulations.fluid.objective import FluidObjective
from formulations.fluid.problem import FluidProblem
from formulations.fluid.proof import DUALITY, admission_result, margin_result
from formulations.fluid.result import AdmissionResult, EquilibriumResult, MarginResult
from formulations.linear.linear_solve import LinearSolve, solve_linear
from formulations.linear.simplex import is_optimal_pair
from formulations.problem_data import member
from formulations.results import Termination, own_solver

_ZERO = Fraction(0)


def solve_equilibrium(
    problem: FluidProblem,
    *,
    backend: str = "highs",
    within_memory: bool = False,
    time_limit: float | None = None,
    seed: int = 0,
) -> EquilibriumResult:
    """Solve the equilibrium program of one worker.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    backend : str
        ``highs``, ``pyomo`` or ``pyomo:SOLVER``.
    within_memory : bool
        Whether the memory is a constraint; otherwise only the load matters.
    time_limit : float, optional
        Seconds for the backend.
    seed : int
        Random seed of the backend.

    Returns
    -------
    EquilibriumResult
        ``INFEASIBLE``, with its proof, for a load of 1 or more (or too little memory).

    Raises
    ------
    InputError
        If there are several workers or the backend is unknown.
    CapabilityError
        If the program is too large for exact arithmetic.
    """
    from formulations.fluid.equilibrium_program import build

    solve = solve_linear(
        lambda: build(problem, within_memory=within_memory), backend, SolveLimits(time_limit, seed)
    )
    linear, vertex = solve.linear, solve.vertex
    if vertex.point is None:
        proven = linear.proves_infeasible(vertex.prices)
        return EquilibriumResult(
            **solve.report(backend),
            termination=Termination.INFEASIBLE if proven else Termination.FAILED,
            farkas=solve.prices,
            proof="a Farkas certificate, in fractions" if proven else None,
        )
    proven = is_optimal_pair(linear, vertex.point, vertex.prices)
    values = solve.values
    return EquilibriumResult(
        **solve.report(backend),
        termination=Termination.OPTIMAL if proven else Termination.FAILED,
        value=-linear.value(vertex.point),
        bound=-linear.dual_value(vertex.prices),
        claimed=_claimed(solve, 1),
        violations=linear.primal_violations(vertex.point),
        per_stage=tuple(values[f"count[{j}]"] for j in range(len(problem.classes))),
        iteration_time=values["time"],
        proof=DUALITY if proven else None,
    )


def solve_throughput(
    problem: FluidProblem,
    *,
    objective: FluidObjective = FluidObjective.STAGES,
    backend: str = "highs",
    time_limit: float | None = None,
    seed: int = 0,
) -> AdmissionResult:
    """Solve the memory-constrained throughput program; `knapsack` does it without a solver.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    objective : FluidObjective
        What a request is worth.
    backend, time_limit, seed
        See `solve_equilibrium`.

    Raises
    ------
    InputError, CapabilityError
        As `solve_equilibrium`.
    """
    from formulations.fluid.throughput_program import build

    objective = member(FluidObjective, objective, "objective")
    solve = solve_linear(
        lambda: build(problem, objective=objective), backend, SolveLimits(time_limit, seed)
    )
    prices = solve.prices
    return admission_result(
        problem,
        objective,
        _routing(problem, solve),
        _work_prices(problem, solve),
        tuple(prices[f"rate[{j}]"] for j in range(len(problem.classes))),
        stated_value=solve.linear.value(tuple(solve.values.values())),
        claimed=_claimed(solve, -1),
        **solve.report(backend),
    )


def solve_margin(
    problem: FluidProblem,
    *,
    backend: str = "highs",
    time_limit: float | None = None,
    seed: int = 0,
) -> MarginResult:
    """Return the largest common factor on all rates that the workers can serve.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    backend, time_limit, seed
        See `solve_equilibrium`; not used if every class may use every worker, where the margin is
        ``Σ_g K_g / A``.

    Raises
    ------
    InputError, CapabilityError
        As `solve_equilibrium`.
    """
    if problem.is_pooled:
        return _pooled_margin(problem)
    return solve_margin_program(problem, backend=backend, time_limit=time_limit, seed=seed)


def solve_margin_program(
    problem: FluidProblem,
    *,
    backend: str = "highs",
    time_limit: float | None = None,
    seed: int = 0,
) -> MarginResult:
    """Solve the margin program as a linear program, whatever the routes; see `solve_margin`."""
    from formulations.fluid.margin_program import build

    solve = solve_linear(lambda: build(problem), backend, SolveLimits(time_limit, seed))
    return margin_result(
        problem,
        _routing(problem, solve),
        _work_prices(problem, solve),
        solve.values["margin"],
        claimed=_claimed(solve, -1),
        **solve.report(backend),
    )


def _pooled_margin(problem: FluidProblem) -> MarginResult:
    """Return the closed form: every class split in proportion to the workers' capacities."""
    total = sum((worker.capacity for worker in problem.workers), _ZERO)
    factors = [worker.capacity / problem.work_rate for worker in problem.workers]
    routing = tuple(tuple(kind.rate * f for f in factors) for kind in problem.classes)
    prices = (1 / problem.work_rate,) * len(problem.workers)
    margin = total / problem.work_rate
    return margin_result(
        problem, routing, prices, margin, method="closed-form", solver=own_solver()
    )


def _claimed(solve: LinearSolve, sign: int) -> float | None:
    """Return the backend's objective; programs that maximise state the negative."""
    bound = solve.outcome.bound
    return None if bound is None else sign * float(bound)


def _routing(problem: FluidProblem, solve: LinearSolve) -> tuple[tuple[Fraction, ...], ...]:
    values = solve.values
    return tuple(
        tuple(values.get(f"x[{j},{g}]", _ZERO) for g in range(len(problem.workers)))
        for j in range(len(problem.classes))
    )


def _work_prices(problem: FluidProblem, solve: LinearSolve) -> tuple[Fraction, ...]:
    prices = solve.prices
    return tuple(prices.get(f"work[{g}]", _ZERO) for g in range(len(problem.workers)))
