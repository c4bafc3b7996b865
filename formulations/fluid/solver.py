"""Solve the fluid programs with a backend, and prove the results in exact rationals.

A result is optimal if the checker verifies that its point and its dual prices are feasible and
have equal values.

`knapsack` solves the throughput program in closed form if every class may use every worker. All
workers then form one knapsack of capacity ``K = Σ_g K_g``: if each class is split in proportion to
K_g, every row (2) of the program holds iff their sum holds. Classes are admitted by descending
density, the throughput per work: ``1/(l_j + l'_j/2)`` in stages, ``l'_j/w_j`` in decode tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

from formulations.deadline import TimeLimit
from formulations.errors import CapabilityError
from formulations.fluid.check import (
    admission_bound,
    admission_price_violations,
    admission_violations,
    margin_bound,
    margin_violations,
    throughput_of,
)
from formulations.fluid.problem import FluidObjective, FluidProblem, RequestClass, equilibrium
from formulations.linear import is_optimal_pair
from formulations.linear_program import LinearProgram, LinearSolve
from formulations.problem_data import member
from formulations.results import BoundKind, Solved, Termination, fields_frame, own_solver
from formulations.scalars import plain_number, truth
from formulations.words import Words

_ZERO = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class FluidResult(Solved):
    """The result of a fluid program: termination, exact value and exact bound (None if missing).

    The counterpart of `formulations.results.ProgramResult` for continuous programs, whose values
    are fractions. "Optimal" means that the value, recomputed in rationals, equals a bound proven
    by dual prices in rationals.

    Parameters
    ----------
    value, bound : Fraction, optional
        Objective of the exact point, and dual objective of the exact prices.
    claimed : float, optional
        The objective as a floating-point solver reported it.
    violations : mapping
        Violations found by the checker.
    pivots : int
        Exact pivots after the solver's vertex.
    """

    value: Fraction | None = None
    bound: Fraction | None = None
    claimed: float | None = None
    violations: Mapping[str, Fraction] = field(default_factory=dict)
    pivots: int = 0

    def __post_init__(self) -> None:
        """Refuse a result that contradicts itself."""
        if self.is_optimal and (self.value is None or self.value != self.bound or self.violations):
            raise ValueError("an optimal result needs a feasible point and an equal exact bound")

    def to_frame(self) -> Any:
        """Return the result as a pandas data frame, one row per class (or one row of numbers)."""
        return fields_frame(self)

    def summary(self) -> str:
        """Return outcome, value and bound as a few lines of text."""
        facts = ", ".join(f"{name} {text}" for name, text in self._facts().items())
        lines = [f"{self.method}: {self.status}, {facts}", self.origin()]
        return "\n".join(lines + [f"violated: {n} by {by}" for n, by in self.violations.items()])

    def to_mapping(self) -> dict[str, object]:
        """Return outcome, value and bound as a JSON document."""
        return {
            "method": self.method,
            "termination": self.termination.value,
            "value": plain_number(self.value),
            "bound": plain_number(self.bound),
            "violations": {name: str(amount) for name, amount in self.violations.items()},
            "seconds": self.seconds,
            "solver": dict(self.solver),
            "proof": self.proof,
        }

    @property
    def bound_kind(self) -> BoundKind:
        """INTEGER, since every bound is exact; FLOAT if there is no bound."""
        return BoundKind.FLOAT if self.bound is None else BoundKind.INTEGER


@dataclass(frozen=True, kw_only=True)
class EquilibriumResult(FluidResult):
    """The result of the equilibrium program; the value is the memory [tokens].

    Parameters
    ----------
    per_stage : tuple of Fraction, optional
        Requests of each class in each of its stages; None if the load has no equilibrium.
    iteration_time : Fraction, optional
        ``ΔT*`` [s].
    farkas : mapping, optional
        Row name to multiplier: a Farkas certificate that there is no equilibrium.
    fits : bool, optional
        Whether the worker's memory holds the equilibrium; None if there is none.
    """

    solution_fields = ("per_stage", "iteration_time")

    per_stage: tuple[Fraction, ...] | None = None
    iteration_time: Fraction | None = None
    farkas: Mapping[str, Fraction] | None = None
    fits: bool | None = None

    def _facts(self) -> dict[str, str]:
        told = "none" if self.fits is None else "fits" if self.fits else "exceeds the memory"
        return {"equilibrium": told} | super()._facts()


@dataclass(frozen=True, kw_only=True)
class AdmissionResult(FluidResult):
    """The result of the throughput program; the value is in stages or decode tokens per second.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    objective : FluidObjective
        Unit of the value.
    routing : tuple of tuple of Fraction
        Shape (m, G): admitted rates [1/s].
    work_prices : tuple of Fraction
        Length G: throughput gained per additional unit of work per second.
    rate_prices : tuple of Fraction
        Length m: throughput gained per additional request per second of a class.
    work_prices_below : tuple of Fraction, optional
        Throughput lost per unit of work removed, if known; it differs from `work_prices` at a kink
        of the throughput. Without it, prices are the duals of a linear program, which at a kink
        may lie anywhere between gain and loss.
    """

    solution_fields = ("routing",)

    problem: FluidProblem
    objective: FluidObjective
    routing: tuple[tuple[Fraction, ...], ...]
    work_prices: tuple[Fraction, ...]
    rate_prices: tuple[Fraction, ...]
    work_prices_below: tuple[Fraction, ...] | None = None

    @property
    def proving_prices(self) -> tuple[Fraction, ...]:
        """Prices of work that prove the optimum together with `rate_prices`."""
        return _proving(self.work_prices, self.work_prices_below)

    @property
    def admitted(self) -> tuple[Fraction, ...]:
        """``x_j``: admitted rate of each class [1/s]."""
        return tuple(sum(row, _ZERO) for row in self.routing)

    @property
    def fractions(self) -> tuple[Fraction, ...]:
        """Admitted share of each class, 0 to 1."""
        pairs = zip(self.admitted, self.problem.classes, strict=True)
        return tuple(x / kind.rate for x, kind in pairs)

    @property
    def memory_prices(self) -> tuple[Fraction, ...]:
        """Throughput that one more token of each worker's memory adds [1/(token s)]."""
        return self._per_token(self.work_prices)

    @property
    def memory_prices_below(self) -> tuple[Fraction, ...] | None:
        """Throughput lost per token of memory removed [1/(token s)], if known."""
        below = self.work_prices_below
        return None if below is None else self._per_token(below)

    def _per_token(self, prices: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        pairs = zip(prices, self.problem.workers, strict=True)
        return tuple(price * worker.capacity_per_token for price, worker in pairs)


@dataclass(frozen=True, kw_only=True)
class MarginResult(FluidResult):
    """The result of the margin program; the value is the largest common factor on all rates.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    routing : tuple of tuple of Fraction
        Shape (m, G): rates at the margin [1/s].
    work_prices : tuple of Fraction
        Length G: prices that prove no larger margin exists.
    """

    solution_fields = ("routing",)

    problem: FluidProblem
    routing: tuple[tuple[Fraction, ...], ...]
    work_prices: tuple[Fraction, ...]

    @property
    def is_stable(self) -> bool:
        """Whether the rates are in the stability region: the workers' memory suffices."""
        return self.value is not None and self.value >= 1

    @property
    def is_critical(self) -> bool:
        """Whether the rates are on the boundary, where queues grow as the square root of time."""
        return self.value == 1

    @property
    def balanced_routing(self) -> tuple[tuple[Fraction, ...], ...]:
        """The routing at the margin, scaled so that each class has its own rate.

        The work of each worker is at most ``1/margin`` times its capacity.
        """
        # The program may route more of a class than the margin requires, hence one factor each.
        factors = [
            kind.rate / sum(row, _ZERO)
            for kind, row in zip(self.problem.classes, self.routing, strict=True)
        ]
        return tuple(
            tuple(factor * rate for rate in row)
            for factor, row in zip(factors, self.routing, strict=True)
        )


F = TypeVar("F", bound="FluidResult")
#: Text for the proof of these results.
DUALITY = "linear-programming duality, in fractions"
Rates = tuple[tuple[Fraction, ...], ...]
Prices = tuple[Fraction, ...]


def proven_result(
    kind: type[F],
    value: Fraction,
    bound: Fraction | None,
    violations: Mapping[str, Fraction],
    **fields: Any,
) -> F:
    """Return a result, optimal if there is no violation and the value equals the bound."""
    proven = value == bound and not violations
    return kind(
        termination=Termination.OPTIMAL if proven else Termination.FAILED,
        proof=DUALITY if proven else None,
        value=value,
        bound=bound,
        violations=violations,
        **fields,
    )


def admission_result(
    problem: FluidProblem,
    objective: FluidObjective,
    routing: Rates,
    work_prices: Prices,
    rate_prices: Prices,
    stated_value: Fraction | None = None,
    work_prices_below: Prices | None = None,
    **report: Any,
) -> AdmissionResult:
    """Return the result of the throughput program for a routing and dual prices.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    objective : FluidObjective
        Unit of the value.
    routing : tuple of tuple of Fraction
        Shape (m, G): admitted rates [1/s].
    work_prices, rate_prices, work_prices_below : tuple of Fraction
        Dual prices, lengths G, m and G, see `AdmissionResult`.
    stated_value : Fraction, optional
        Objective of the stated program, which the checker compares.
    report
        Other fields of the result: ``method`` and solver details.
    """
    value = throughput_of(problem, routing, objective)
    proving = _proving(work_prices, work_prices_below)
    bound = admission_bound(problem, proving, rate_prices)
    violated = admission_violations(problem, routing, stated_value, objective)
    violated |= admission_price_violations(problem, proving, rate_prices, objective)
    return proven_result(
        AdmissionResult,
        value,
        bound,
        violated,
        problem=problem,
        objective=objective,
        routing=routing,
        work_prices=work_prices,
        rate_prices=rate_prices,
        work_prices_below=work_prices_below,
        **report,
    )


def _proving(above: Prices, below: Prices | None) -> Prices:
    """Return the prices of work that are dual to the gains by more requests."""
    return above if below is None else below


def margin_result(
    problem: FluidProblem, routing: Rates, work_prices: Prices, value: Fraction, **report: Any
) -> MarginResult:
    """Return the result of the margin program; ``value`` is the margin."""
    return proven_result(
        MarginResult,
        value,
        margin_bound(problem, work_prices),
        margin_violations(problem, routing, value),
        problem=problem,
        routing=routing,
        work_prices=work_prices,
        **report,
    )


def knapsack(
    problem: FluidProblem, *, objective: FluidObjective = FluidObjective.STAGES
) -> AdmissionResult:
    """Solve the throughput program as a fractional knapsack; ties go to the first class.

    Raises
    ------
    CapabilityError
        If a class may not use every worker.
    """
    objective = member(FluidObjective, objective, "objective")
    if not problem.is_pooled:
        raise CapabilityError(
            "classes", "a class may not use every worker", "solve the linear program (highs)"
        )
    total = sum((worker.capacity for worker in problem.workers), _ZERO)
    admitted, above, below = fill(problem.classes, total, objective)
    shares = [worker.capacity / total for worker in problem.workers]
    everywhere = len(problem.workers)
    return admission_result(
        problem,
        objective,
        tuple(tuple(x * share for share in shares) for x in admitted),
        (above,) * everywhere,
        # Where the capacity is full, a request more displaces work of the least density.
        tuple(max(_ZERO, objective.worth(k) - k.work * below) for k in problem.classes),
        work_prices_below=(below,) * everywhere,
        method="knapsack",
        solver=own_solver(),
    )


def fill(
    classes: Sequence[RequestClass], capacity: Fraction, objective: FluidObjective
) -> tuple[list[Fraction], Fraction, Fraction]:
    """Admit classes by descending throughput per work up to a capacity [token-iterations/s].

    Returns
    -------
    tuple of (list of Fraction, Fraction, Fraction)
        Admitted rates [1/s]; throughput gained by one more unit of work, and lost by one less.
    """
    density = [Fraction(objective.worth(kind), kind.work) for kind in classes]
    order = sorted(range(len(density)), key=lambda j: (-density[j], j))
    admitted, left = [_ZERO] * len(order), capacity
    below = _ZERO
    for j in order:
        kind = classes[j]
        admitted[j] = min(kind.rate, left / kind.work)
        left -= admitted[j] * kind.work
        if left == 0:
            below = density[j]
            break
    # One more unit of work goes to the densest class that is not admitted in full.
    above = next((density[j] for j in order if admitted[j] < classes[j].rate), _ZERO)
    return admitted, above, below


def _rates(problem: FluidProblem, solve: LinearSolve) -> Rates:
    return tuple(
        tuple(solve.values.get(f"x[{j},{g}]", _ZERO) for g in range(len(problem.workers)))
        for j in range(len(problem.classes))
    )


def _work_prices(problem: FluidProblem, solve: LinearSolve) -> Prices:
    return tuple(solve.prices.get(f"work[{g}]", _ZERO) for g in range(len(problem.workers)))


_SOURCE = "fluid paper (arXiv:2504.11320)"
_ROUTES = {"x": "x(j,g) = rate of class j that worker g serves [1/s]"}
_WORK = "worker {0} does {by} more work per second than full memory allows"

_THROUGHPUT = Words(
    title="the memory-constrained throughput program",
    source=f"{_SOURCE}, throughput (8) under limited memory; it states no linear program",
    objective="the negative of the throughput [stages/s, or decode tokens/s]",
    variables=_ROUTES,
    broken={"rate": "class {0} is admitted at {by} requests/s more than arrive", "work": _WORK},
)
_MARGIN = Words(
    title="the capacity margin of several workers",
    source=f"{_SOURCE}, equation (1), for several workers; it states no linear program",
    objective="the negative of the common factor on all rates that the workers can serve",
    variables=_ROUTES | {"margin": "margin = the common factor on all rates"},
    broken={"routed": "class {0} lacks {by} requests/s of its share", "work": _WORK},
)
_EQUILIBRIUM = Words(
    title="the fluid equilibrium of one worker",
    source=f"{_SOURCE}, equations (1), (6) and (7)",
    objective="memory in equilibrium [tokens]",
    variables={
        "count": "count(j) = requests of class j in each of its stages",
        "time": "time = length of an iteration [s]",
    },
    broken={
        "served": "class {0}: {by} requests too few in each stage for its rate",
        "duration": "an iteration is {by} s shorter than its tokens take",
    },
)

#: Meaning of the dual prices of each family of rows.
_PRICES = {
    "rate": "rate(j): throughput that one more request per second of class j adds",
    "work": "work(g): value that one more unit of work per second of worker g adds "
    "[token-iterations/s]",
    "routed": "routed(j): margin that one more request per second of class j costs, negative",
    "served": "served(j): memory that one more request of class j per stage costs",
    "duration": "duration: memory that one more second of every iteration costs",
}


class EquilibriumProgram(LinearProgram[FluidProblem, EquilibriumResult]):
    """The equilibrium program of one worker.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    within_memory : bool
        Whether the memory is a constraint; otherwise only the load limits.
    """

    words, prices, maximised = _EQUILIBRIUM, _PRICES, False

    def __init__(self, problem: FluidProblem, *, within_memory: bool = False) -> None:
        super().__init__(problem)
        self.within_memory = truth(within_memory, "within_memory")

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.fluid.programs import build_equilibrium

        return build_equilibrium(self.problem, within_memory=self.within_memory)

    def violations(
        self, solution: tuple[Prices, Fraction], value: Fraction | None = None
    ) -> dict[str, Fraction]:
        """Return each constraint that requests per stage and an iteration time violate."""
        counts, time = solution
        classes = range(len(self.problem.classes))
        point = {f"count[{j}]": count for j, count in zip(classes, counts, strict=True)}
        point["time"] = time
        values = tuple(point[name] for name in self.linear.columns)
        violated = self.linear.primal_violations(values)
        if value is not None and (error := abs(value + self.linear.value(values))):
            violated["objective"] = error
        return violated

    def concluded(self, solve: LinearSolve) -> EquilibriumResult:
        """Return the checked result; without a point, with the proof that there is none."""
        linear, vertex, values = self.linear, solve.vertex, solve.values
        if vertex.point is None:
            proven = linear.proves_infeasible(vertex.prices)
            return EquilibriumResult(
                **solve.report(),
                termination=Termination.INFEASIBLE if proven else Termination.FAILED,
                farkas=solve.prices,
                proof="a Farkas certificate, in fractions" if proven else None,
            )
        proven = is_optimal_pair(linear, vertex.point, vertex.prices)
        return EquilibriumResult(
            **solve.report(),
            termination=Termination.OPTIMAL if proven else Termination.FAILED,
            value=-linear.value(vertex.point),
            bound=-linear.dual_value(vertex.prices),
            claimed=solve.claimed(),
            violations=linear.primal_violations(vertex.point),
            per_stage=tuple(values[f"count[{j}]"] for j in range(len(self.problem.classes))),
            iteration_time=values["time"],
            fits=-linear.value(vertex.point) <= self.problem.single_worker().memory,
            proof=DUALITY if proven else None,
        )


class ThroughputProgram(LinearProgram[FluidProblem, AdmissionResult]):
    """The memory-constrained throughput program.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    objective : FluidObjective
        The throughput to maximise.
    """

    words, prices = _THROUGHPUT, _PRICES

    def __init__(
        self, problem: FluidProblem, *, objective: FluidObjective = FluidObjective.STAGES
    ) -> None:
        super().__init__(problem)
        self.objective = member(FluidObjective, objective, "objective")

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.fluid.programs import build_throughput

        return build_throughput(self.problem, objective=self.objective)

    def violations(self, solution: Rates, value: Fraction | None = None) -> dict[str, Fraction]:
        """Return each constraint that a routing violates, and the amount."""
        return admission_violations(self.problem, solution, value, self.objective)

    def closed_form(self) -> AdmissionResult | None:
        """Return the `knapsack`, if every class may use every worker."""
        return knapsack(self.problem, objective=self.objective) if self.problem.is_pooled else None

    def concluded(self, solve: LinearSolve) -> AdmissionResult:
        """Return the checked result for the exact optimum."""
        prices = solve.prices
        return admission_result(
            self.problem,
            self.objective,
            _rates(self.problem, solve),
            _work_prices(self.problem, solve),
            tuple(prices[f"rate[{j}]"] for j in range(len(self.problem.classes))),
            stated_value=solve.linear.value(tuple(solve.values.values())),
            claimed=solve.claimed(-1),
            **solve.report(),
        )


class MarginProgram(LinearProgram[FluidProblem, MarginResult]):
    """The margin program: the largest common factor on all rates that the workers can serve."""

    words, prices = _MARGIN, _PRICES

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.fluid.programs import build_margin

        return build_margin(self.problem)

    def violations(self, solution: Rates, value: Fraction | None = None) -> dict[str, Fraction]:
        """Return each constraint that a routing violates at a margin (default 0)."""
        return margin_violations(self.problem, solution, value or _ZERO)

    def closed_form(self) -> MarginResult | None:
        """Return the margin ``Σ_g K_g / A``, if every class may use every worker."""
        problem, workers = self.problem, self.problem.workers
        if not problem.is_pooled:
            return None
        # Every class is split in proportion to the workers' capacities.
        work = problem.work_rate
        routing = tuple(
            tuple(kind.rate * worker.capacity / work for worker in workers)
            for kind in problem.classes
        )
        margin = sum((worker.capacity for worker in workers), _ZERO) / work
        report = {"method": "closed-form", "solver": own_solver()}
        return margin_result(problem, routing, (1 / work,) * len(workers), margin, **report)

    def concluded(self, solve: LinearSolve) -> MarginResult:
        """Return the checked result for the exact optimum."""
        return margin_result(
            self.problem,
            _rates(self.problem, solve),
            _work_prices(self.problem, solve),
            solve.values["margin"],
            claimed=solve.claimed(-1),
            **solve.report(),
        )


def solve_equilibrium(
    problem: FluidProblem,
    *,
    backend: str = "highs",
    within_memory: bool = False,
    time_limit: TimeLimit = None,
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
        See `EquilibriumProgram`.
    time_limit : float or Deadline, optional
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
    program = EquilibriumProgram(problem, within_memory=within_memory)
    return program.solved(backend, time_limit, seed)


def solve_throughput(
    problem: FluidProblem,
    *,
    objective: FluidObjective = FluidObjective.STAGES,
    backend: str = "highs",
    time_limit: TimeLimit = None,
    seed: int = 0,
) -> AdmissionResult:
    """Solve the memory-constrained throughput program; see `knapsack` for a closed form.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    objective : FluidObjective
        The throughput to maximise.
    backend : str
        ``highs``, ``pyomo``, ``pyomo:SOLVER``, or ``exact``: `knapsack` if every class may use
        every worker, else ``highs``.
    time_limit, seed
        See `solve_equilibrium`. The knapsack needs neither.

    Raises
    ------
    InputError, CapabilityError
        As `solve_equilibrium`.
    """
    return ThroughputProgram(problem, objective=objective).solved(backend, time_limit, seed)


def solve_margin(
    problem: FluidProblem,
    *,
    backend: str = "exact",
    time_limit: TimeLimit = None,
    seed: int = 0,
) -> MarginResult:
    """Return the largest common factor on all rates that the workers can serve.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    backend : str
        ``highs``, ``pyomo``, ``pyomo:SOLVER``, or ``exact``: the closed form ``Σ_g K_g / A`` if
        every class may use every worker, else ``highs``.
    time_limit, seed
        See `solve_equilibrium`. The closed form needs neither.

    Raises
    ------
    InputError, CapabilityError
        As `solve_equilibrium`.
    """
    return MarginProgram.solve_by(problem, backend, time_limit=time_limit, seed=seed)


def fluid_answer(
    problem: FluidProblem, objective: FluidObjective = FluidObjective.STAGES
) -> dict[str, Any]:
    """Return equilibrium, stability and throughput of a fluid problem as a JSON document.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    objective : FluidObjective
        The throughput that admission maximises if the load does not fit.

    Returns
    -------
    dict
        See docs/fluid.md. ``feasible``: whether the whole load has an equilibrium within the
        memory. ``verdict``: the reason if not, ``memory-limited``, or ``unstable`` for a load of
        1 or more. ``notes``: effects that the numbers do not cover.
    """
    objective = member(FluidObjective, objective, "objective")
    margin = solve_margin(problem)
    admission = solve_throughput(problem, objective=objective, backend="exact")
    # If the whole load is admitted, report the routing with equal slack on all workers.
    routing = margin.balanced_routing if margin.is_stable else admission.routing
    states = [
        equilibrium(problem.classes, worker, [row[g] for row in routing])
        for g, worker in enumerate(problem.workers)
    ]
    held = sum((state.memory for state in states), Fraction(0))
    single = problem.workers[0] if len(problem.workers) == 1 else None
    # ``ρ = d1·A``, defined for one worker only.
    load = None if single is None else single.d1 * problem.work_rate
    # M* of the whole load; None if there is no equilibrium, or several workers cannot hold it.
    whole = held if margin.is_stable else None
    verdict = "critical" if margin.is_critical else "stable"
    if not margin.is_stable:
        verdict = "unstable" if load is not None and load >= 1 else "memory-limited"
        if single is not None and verdict == "memory-limited":
            whole = equilibrium(problem.classes, single).memory
    rates = [sum(row, Fraction(0)) for row in routing]
    exact = {
        "memory": held,
        "equilibrium_memory": whole,
        "iteration_time": max(state.iteration_time for state in states),
        "throughput": sum((state.throughput for state in states), Fraction(0)),
        "decode_throughput": sum((state.decode_throughput for state in states), Fraction(0)),
        "load": load,
        "margin": margin.value,
    }
    return {
        "feasible": margin.is_stable,
        "verdict": verdict,
        **{name: plain_number(value) for name, value in exact.items()},
        "objective": objective.value,
        "admitted": [
            plain_number(rate / kind.rate)
            for kind, rate in zip(problem.classes, rates, strict=True)
        ],
        "admitted_rates": [plain_number(rate) for rate in rates],
        "notes": oversized(problem),
        "duals": _duals(admission),
        "workers": [
            {
                "memory": plain_number(state.memory),
                "iteration_time": plain_number(state.iteration_time),
                "rates": [plain_number(row[g]) for row in routing],
                "margin_price": plain_number(margin.work_prices[g]),
            }
            for g, state in enumerate(states)
        ],
        "exact": {name: None if value is None else str(value) for name, value in exact.items()},
        "method": admission.method,
        "termination": admission.termination.value,
        "solver": dict(admission.solver),
        "proof": admission.proof,
        "violations": {name: str(amount) for name, amount in admission.violations.items()},
    }


def oversized(problem: FluidProblem) -> list[str]:
    """Return a note for each class whose requests exceed the memory of every worker.

    The fluid model counts mean memory, so it admits requests that no worker can complete.
    """
    notes = []
    for j, kind in enumerate(problem.classes):
        needed, open_to = kind.prompt + kind.output, kind.workers or range(len(problem.workers))
        largest = max(problem.workers[g].memory for g in open_to)
        if needed > largest:
            notes.append(
                f"class {j}: one request needs {needed:,} tokens at its end, more than the memory "
                f"of any worker open to it ({largest:,}): no engine can complete it, but the "
                "fluid model, which counts mean memory, admits it"
            )
    return notes


def _duals(admission: AdmissionResult) -> dict[str, Any]:
    below = admission.memory_prices_below
    answer = {
        "memory": [plain_number(price) for price in admission.memory_prices],
        "memory_below": None if below is None else [plain_number(price) for price in below],
        "work": [plain_number(price) for price in admission.work_prices],
        "rates": [plain_number(price) for price in admission.rate_prices],
    }
    if len(admission.work_prices) > 1:
        return answer
    # For one worker, report each price as a number instead of a list.
    single = {name: answer[name] for name in ("memory", "memory_below", "work")}
    return answer | {name: None if v is None else v[0] for name, v in single.items()}
