"""The throughput program in closed form where every class may use every worker.

The works of all workers then form one knapsack of ``K = Σ_g K_g``: split each class in proportion
to K_g and every row (2) of the program holds iff their sum does. The densest classes go first:
worth per work is ``1/(l_j + l'_j/2)`` in stages, ``l'_j/w_j`` in decode tokens.
"""

from fractions import Fraction

from formulations.errors import CapabilityError
from formulations.fluid.objective import FluidObjective
from formulations.fluid.problem import FluidProblem
from formulations.fluid.proof import admission_result
from formulations.fluid.result import AdmissionResult
from formulations.problem_data import member
from formulations.results import own_solver

_ZERO = Fraction(0)


def knapsack(
    problem: FluidProblem, *, objective: FluidObjective = FluidObjective.STAGES
) -> AdmissionResult:
    """Solve the throughput program greedily; of equally dense classes the first comes first.

    Raises
    ------
    CapabilityError
        If a class may not use every worker.
    """
    objective = member(FluidObjective, objective, "objective")
    if not problem.is_pooled:
        raise CapabilityError(
            "classes", "not all may use every worker", "solve the linear program (highs)"
        )
    total = sum((worker.capacity for worker in problem.workers), _ZERO)
    density = [Fraction(objective.worth(kind), kind.work) for kind in problem.classes]
    order = sorted(range(len(density)), key=lambda j: (-density[j], j))
    admitted, left = [_ZERO] * len(order), total
    below = _ZERO
    for j in order:
        kind = problem.classes[j]
        admitted[j] = min(kind.rate, left / kind.work)
        left -= admitted[j] * kind.work
        if left == 0:
            below = density[j]
            break
    # One more unit of work goes to the densest class that is not admitted in full.
    above = next((density[j] for j in order if admitted[j] < problem.classes[j].rate), _ZERO)
    shares = [worker.capacity / total for worker in problem.workers]
    everywhere = len(problem.workers)
    return admission_result(
        problem,
        objective,
        tuple(tuple(x * share for share in shares) for x in admitted),
        (above,) * everywhere,
        tuple(max(_ZERO, objective.worth(k) - k.work * above) for k in problem.classes),
        work_prices_below=(below,) * everywhere,
        method="knapsack",
        solver=own_solver(),
    )
