"""Minimise the time per token of a step by integer programs (Dinkelbach's method)."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from formulations.arrays import FloatArray, IntArray, integer, integer_vector
from formulations.backends import SolveLimits, check_method
from formulations.deadline import Deadline, OutOfTime, TimeLimit
from formulations.errors import CapabilityError
from formulations.formulation import COMBINATORIAL, Formulation, is_feasible, trusted_termination
from formulations.pausing.bound import (
    Relaxation,
    least_ratio,
    least_times,
    longest_step,
    lower_bound,
    shortest_step,
)
from formulations.pausing.check import Solution, brute_force, time_and_tokens, violations
from formulations.pausing.problem import PausingProblem, PausingResult, PricedPausing, PricedResult
from formulations.results import BoundKind, Termination, own_solver
from formulations.standard_form import EXACT_LIMIT, FormWriter, StandardForm, check_size
from formulations.statement import Statement
from formulations.words import Words


def build_standard_form(priced: PricedPausing) -> StandardForm:
    """Write the standard form of a priced problem with at least one request.

    Columns are ``y[j]``, then ``x[i,g]`` (i slow, g fast), then ``M``.

    Raises
    ------
    CapabilityError
        If the standard form would have too many nonzeros, or a cost that float64 rounds.
    """
    problem = priced.problem
    J, N, G = problem.num_active, problem.num_requests, problem.num_workers
    _check_size(problem)
    bounds = {"lower": shortest_step(problem), "upper": longest_step(problem)}
    if max(priced.time_price, priced.token_price, bounds["upper"]) >= EXACT_LIMIT:
        what = f"times in units of 1/{problem.scale} s exceed 2^53, where float64 rounds"
        remedy = "write times with fewer digits, or in units of the time of one token"
        raise CapabilityError("step_overhead, token_time", what, remedy)
    writer = FormWriter()
    price = -priced.token_price
    y = writer.columns((f"y[{j}]" for j in range(J)), cost=price) + np.arange(J)
    names = (f"x[{i},{g}]" for i in range(N) for g in range(G))
    x = writer.columns(names, cost=price) + np.arange(N * G)
    request, worker = np.divmod(np.arange(N * G), G)
    peak = writer.columns(["M"], **bounds, cost=priced.time_price)
    if N:
        writer.constraints((f"admit_once[{i}]" for i in range(N)), request, x, 1, upper=1)
        names = (f"capacity[{g}]" for g in range(G))
        writer.constraints(names, worker, x, 1, upper=problem.capacity)
    # For a worker without requests, the bounds of M already imply its row.
    on = np.arange(G) if N else np.unique(problem.worker)
    rates, row = problem.rates, np.searchsorted(on, problem.worker)
    active = problem.load * rates[problem.worker]
    names = (f"peak[{g}]" for g in on)
    first = writer.constraints(names, row, y, active, upper=-problem.overheads[on])
    writer.add(first + worker, x, problem.waiting[request] * rates[worker])
    writer.add(first + np.arange(len(on)), np.full(len(on), peak), -1)
    must = np.flatnonzero(problem.must_run)
    names = (f"must_run[{j}]" for j in must)
    writer.constraints(names, np.arange(len(must)), y[must], 1, lower=1, upper=1)
    writer.constraints(["one_token"], 0, np.concatenate([y, x]), 1, lower=1)
    if problem.token_capacity is not None and N:
        room, names = np.maximum(problem.room, 0), (f"token_capacity[{g}]" for g in range(G))
        writer.constraints(names, worker, x, problem.waiting[request], upper=room)
    if problem.required is not None:
        starts = np.flatnonzero(problem.must_start)
        names = (f"required[{i}]" for i in starts)
        rows, columns = np.repeat(np.arange(len(starts)), G), x.reshape(N, G)[starts].reshape(-1)
        writer.constraints(names, rows, columns, 1, lower=1, upper=1)
    return writer.form()


def _check_size(problem: PausingProblem, parts: int = 0) -> None:
    """Check the number of matrix entries of a program.

    Raises
    ------
    CapabilityError
        If there are too many, with ``parts`` additional entries per binary variable.
    """
    J, N, G = problem.num_active, problem.num_requests, problem.num_workers
    check_size(5 * N * G + 4 * J + parts * (N * G + J), "program", "use exact")


class PricedProgram(Formulation[PricedPausing, Solution, PricedResult]):
    """The program of one `PricedPausing`.

    Parameters
    ----------
    problem : PricedPausing
        Data.
    times : IntArray, optional
        `least_times` of the problem, if known.
    """

    result = PricedResult
    words = Words(
        title="the pausing program at a price of tokens",
        source="this project (docs/pausing.md); no paper states it",
        objective="time of the step less the price of its tokens [time units]",
        variables={
            "y": "y(j) = 1 if active request j runs",
            "x": "x(i,g) = 1 if waiting request i starts on worker g",
            "M": "M = time of the step",
        },
    )

    def __init__(self, problem: PricedPausing, times: IntArray | None = None) -> None:
        super().__init__(problem)
        self._times = times

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.pausing.program import build_priced

        return build_priced(self.problem)

    def write(self) -> StandardForm:
        """Return the standard form, written without Pyomo."""
        return build_standard_form(self.problem)

    def lower_bound(self) -> int:
        """Return the lower bound on ``q·time − p·tokens`` of `formulations.pausing.bound`."""
        if self._times is None:
            self._times = least_times(Relaxation(self.problem.problem))
        return lower_bound(self.problem, self._times)

    def objective_value(self, solution: Solution) -> int:
        """Return the objective ``q·time − p·tokens`` of a solution."""
        return self.problem.value(*time_and_tokens(self.problem.problem, *solution))

    def violations(self, solution: Solution, objective: int | None = None) -> dict[str, int]:
        """Return each violated constraint of a solution and the amount."""
        runs, assignment = solution
        violated = violations(self.problem.problem, runs, assignment)
        return violated | self._misstated(solution, objective)

    def settled(self, method: str) -> PricedResult | None:
        """Return "infeasible" for a problem without requests (no tokens), else None."""
        problem = self.problem.problem
        if problem.num_active + problem.num_requests:
            return None
        return self.answer(None, Termination.INFEASIBLE, None, method=method)

    def solution_at(self, values: FloatArray) -> Solution:
        """Return the solution (runs, assignment) at a point of the standard form."""
        return _solution_at(self.problem.problem, values)

    def point_of(self, solution: Solution) -> FloatArray:
        """Return a solution as a point of the standard form."""
        problem = self.problem.problem
        runs, assignment = solution
        x = np.zeros((problem.num_requests, problem.num_workers))
        for i, g in enumerate(assignment):
            if g is not None:
                x[i, g] = 1.0
        duration, _ = time_and_tokens(problem, runs, assignment)
        return np.concatenate([np.array(runs, dtype=np.float64), x.reshape(-1), [duration]])


#: Matrix entries per binary variable of the ratio program beyond those of the priced program.
_PARTS = 8


def build_ratio_form(problem: PausingProblem) -> StandardForm:
    """Write the standard form of the ratio program, for at least one request.

    Columns are ``y[j]`` and ``x[i,g]``, their parts, ``share`` and ``ratio``.

    Raises
    ------
    CapabilityError
        As `build_standard_form`.
    """
    from scipy.sparse import block_array, csr_array, eye_array

    _check_size(problem, _PARTS)
    priced = build_standard_form(PricedPausing(problem, 1, 0))
    K = priced.num_columns - 1
    is_peak = np.array([name.startswith("peak[") for name in priced.row_names])
    # The last column, M, occurs only in the rows ``peak``.
    kept = priced.matrix[np.flatnonzero(~is_peak)][:, :K]
    peak = priced.matrix[np.flatnonzero(is_peak)][:, :K]
    overhead = csr_array(-priced.row_upper[is_peak, None])
    own, one, ones = eye_array(K), csr_array([[1.0]]), csr_array(np.ones((K, 1)))
    shortest = csr_array([[float(shortest_step(problem))]])
    rows = [
        [kept, None, None, None],
        [None, csr_array(np.ones((1, K))), None, None],
        [None, peak, overhead, csr_array(-np.ones((peak.shape[0], 1)))],
        [None, None, shortest, -one],
        [-own, own, None, None],
        [None, own, -ones, None],
        [own, -own, ones, None],
    ]
    rest = peak.shape[0] + 1 + 2 * K
    lower = [np.ones(1), np.full(rest + K, -np.inf)]
    upper = [np.ones(1), np.zeros(rest), np.ones(K)]
    chosen = priced.column_names[:K]
    named = [("run" if n[0] == "y" else "start", n[1:]) for n in chosen]
    matrix = csr_array(block_array(rows))
    matrix.eliminate_zeros()
    return StandardForm(
        objective=np.concatenate([np.zeros(2 * K + 1), [1.0]]),
        offset=0.0,
        matrix=matrix,
        row_lower=np.concatenate([priced.row_lower[~is_peak], *lower]),
        row_upper=np.concatenate([priced.row_upper[~is_peak], *upper]),
        lower=np.zeros(2 * K + 2),
        upper=np.concatenate([np.ones(2 * K + 1), [np.inf]]),
        integral=np.arange(2 * K + 2) < K,
        row_names=(
            *(name for name, peak in zip(priced.row_names, is_peak, strict=True) if not peak),
            "whole",
            *(name for name, peak in zip(priced.row_names, is_peak, strict=True) if peak),
            "shortest",
            *(f"{n}_{kind}{k}" for kind in ("only", "most", "least") for n, k in named),
        ),
        column_names=(*chosen, *(f"{n}_part{k}" for n, k in named), "share", "ratio"),
    )


def _solution_at(problem: PausingProblem, values: FloatArray) -> Solution:
    """Return runs and assignment at a point whose first columns are ``y[j]`` and ``x[i,g]``."""
    J, N, G = problem.num_active, problem.num_requests, problem.num_workers
    x = values[J : J + N * G].reshape(N, G)
    pairs = zip(x.argmax(axis=1).tolist(), (x.max(axis=1) > 0.5).tolist(), strict=True)
    starts = tuple(g if starts else None for g, starts in pairs)
    return tuple((values[:J] > 0.5).tolist()), starts


class PausingProgram(Statement[PausingProblem]):
    """The pausing program that minimises the ratio of time to tokens as one mixed-integer program.

    It serves for files, `bfio show` and the linear relaxation; `solve` is faster and exact.
    """

    words = Words(
        title="the pausing program: the least time per token of one step",
        source="this project (docs/pausing.md); no paper states it",
        objective="time per token [time units]",
        variables={
            **PricedProgram.words.variables,
            "run_part": "run_part(j) = share if active request j runs, else 0",
            "start_part": "start_part(i,g) = share if request i starts on worker g, else 0",
            "share": "share = 1 / the number of tokens of the step",
            "ratio": "ratio = time per token [time units]",
        },
        broken={
            "runs": "the number of active requests is wrong",
            "assignment": "the number of waiting requests is wrong",
            "must_run": "active request {0} has paused as often as allowed, and does not run",
            "required": "waiting request {0} must start, and does not",
            "capacity": "worker {0} starts {by} requests more than it has free slots",
            "token_capacity": "worker {0} holds {by} tokens too many",
            "one_token": "no request runs or starts",
            "objective": "the time per token is wrong by {by} s",
        },
    )

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.pausing.program import build

        return build(self.problem)

    def write(self) -> StandardForm:
        """Return the standard form, written without Pyomo."""
        return build_ratio_form(self.problem)

    @property
    def value_units(self) -> int:
        """Units of time per second; results are in seconds per token."""
        return self.problem.scale

    def settled(self, method: str) -> PausingResult | None:
        """Return "infeasible" for a problem without requests (no tokens), else None."""
        if self.problem.num_active + self.problem.num_requests:
            return None
        return assess(self.problem, None, None, Termination.INFEASIBLE, method=method)

    def violations(
        self, solution: Solution, value: Fraction | None = None
    ) -> dict[str, int | Fraction]:
        """Return each constraint that runs and starts violate; ``value`` in seconds per token."""
        runs, assignment = solution
        violated: dict[str, int | Fraction] = {**violations(self.problem, runs, assignment)}
        if value is not None and not violated:
            time, tokens = time_and_tokens(self.problem, runs, assignment)
            if error := abs(value - self.problem.ratio(time, tokens)):
                violated["objective"] = error
        return violated

    def solution_at(self, values: FloatArray) -> Solution:
        """Return the solution (runs, assignment) at a point of the standard form."""
        return _solution_at(self.problem, values)

    def lower_bound(self) -> Fraction | None:
        """Return the lower bound on units of time per token of `formulations.pausing.bound`."""
        return least_ratio(least_times(Relaxation(self.problem)).tolist())

    def answer(
        self, solution: Solution | None, said: Termination, bound: Fraction | None, **report: Any
    ) -> PausingResult:
        """Check a solution and return the result; see `assess`."""
        return assess(self.problem, solution, bound, said, **report)

    def relaxed(self, time_limit: TimeLimit) -> PausingResult:
        """Return the larger of two bounds: HiGHS's relaxation less 1e-6, or `lower_bound`."""
        if (answer := self.settled("lp")) is not None:
            return answer
        _check_size(self.problem, _PARTS)
        deadline, began, known = Deadline.of(time_limit), time.perf_counter(), None
        report: dict[str, Any] = {"method": "lp"}
        try:
            with deadline.interrupting():
                known = self.lower_bound()
                _ = self.standard_form
            outcome = self._relaxation(deadline)
        except OutOfTime:
            report["seconds"] = time.perf_counter() - began
            return assess(self.problem, None, known, Termination.TIME_LIMIT, **report)
        report |= {"seconds": time.perf_counter() - began, "solver": outcome.details}
        if outcome.bound is None:
            return assess(self.problem, None, known, outcome.termination, **report)
        claimed, kind = Fraction(outcome.bound) * (1 - Fraction(1, 10**6)), BoundKind.FLOAT
        if known is not None and claimed <= known:
            claimed, kind = known, BoundKind.INTEGER
        return PausingResult(
            problem=self.problem,
            termination=Termination.RELAXED,
            bound=claimed / self.problem.scale,
            bound_kind=kind,
            **report,
        )


def solve(
    problem: PausingProblem,
    *,
    backend: str = "cp-sat",
    time_limit: TimeLimit = None,
    hint: Solution | None = None,
    seed: int = 0,
    times: IntArray | None = None,
) -> PausingResult:
    """Minimise the time per token by integer programs at decreasing prices of tokens.

    The price is the ratio ``λ = p/q`` of the best step so far. If the program has a value below 0,
    its solution has a lower ratio, which is the next λ. At value 0 the ratio is minimal
    (Dinkelbach 1967). Ratios decrease strictly, so the sequence ends.

    Parameters
    ----------
    problem : PausingProblem
        Data.
    backend : str
        ``cp-sat``, ``highs``, ``pyomo`` or ``pyomo:SOLVER``.
    time_limit : float or Deadline, optional
        Wall-clock seconds in total.
    hint : tuple of (runs, assignment), optional
        A feasible solution to start from.
    seed : int
        Random seed of the solver.
    times : IntArray, optional
        `least_times` of the problem, if known.

    Returns
    -------
    PausingResult
        Optimal only with a bound derived in integers: CP-SAT's on the last program, or that of
        the relaxation (`formulations.pausing.bound`).
    """
    deadline = Deadline.of(time_limit)
    if times is not None:
        # The time of a step may exceed the largest number allowed in a problem.
        times = integer_vector(times, "times", maximum=(1 << 63) - 1)
    began = time.perf_counter()
    feasible = is_feasible(hint, lambda each: violations(problem, *each))
    best = hint if feasible else None
    rounds, compile_s = 0, 0.0
    report: dict[str, Any] = {"solver": {}}
    said = Termination.TIME_LIMIT
    # Check the size first, because the bound takes long for large problems.
    _check_size(problem)
    try:
        if times is None:
            with deadline.interrupting():
                above = None if best is None else _ratio(problem, best)
                times = least_times(Relaxation(problem), above)
    except OutOfTime:
        return assess(
            problem, best, None, said, method=backend, seconds=time.perf_counter() - began
        )
    known = least_ratio(times.tolist())
    while True:
        ratio = _ratio(problem, best)
        if best is not None and ratio == known:
            said = Termination.OPTIMAL
            break
        priced = PricedPausing.at(problem, ratio)
        # Whatever incumbent a priced program reports, pass on the best step so far.
        ours = assess(problem, best, known, Termination.TIME_LIMIT, method=backend)

        def told(_: Any, ours: PausingResult = ours) -> PausingResult:
            return ours

        watched = deadline.mapped(told)
        found = PricedProgram(priced, times).solved(backend, SolveLimits(watched, seed), best)
        rounds, compile_s = rounds + 1, compile_s + found.compile_seconds
        report, said = {"solver": found.solver, "proof": found.proof}, found.termination
        if found.solution is not None and not found.violations:
            step = found.solution
            if best is None or _ratio(problem, step) < ratio:
                best = step
                if not deadline.is_over:
                    continue
        if found.bound is not None and found.bound_kind is BoundKind.INTEGER:
            # T >= (p·n + bound)/q for n tokens, n at least 1.
            least = ratio + Fraction(min(0, found.bound), priced.time_price)
            known = least if known is None else max(known, least)
        break
    return assess(
        problem,
        best,
        known,
        said,
        method=backend,
        rounds=rounds,
        seconds=time.perf_counter() - began - compile_s,
        compile_seconds=compile_s,
        **report,
    )


def solve_by(
    problem: PausingProblem,
    method: str,
    *,
    time_limit: TimeLimit = None,
    seed: int = 0,
    own: Mapping[str, Callable[[], PausingResult]] | None = None,
) -> PausingResult:
    """Solve by a backend, by enumeration, by one of the methods in ``own``, or bound by ``lp``.

    Raises
    ------
    InputError
        If the method is unknown, or the seed no integer from 0 to 2^31 - 1.
    CapabilityError
        If the problem is too large for a backend or for enumeration.
    """
    PausingProgram.check_problem(problem)
    integer(seed, "seed", maximum=2**31 - 1)

    def enumerated() -> PausingResult:
        began = time.perf_counter()
        try:
            with Deadline.of(time_limit).interrupting():
                best = brute_force(problem)
        except OutOfTime:
            late: dict[str, Any] = {"seconds": time.perf_counter() - began}
            late |= {"method": "brute-force"}
            return assess(problem, None, None, Termination.TIME_LIMIT, **late)
        report: dict[str, Any] = {"seconds": time.perf_counter() - began, "solver": own_solver()}
        report |= {"method": "brute-force", "proof": "enumeration of all solutions"}
        if best is None:
            return assess(problem, None, None, Termination.INFEASIBLE, **report)
        ratio, solution = Fraction(*best[0]), best[1]
        return assess(problem, solution, ratio, Termination.OPTIMAL, **report)

    def relaxed() -> PausingResult:
        return PausingProgram(problem).relaxed(time_limit)

    methods = {"brute-force": enumerated, "lp": relaxed} | dict(own or {})
    check_method(method, tuple(methods))
    if method in methods:
        return methods[method]()
    return solve(problem, backend=method, time_limit=time_limit, seed=seed)


def assess(
    problem: PausingProblem,
    solution: Solution | None,
    bound: Fraction | None,
    said: Termination = Termination.FEASIBLE,
    *,
    proof: str | None = None,
    **report: Any,
) -> PausingResult:
    """Check a step against a lower bound on the time per token, and return the result.

    The result is optimal only if checker and bound prove it.

    Parameters
    ----------
    problem : PausingProblem
        Data.
    solution : tuple of (runs, assignment), optional
        The step to check.
    bound : Fraction, optional
        Lower bound on units of time per token, derived in integers.
    said : Termination
        The termination that the source of the step claims.
    proof : str, optional
        The argument that proves the bound or infeasibility.
    report
        Other fields of the result: ``method``, run times and solver details.
    """
    result = PausingResult(problem=problem, termination=said, **report)
    if solution is None:
        infeasible = said is Termination.INFEASIBLE
        said = said if infeasible or said is Termination.TIME_LIMIT else Termination.FAILED
        exact = None if infeasible or bound is None else bound / problem.scale
        return replace(result, termination=said, bound=exact, proof=proof if infeasible else None)
    broken = violations(problem, *solution)
    duration, tokens = time_and_tokens(problem, *solution)
    proven = not broken and bound is not None and Fraction(duration, tokens) <= bound
    return replace(
        result,
        termination=trusted_termination(said, proven=proven, broken=bool(broken)),
        time=duration,
        tokens=tokens,
        bound=None if bound is None else bound / problem.scale,
        runs=tuple(solution[0]),
        assignment=tuple(solution[1]),
        violations=broken,
        proof=(proof or COMBINATORIAL) if proven else None,
    )


def _ratio(problem: PausingProblem, solution: Solution | None) -> Fraction:
    """Return the units of time per token of a step; without a step, an upper bound on them."""
    if solution is None:
        return Fraction(max(1, longest_step(problem)))
    return Fraction(*time_and_tokens(problem, *solution))
