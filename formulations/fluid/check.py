"""The checkers of the fluid programs, independent of the solvers.

All amounts are exact; an empty mapping means no violation.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from formulations.fluid.problem import (
    FluidObjective,
    FluidProblem,
    ServiceLimits,
    equilibrium,
)
from formulations.problem_data import member

_ZERO = Fraction(0)
#: ``routing[j][g]``: rate of class j on worker g [1/s].
Routing = Sequence[Sequence[Fraction]]


def throughput_of(problem: FluidProblem, routing: Routing, objective: FluidObjective) -> Fraction:
    """Return the throughput of a routing, in stages or decode tokens per second."""
    objective = member(FluidObjective, objective, "objective")
    rows = zip(problem.classes, routing, strict=True)
    return sum((objective.worth(kind) * sum(row, _ZERO) for kind, row in rows), _ZERO)


def work_of(problem: FluidProblem, routing: Routing) -> tuple[Fraction, ...]:
    """Return the work rate that a routing puts on each worker [token-iterations/s]."""
    return tuple(
        sum((k.work * row[g] for k, row in zip(problem.classes, routing, strict=True)), _ZERO)
        for g in range(len(problem.workers))
    )


def admission_violations(
    problem: FluidProblem,
    routing: Routing,
    value: Fraction | None = None,
    objective: FluidObjective = FluidObjective.STAGES,
) -> dict[str, Fraction]:
    """Return each violated constraint of the throughput program and the amount.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    routing : sequence of sequences of Fraction
        Shape (m, G): admitted rates [1/s].
    value : Fraction, optional
        Claimed throughput, compared with the recomputed one.
    objective : FluidObjective
        Unit of the value: stages or decode tokens.
    """
    violated = _routes(problem, routing)
    for j, (kind, row) in enumerate(zip(problem.classes, routing, strict=True)):
        if (excess := sum(row, _ZERO) - kind.rate) > 0:
            violated[f"rate[{j}]"] = excess
    violated |= _overwork(problem, routing)
    if value is not None and (error := abs(value - throughput_of(problem, routing, objective))):
        violated["objective"] = error
    return violated


def admission_price_violations(
    problem: FluidProblem,
    work_prices: Sequence[Fraction],
    rate_prices: Sequence[Fraction],
    objective: FluidObjective = FluidObjective.STAGES,
) -> dict[str, Fraction]:
    """Return the violations of dual feasibility of the throughput program, and the amounts."""
    objective = member(FluidObjective, objective, "objective")
    violated = {f"work[{g}]": -p for g, p in enumerate(work_prices) if p < 0}
    violated |= {f"rate[{j}]": -u for j, u in enumerate(rate_prices) if u < 0}
    for j, kind in enumerate(problem.classes):
        for g, price in enumerate(work_prices):
            missing = objective.worth(kind) - rate_prices[j] - kind.work * price
            if kind.may_use(g) and missing > 0:
                violated[f"x[{j},{g}]"] = missing
    return violated


def admission_bound(
    problem: FluidProblem, work_prices: Sequence[Fraction], rate_prices: Sequence[Fraction]
) -> Fraction:
    """Return ``Σ λ_j u_j + Σ K_g p_g``, an upper bound on the throughput for feasible prices."""
    rates = zip(problem.classes, rate_prices, strict=True)
    works = zip(problem.workers, work_prices, strict=True)
    return sum((k.rate * u for k, u in rates), _ZERO) + sum(
        (w.capacity * p for w, p in works), _ZERO
    )


def margin_violations(
    problem: FluidProblem, routing: Routing, margin: Fraction
) -> dict[str, Fraction]:
    """Return each constraint of the margin program that is violated, and the amount."""
    violated = _routes(problem, routing)
    for j, (kind, row) in enumerate(zip(problem.classes, routing, strict=True)):
        if (missing := margin * kind.rate - sum(row, _ZERO)) > 0:
            violated[f"routed[{j}]"] = missing
    return violated | _overwork(problem, routing)


def margin_bound(problem: FluidProblem, work_prices: Sequence[Fraction]) -> Fraction | None:
    """Return ``Σ K_g p_g / Σ λ_j w_j min_g p_g``, an upper bound on the margin.

    The minimum is over the workers that may serve class j. The result is None if a price is
    negative or the denominator is 0, because such prices prove nothing.
    """
    if any(p < 0 for p in work_prices):
        return None
    paid = sum(
        (
            kind.rate * kind.work * min(p for g, p in enumerate(work_prices) if kind.may_use(g))
            for kind in problem.classes
        ),
        _ZERO,
    )
    earned = sum(
        (w.capacity * p for w, p in zip(problem.workers, work_prices, strict=True)), _ZERO
    )
    return None if paid == 0 else earned / paid


def limited_violations(
    problem: FluidProblem,
    rates: Sequence[Fraction],
    limits: ServiceLimits,
    value: Fraction | None = None,
    objective: FluidObjective = FluidObjective.STAGES,
) -> dict[str, Fraction]:
    """Return the violations of the throughput program under service limits, and the amounts.

    Latency comes from Little's law: the mean number of requests in the system, waiting ones
    included, divided by their rate. See `ServiceLimits` for the hypotheses.

    Parameters
    ----------
    problem : FluidProblem
        Data, with one worker.
    rates : sequence of Fraction
        Length m: admitted rates [1/s].
    limits : ServiceLimits
        Limits for every admitted class.
    value, objective
        See `admission_violations`.
    """
    violated = admission_violations(problem, [(x,) for x in rates], value, objective)
    if violated:
        return violated
    state = equilibrium(problem.classes, problem.single_worker(), rates)
    for j, (kind, x) in enumerate(zip(problem.classes, rates, strict=True)):
        if x == 0:
            continue
        waiting = x * state.iteration_time / 2
        latency = (state.active[j] + waiting) / x
        after_first = max(0, kind.output - 1) * state.iteration_time
        measured = {"latency": latency, "ttft": latency - after_first}
        for name, amount in measured.items():
            limit = getattr(limits, name)
            if limit is not None and amount > limit:
                violated[f"{name}[{j}]"] = amount - limit
    return violated


def limited_bound(
    problem: FluidProblem,
    limits: ServiceLimits,
    prices: Mapping[Fraction, Fraction],
    objective: FluidObjective = FluidObjective.STAGES,
) -> Fraction | None:
    """Return an upper bound on the throughput under service limits that work prices prove.

    The admitted classes need some iteration rate s, the largest of theirs. They do then at most
    ``K(s)`` work per second, so that their throughput is at most
    ``K(s) p + Σ_j λ_j max(0, v_j − w_j p)`` for any price ``p >= 0``, the sum over the classes
    that need s or less. The bound is the largest of these values.

    Parameters
    ----------
    problem, limits, objective
        See `limited_violations`.
    prices : mapping
        Price p of work for each iteration rate s that a class needs and the worker reaches
        [throughput per token-iteration/s].

    Returns
    -------
    Fraction, optional
        None if a price is missing or negative.
    """
    objective = member(FluidObjective, objective, "objective")
    worker, bound = problem.single_worker(), _ZERO
    needs = [limits.iteration_rate(kind) for kind in problem.classes]
    for s in set(needs):
        capacity, price = worker.capacity_at(s), prices.get(s)
        if capacity is None:
            continue
        if price is None or price < 0:
            return None
        gains = (
            kind.rate * max(_ZERO, objective.worth(kind) - kind.work * price)
            for kind, need in zip(problem.classes, needs, strict=True)
            if need <= s
        )
        bound = max(bound, capacity * price + sum(gains, _ZERO))
    return bound


def _routes(problem: FluidProblem, routing: Routing) -> dict[str, Fraction]:
    """Return the negative rates, and the rates of classes on workers not open to them."""
    violated = {}
    for j, (kind, row) in enumerate(zip(problem.classes, routing, strict=True)):
        for g, rate in zip(range(len(problem.workers)), row, strict=True):
            if rate < 0 or (rate > 0 and not kind.may_use(g)):
                violated[f"x[{j},{g}]"] = abs(rate)
    return violated


def _overwork(problem: FluidProblem, routing: Routing) -> dict[str, Fraction]:
    pairs = zip(problem.workers, work_of(problem, routing), strict=True)
    return {
        f"work[{g}]": done - worker.capacity
        for g, (worker, done) in enumerate(pairs)
        if done > worker.capacity
    }
