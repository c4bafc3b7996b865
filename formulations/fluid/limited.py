"""Largest throughput of one worker under limits on latency and time to first token, exactly.

`formulations.fluid.programs` states the program, `ServiceLimits` its hypotheses. The admitted
classes need some iteration rate s; for each possible s the program is a fractional knapsack, so
the best of at most m knapsacks is optimal. The price of work in each knapsack proves it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from formulations.deadline import TimeLimit
from formulations.errors import CapabilityError
from formulations.fluid.check import limited_bound, limited_violations, throughput_of
from formulations.fluid.problem import (
    FluidObjective,
    FluidProblem,
    RequestClass,
    ServiceLimits,
    equilibrium,
)
from formulations.fluid.solver import FluidResult, fill, proven_result
from formulations.problem_data import member
from formulations.results import own_solver
from formulations.scalars import plain_number
from formulations.statement import Statement
from formulations.words import Words

_ZERO = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class LimitedResult(FluidResult):
    """The result of the limited throughput program; the value is in stages or tokens per second.

    Parameters
    ----------
    problem, limits, objective
        The arguments of the solve.
    admitted : tuple of Fraction
        Length m: admitted rates [1/s].
    work_prices : mapping
        Iteration rate s [1/s] to the price of work in its knapsack: the proof of optimality, for
        `limited_bound`.
    iteration_rate : Fraction
        The s of the best knapsack [1/s]: the iterations per second that its classes need.
    best : mapping
        Iteration rate s of each best knapsack to the throughput that one unit of work less loses.
        At a tie, the price of what more there is is the largest of theirs.
    """

    problem: FluidProblem
    limits: ServiceLimits
    objective: FluidObjective
    admitted: tuple[Fraction, ...]
    work_prices: Mapping[Fraction, Fraction]
    iteration_rate: Fraction
    best: Mapping[Fraction, Fraction]

    @property
    def iteration_time(self) -> Fraction:
        """``ΔT*`` of the admitted rates [s]."""
        worker = self.problem.single_worker()
        return equilibrium(self.problem.classes, worker, self.admitted).iteration_time

    @property
    def latencies(self) -> tuple[tuple[Fraction, Fraction] | None, ...]:
        """Mean latency and TTFT of each class [s]; None where nothing is admitted."""
        time = self.iteration_time
        latency, ttft = 0, 1
        counts = (self.limits.iterations(kind) for kind in self.problem.classes)
        return tuple(
            (row[latency][0] * time, row[ttft][0] * time) if x else None
            for x, row in zip(self.admitted, counts, strict=True)
        )

    @property
    def rate_prices(self) -> tuple[Fraction, ...]:
        """Throughput that one more request per second of each class adds."""
        worth, needs = self.objective.worth, self.limits.iteration_rate

        def gains(kind: RequestClass) -> Iterator[Fraction]:
            yield _ZERO
            for s, below in self.best.items():
                if needs(kind) <= s:
                    yield worth(kind) - kind.work * below

        return tuple(max(gains(kind)) for kind in self.problem.classes)

    @property
    def memory_price(self) -> Fraction:
        """Throughput that one more token of memory adds [1/(token s)]."""
        worker = self.problem.single_worker()
        # If memory and limits bind together, more of one of them adds nothing.
        prices = [
            self.work_prices[s]
            for s in self.best
            if (room := self._room(s)) is None or worker.capacity < room
        ]
        return max(prices, default=_ZERO) * worker.capacity_per_token

    @property
    def latency_price(self) -> Fraction:
        """Throughput that one more second of the latency limit adds [1/s²]."""
        return self._price_of(0)

    @property
    def ttft_price(self) -> Fraction:
        """Throughput that one more second of the TTFT limit adds [1/s²]."""
        return self._price_of(1)

    def _room(self, s: Fraction) -> Fraction | None:
        """``(1 − d0·s)/d1``, the largest work rate at iteration rate s; None if d1 = 0."""
        worker = self.problem.single_worker()
        return None if worker.d1 == 0 else (1 - worker.d0 * s) / worker.d1

    def _price_of(self, which: int) -> Fraction:
        """Return p·dK/dL of one limit L, by ``K = (1 − d0·s)/d1`` and ``s = number/L``."""
        worker, prices = self.problem.single_worker(), [_ZERO]
        for s in self.best:
            room = self._room(s)
            at_s = {
                (i, limit)
                for kind in self.problem.classes
                for i, (number, limit) in enumerate(self.limits.iterations(kind))
                if limit is not None and number / limit == s
            }
            # If both limits require s, more of one of them adds nothing.
            if room is not None and room < worker.capacity and [i for i, _ in at_s] == [which]:
                ((_, limit),) = at_s
                prices.append(self.work_prices[s] * worker.d0 * s / (worker.d1 * limit))
        return max(prices)


def solve_limited_throughput(
    problem: FluidProblem,
    *,
    latency: Fraction | None = None,
    ttft: Fraction | None = None,
    objective: FluidObjective = FluidObjective.STAGES,
) -> LimitedResult:
    """Return the largest throughput of one worker whose admitted classes meet service limits.

    Parameters
    ----------
    problem : FluidProblem
        Data, with one worker.
    latency, ttft : Fraction, optional
        Limits on the mean latency and time to first token of every admitted class [s]; exact, see
        `ServiceLimits`, which states the hypotheses.
    objective : FluidObjective
        The throughput to maximise.

    Returns
    -------
    LimitedResult
        Optimal, with rates and prices. If no class can meet the limits, all rates are 0.

    Raises
    ------
    InputError
        If a limit is not positive, or there are several workers.
    """
    objective = member(FluidObjective, objective, "objective")
    limits, worker = ServiceLimits(latency, ttft), problem.single_worker()
    needs = [limits.iteration_rate(kind) for kind in problem.classes]
    prices: dict[Fraction, Fraction] = {}
    # The knapsack of each s: throughput, rates, and what one unit of work less loses.
    filled: dict[Fraction, tuple[Fraction, tuple[Fraction, ...], Fraction]] = {}
    for s in sorted(set(needs)):
        if (capacity := worker.capacity_at(s)) is None:
            break
        kinds = [j for j, need in enumerate(needs) if need <= s]
        some, prices[s], below = fill([problem.classes[j] for j in kinds], capacity, objective)
        admitted = dict(zip(kinds, some, strict=True))
        rates = tuple(admitted.get(j, _ZERO) for j in range(len(needs)))
        value = throughput_of(problem, [(x,) for x in rates], objective)
        filled[s] = value, rates, below
    value = max((value for value, *_ in filled.values()), default=_ZERO)
    best = {s: below for s, (reached, _, below) in filled.items() if reached == value}
    # Ties go to the knapsack that admits more classes.
    s = max(best, default=_ZERO)
    rates = filled[s][1] if best else (_ZERO,) * len(needs)
    return proven_result(
        LimitedResult,
        value,
        limited_bound(problem, limits, prices, objective),
        limited_violations(problem, rates, limits, value, objective),
        problem=problem,
        limits=limits,
        objective=objective,
        admitted=rates,
        work_prices=prices,
        iteration_rate=s,
        best=best,
        method="knapsacks",
        solver=own_solver(),
    )


class LimitedProgram(Statement[FluidProblem]):
    """The throughput program of one worker under service limits, as files for other solvers.

    Parameters
    ----------
    problem : FluidProblem
        Data, with one worker.
    limits : ServiceLimits
        Limits on latency and TTFT [s].
    objective : FluidObjective
        The throughput to maximise.

    Raises
    ------
    InputError
        If there are several workers.
    """

    maximised, fractional = True, True
    units = 1
    words = Words(
        title="the throughput program of one worker under limits on latency and TTFT",
        source="fluid paper (arXiv:2504.11320), section 2.4",
        objective="the negative of the throughput [stages/s, or decode tokens/s]",
        variables={
            "x": "x(j) = admitted rate of class j [1/s]",
            "z": "z(j) = 1 if class j is admitted",
            "s": "s = iterations per second",
        },
        broken={
            "rate": "class {0} is admitted at {by} requests/s more than arrive, or not chosen",
            "time": "the iterations of one second take {by} s too long",
            "memory": "work per second exceeds the memory by {by} tokens/s",
            "limits": "class {0} lacks {by} iterations/s to stay within its limits",
            "choice": "z({0}) exceeds 1 by {by}",
        },
    )

    def __init__(
        self,
        problem: FluidProblem,
        limits: ServiceLimits,
        *,
        objective: FluidObjective = FluidObjective.STAGES,
    ) -> None:
        super().__init__(problem)
        problem.single_worker()
        self.limits, self.objective = limits, member(FluidObjective, objective, "objective")

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.fluid.programs import build_limited_throughput

        return build_limited_throughput(self.problem, self.limits, objective=self.objective)

    def violations(
        self, solution: Sequence[Fraction], value: Fraction | None = None
    ) -> Mapping[str, Fraction]:
        """Return each constraint that admitted rates, length m, violate, and the amount."""
        return limited_violations(self.problem, solution, self.limits, value, self.objective)

    def optimum_near(self, point: Sequence[Fraction]) -> tuple[Fraction | None, bool]:
        """Return the optimum, by the knapsacks; no point of the program is its vertex."""
        return self.solved().value, False

    def solved(
        self, method: str = "exact", time_limit: TimeLimit = None, seed: int = 0
    ) -> LimitedResult:
        """Return the exact optimum, see `solve_limited_throughput`; other methods are refused."""
        if method != "exact":
            what = f"{method} does not solve the limited program"
            raise CapabilityError("method", what, "use exact, or write it as a file")
        limits = self.limits
        return solve_limited_throughput(
            self.problem, latency=limits.latency, ttft=limits.ttft, objective=self.objective
        )


def limited_answer(result: LimitedResult) -> dict[str, Any]:
    """Return a result as a JSON document; see docs/fluid.md."""
    times = result.latencies
    return {
        "value": plain_number(result.value),
        "admitted_rates": [plain_number(rate) for rate in result.admitted],
        "iteration_time": plain_number(result.iteration_time),
        "latency": [None if t is None else plain_number(t[0]) for t in times],
        "ttft": [None if t is None else plain_number(t[1]) for t in times],
        "duals": {
            "latency": plain_number(result.latency_price),
            "ttft": plain_number(result.ttft_price),
            "memory": plain_number(result.memory_price),
            "rates": [plain_number(price) for price in result.rate_prices],
        },
        "exact": {
            "value": str(result.value),
            "admitted_rates": [str(rate) for rate in result.admitted],
        },
        "proof": result.proof,
    }
