"""The JSON document that ``bfio fluid`` prints: all results of the fluid model for a load."""

from fractions import Fraction
from typing import Any

from formulations.fluid.equilibrium import equilibrium
from formulations.fluid.problem import FluidObjective, FluidProblem
from formulations.fluid.solver import (
    AdmissionResult,
    knapsack,
    solve_margin,
    solve_throughput,
)
from formulations.problem_data import member
from formulations.rationals import plain_number
from formulations.words import Words

_SOURCE = "fluid paper (arXiv:2504.11320)"
_ROUTES = {"x": "x(j,g) = rate of class j that worker g serves [1/s]"}
_WORK = "worker {0} does {by} more work per second than full memory allows"

THROUGHPUT = Words(
    title="the memory-constrained throughput program",
    source=f"{_SOURCE}, throughput (8) under limited memory; it states no linear program",
    objective="the negative of the throughput [stages/s, or decode tokens/s]",
    variables=_ROUTES,
    broken={"rate": "class {0} is admitted at {by} requests/s more than arrive", "work": _WORK},
)
MARGIN = Words(
    title="the capacity margin of several workers",
    source=f"{_SOURCE}, equation (1), for several workers; it states no linear program",
    objective="the negative of the common factor on all rates that the workers can serve",
    variables=_ROUTES | {"margin": "margin = the common factor on all rates"},
    broken={"routed": "class {0} lacks {by} requests/s of its share", "work": _WORK},
)
EQUILIBRIUM = Words(
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
PRICES = {
    "rate": "rate(j): throughput that one more request per second of class j adds",
    "work": "work(g): value that one more unit of work per second of worker g adds "
    "[token-iterations/s]",
    "routed": "routed(j): margin that one more request per second of class j costs, negative",
    "served": "served(j): memory that one more request of class j per stage costs",
    "duration": "duration: memory that one more second of every iteration costs",
}


def fluid_answer(
    problem: FluidProblem, objective: FluidObjective = FluidObjective.STAGES
) -> dict[str, Any]:
    """Return all results of the fluid model for a load, as a JSON document.

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
    pooled = problem.is_pooled
    admission = (
        knapsack(problem, objective=objective)
        if pooled
        else solve_throughput(problem, objective=objective)
    )
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
        "notes": _oversized(problem),
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


def _oversized(problem: FluidProblem) -> list[str]:
    """Return a note for each class whose requests exceed the memory of every worker.

    The model counts mean memory, so it admits requests that no engine can complete.
    """
    notes = []
    for j, kind in enumerate(problem.classes):
        needed, open_to = kind.prompt + kind.output, kind.workers or range(len(problem.workers))
        largest = max(problem.workers[g].memory for g in open_to)
        if needed > largest:
            notes.append(
                f"class {j}: one request needs {needed:,} tokens at its end, more than the memory "
                f"of any worker open to it ({largest:,}); the fluid model, which counts mean "
                "memory, does not see that no engine can complete it"
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
