"""Points and prices of the fluid programs put together: a result, optimal if they prove it.

The prices are of work and rates; what they prove is judged by the checker, whoever violated them.
"""

from fractions import Fraction
from typing import Any

from formulations.fluid.check import (
    admission_bound,
    admission_price_violations,
    admission_violations,
    margin_bound,
    margin_violations,
    throughput_of,
)
from formulations.fluid.objective import FluidObjective
from formulations.fluid.problem import FluidProblem
from formulations.fluid.result import AdmissionResult, MarginResult
from formulations.results import Termination

#: What proves these answers.
DUALITY = "linear-programming duality, in fractions"
Rates = tuple[tuple[Fraction, ...], ...]
Prices = tuple[Fraction, ...]


def admission_result(
    problem: FluidProblem,
    objective: FluidObjective,
    routing: Rates,
    work_prices: Prices,
    rate_prices: Prices,
    stated_value: Fraction | None = None,
    **report: Any,
) -> AdmissionResult:
    """Return the answer of the throughput program.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    objective : FluidObjective
        What the value counts.
    routing : tuple of tuple of Fraction
        Shape (m, G): admitted rates [1/s].
    work_prices, rate_prices : tuple of Fraction
        Lengths G and m.
    stated_value : Fraction, optional
        The value by the program's own statement, to be compared.
    report
        Other fields of the result: ``method`` and how the solve went.
    """
    value = throughput_of(problem, routing, objective)
    bound = admission_bound(problem, work_prices, rate_prices)
    violated = admission_violations(problem, routing, stated_value, objective)
    violated |= admission_price_violations(problem, work_prices, rate_prices, objective)
    termination = _termination(value, bound, violated)
    return AdmissionResult(
        termination=termination,
        proof=DUALITY if termination is Termination.OPTIMAL else None,
        value=value,
        bound=bound,
        violations=violated,
        problem=problem,
        objective=objective,
        routing=routing,
        work_prices=work_prices,
        rate_prices=rate_prices,
        **report,
    )


def margin_result(
    problem: FluidProblem, routing: Rates, work_prices: Prices, value: Fraction, **report: Any
) -> MarginResult:
    """Return the answer of the margin program, with the margin ``value``; see above."""
    bound = margin_bound(problem, work_prices)
    violated = margin_violations(problem, routing, value)
    termination = _termination(value, bound, violated)
    return MarginResult(
        termination=termination,
        proof=DUALITY if termination is Termination.OPTIMAL else None,
        value=value,
        bound=bound,
        violations=violated,
        problem=problem,
        routing=routing,
        work_prices=work_prices,
        **report,
    )


def _termination(
    value: Fraction, bound: Fraction | None, violated: dict[str, Fraction]
) -> Termination:
    return Termination.OPTIMAL if value == bound and not violated else Termination.FAILED
