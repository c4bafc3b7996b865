"""The linear programs of the fluid model, each stated once.

`build_equilibrium` states the fluid equilibrium of one worker.

Sets
    classes j = 0..m−1
Data (rationals)
    λ_j rate, w_j work of a request (`RequestClass.work`); d0, d1 times; C memory
Variables
    count[j] >= 0       requests of class j in each of its stages
    time >= 0           length of an iteration [s]
Objective
    memory              min Σ_j w_j count[j]
Constraints
    (1) served[j]       count[j] >= λ_j time         arrivals of an iteration = its completions
    (2) duration        time >= d0 + d1 Σ_j w_j count[j]                          equation (1)
    (3) within          Σ_j w_j count[j] <= C                        (only if memory is enforced)

With ``ρ = d1·Σ λ_j w_j < 1`` the optimum is unique and has equality in (1) and (2), which are the
balance equations: it is the closed form (6), (7). Summing (1) with the weights w_j and inserting
(2) gives ``(1 − ρ)·memory >= d0·A > 0``, so with ``ρ >= 1`` there is no feasible point.

It is the linear relaxation of the integer program of WAIT's thresholds
(`formulations.thresholds`), whose counts are integers. The paper states no linear program.

`build_throughput` states the memory-constrained throughput program.

Sets
    classes j = 0..m−1; workers g = 0..G−1; routes (j, g) with g open to j
Data (rationals)
    λ_j rate [1/s], w_j work of a request [token-iterations]
    v_j contribution of a request: l'_j + 1 stages, or l'_j decode tokens
    K_g = C_g / (d0_g + d1_g C_g), work a worker does per second with full memory
Variables
    x[j,g] >= 0         rate of class j that worker g admits [1/s]
Objective
    throughput          max Σ_{j,g} v_j x[j,g]            (stated as min of its negative)
Constraints
    (1) rate[j]         Σ_g x[j,g] <= λ_j
    (2) work[g]         Σ_j w_j x[j,g] <= K_g

(2) holds iff the equilibrium memory ``d0·A/(1 − d1·A)`` of the admitted work rate A is at most C.
With one worker, or if all classes may use all workers, this is a fractional knapsack
(`knapsack`). The paper states no linear program: if M* exceeds the memory, it only states that the
throughput (8) cannot be reached.

`build_limited_throughput` states the throughput program of one worker under limits on latency and
time to first token (section 2.4; see `ServiceLimits` for the hypotheses).

Sets and data as in the throughput program, and
    r_j iterations per second that class j needs within its limits (`ServiceLimits.iteration_rate`)
Variables
    x[j] >= 0           admitted rate of class j [1/s]
    z[j] in {0, 1, ...} whether class j is admitted
    s >= 0              iterations per second
Objective
    throughput          max Σ_j v_j x[j]                  (stated as min of its negative)
Constraints
    (1) rate[j]         x[j] <= λ_j z[j]
    (2) time            d0 s + d1 Σ_j w_j x[j] <= 1       equation (1), divided by ΔT = 1/s
    (3) memory          Σ_j w_j x[j] <= C s
    (4) limits[j]       r_j z[j] <= s
    (5) choice[j]       z[j] <= 1

Since more iterations per second only relax (3) and (4), (2) holds with equality in some optimum,
which is then an equilibrium. For a given largest r_j of the admitted classes the program is a
knapsack of capacity ``min(K, (1 − d0 r)/d1)``, so the best of at most m knapsacks is the optimum.

`build_margin` states the capacity margin of several workers.

Sets and data as in the throughput program
Variables
    x[j,g] >= 0         rate of class j routed to worker g [1/s]
    margin >= 0         common factor on all rates
Objective
    max margin                                              (stated as min of its negative)
Constraints
    (1) routed[j]       Σ_g x[j,g] >= λ_j margin
    (2) work[g]         Σ_j w_j x[j,g] <= K_g

The rates are in the stability region, ``Σ_j w_j x[j,g] <= K_g`` for some routing of all of them,
iff the margin is at least 1. Its dual prices p_g >= 0 of work satisfy, for every rate vector of
the region, ``Σ_j λ_j w_j min_{g open to j} p_g <= Σ_g K_g p_g``: with a margin below 1 they
separate λ from it. If all workers are open to all classes the margin is ``Σ_g K_g / Σ_j λ_j w_j``.
"""

from typing import Any

from formulations.fluid.problem import FluidObjective, FluidProblem, ServiceLimits
from formulations.linear import allow_fractions
from formulations.modelling import pyo
from formulations.problem_data import member


def build_equilibrium(problem: FluidProblem, *, within_memory: bool = False) -> Any:
    """Return the Pyomo model of the equilibrium program for a problem with one worker.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    within_memory : bool
        Whether to state (3), the memory limit.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    allow_fractions()
    worker = problem.single_worker()
    model = pyo.ConcreteModel(name="fluid_equilibrium")
    model.classes = pyo.RangeSet(0, len(problem.classes) - 1)
    model.count = pyo.Var(model.classes, domain=pyo.NonNegativeReals)
    model.time = pyo.Var(domain=pyo.NonNegativeReals)
    memory = pyo.quicksum(kind.work * model.count[j] for j, kind in enumerate(problem.classes))
    model.served = pyo.Constraint(
        model.classes,
        rule=lambda model, j: model.count[j] >= problem.classes[j].rate * model.time,
        doc="(1) As many requests end in an iteration as arrive during it.",
    )
    model.duration = pyo.Constraint(
        expr=model.time >= worker.d0 + worker.d1 * memory,
        doc="(2) An iteration takes the time of its tokens.",
    )
    if within_memory:
        told = "(3) The tokens fit the memory."
        model.within = pyo.Constraint(expr=memory <= worker.memory, doc=told)
    model.objective = pyo.Objective(expr=memory, sense=pyo.minimize)
    return model


def build_throughput(
    problem: FluidProblem, *, objective: FluidObjective = FluidObjective.STAGES
) -> Any:
    """Return the Pyomo model of the memory-constrained throughput program.

    Parameters
    ----------
    problem : FluidProblem
        Data.
    objective : FluidObjective
        Throughput to maximise: stages or decode tokens.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    objective = member(FluidObjective, objective, "objective")
    allow_fractions()
    model = pyo.ConcreteModel(name="fluid_throughput")
    classes = problem.classes
    add_routes(model, problem)
    model.rate = pyo.Constraint(
        range(len(classes)),
        rule=lambda model, j: _of_class(model, j) <= classes[j].rate,
        doc="(1) No class is admitted above its rate.",
    )
    add_work(model, problem)
    model.objective = pyo.Objective(
        expr=-pyo.quicksum(objective.worth(classes[j]) * model.x[j, g] for j, g in model.routes),
        sense=pyo.minimize,
    )
    return model


def build_limited_throughput(
    problem: FluidProblem,
    limits: ServiceLimits,
    *,
    objective: FluidObjective = FluidObjective.STAGES,
) -> Any:
    """Return the Pyomo model of the throughput program under service limits.

    Parameters
    ----------
    problem, objective
        See `build_throughput`; with one worker.
    limits : ServiceLimits
        Limits on latency and TTFT [s].

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    objective = member(FluidObjective, objective, "objective")
    allow_fractions()
    worker, classes = problem.single_worker(), problem.classes
    model = pyo.ConcreteModel(name="fluid_limited_throughput")
    model.classes = pyo.RangeSet(0, len(classes) - 1)
    model.x = pyo.Var(model.classes, domain=pyo.NonNegativeReals)
    model.z = pyo.Var(model.classes, domain=pyo.NonNegativeIntegers)
    model.s = pyo.Var(domain=pyo.NonNegativeReals)
    work = pyo.quicksum(kind.work * model.x[j] for j, kind in enumerate(classes))
    model.rate = pyo.Constraint(
        model.classes,
        rule=lambda model, j: model.x[j] <= classes[j].rate * model.z[j],
        doc="(1) No class is admitted above its rate, or without being chosen.",
    )
    model.time = pyo.Constraint(
        expr=worker.d0 * model.s + worker.d1 * work <= 1,
        doc="(2) The iterations of a second take at most a second.",
    )
    model.memory = pyo.Constraint(
        expr=work <= worker.memory * model.s, doc="(3) The tokens fit the memory."
    )
    model.limits = pyo.Constraint(
        model.classes,
        rule=lambda model, j: limits.iteration_rate(classes[j]) * model.z[j] <= model.s,
        doc="(4) Iterations are as frequent as the limits of each chosen class require.",
    )
    model.choice = pyo.Constraint(
        model.classes,
        rule=lambda model, j: model.z[j] <= 1,
        doc="(5) A class is chosen at most once.",
    )
    worth = (objective.worth(kind) * model.x[j] for j, kind in enumerate(classes))
    model.objective = pyo.Objective(expr=-pyo.quicksum(worth), sense=pyo.minimize)
    return model


def add_routes(model: Any, problem: FluidProblem) -> None:
    """Add the variables x[j,g], the admitted rate of each route."""
    model.routes = pyo.Set(
        initialize=[
            (j, g)
            for j, kind in enumerate(problem.classes)
            for g in range(len(problem.workers))
            if kind.may_use(g)
        ],
        dimen=2,
    )
    model.x = pyo.Var(model.routes, domain=pyo.NonNegativeReals)


def add_work(model: Any, problem: FluidProblem) -> None:
    """Add the constraints (2): no worker does more work than full memory allows."""
    # Skip workers that no class may use: their row would have no variables.
    used = sorted({g for _, g in model.routes})

    def rule(model: Any, g: int) -> Any:
        terms = (problem.classes[j].work * model.x[j, h] for j, h in model.routes if h == g)
        return pyo.quicksum(terms) <= problem.workers[g].capacity

    told = "(2) No worker does more work per second than full memory allows."
    model.work = pyo.Constraint(used, rule=rule, doc=told)


def _of_class(model: Any, j: int) -> Any:
    return pyo.quicksum(model.x[i, g] for i, g in model.routes if i == j)


def build_margin(problem: FluidProblem) -> Any:
    """Return the Pyomo model of the margin program.

    Parameters
    ----------
    problem : FluidProblem
        Data.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    allow_fractions()
    model = pyo.ConcreteModel(name="fluid_margin")
    add_routes(model, problem)
    model.margin = pyo.Var(domain=pyo.NonNegativeReals)

    def routed(model: Any, j: int) -> Any:
        return _of_class(model, j) >= problem.classes[j].rate * model.margin

    told = "(1) Each class is served at its rate times the margin."
    model.routed = pyo.Constraint(range(len(problem.classes)), rule=routed, doc=told)
    add_work(model, problem)
    model.objective = pyo.Objective(expr=-model.margin, sense=pyo.minimize)
    return model
