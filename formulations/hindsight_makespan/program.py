"""The hindsight makespan program: start step and worker of each request, stated in Pyomo.

Sets
    kinds c of n_c equal requests each (`kinds.kinds`); lanes g = 0..G_c−1 open to c; steps k
    starts k = e_c..l_c, a window that contains an optimum (proofs: `latest_starts`, `kinds`)
Data (all integers)
    B slots of a lane, m slots in all; s_c prompt, o_c output; a_c = e_c arrival
    C, T cost of a busy step and of a token of its peak, scaled (`MakespanProblem.rates`)
    request started at k' runs at k iff 0 <= k − k' <= o_c − 1, with load s_c + k − k'
Variables
    x[c,g,k] integer in 0..n_c     requests of kind c that start on lane g at step k
    peak[k] integer in 0..P        largest load at step k            (if T > 0)
    busy[k] binary                 whether anything runs at step k   (if C > 0)
    full[k] binary                 whether every slot is used        (if work is conserved)
Objective
    wall clock, imbalance   min Σ_k C busy[k] + T peak[k] + offset
    latency                 min Σ_{c,g,k} k x[c,g,k] + Σ_i (o_i − a_i)
Constraints
    (1) start_once[c]   Σ_{g,k} x[c,g,k] = n_c
    (2) slots[g,k]      Σ_{c, k' running at k} x[c,g,k'] <= B busy[k]      (B alone if C = 0)
    (3) barrier[g,k]    Σ_{c, k' running at k} (s_c + k − k') x[c,g,k'] <= peak[k]
    (4) filled[k]       Σ_{c,g, k' running at k} x[c,g,k'] >= m full[k]
    (5) waiting[c,k]    Σ_{g, k' <= k} x[c,g,k'] + n_c full[k] >= n_c      for e_c <= k < l_c
    (6) gapless[k]      busy[k] >= busy[k+1]          (wall clock without work conservation)
    (7) memory[g,k]     Σ_{c, k' running at k} (s_c + k − k') x[c,g,k'] <= κ_g         (if given)

(4) and (5) state work conservation, if required: at each step all slots are used or no request
waits, so min(free, waiting) requests start. (6) holds for some optimum, since idle steps after the
last arrival can be deleted. Lanes are workers, numbered by first use in a list of the requests.
Latency without a memory limit does not depend on workers, so one lane has all m slots. The barrier
of the BF-IO paper, section 3, is (3).
"""

from typing import Any

from formulations.hindsight_makespan.kinds import kinds, lanes
from formulations.hindsight_makespan.problem import MakespanObjective, MakespanProblem
from formulations.modelling import pyo
from formulations.request_table import RequestKind
from formulations.standard_form import constraint


def build(problem: MakespanProblem, *, aggregate: bool = True) -> Any:
    """Return the Pyomo model of a makespan problem with at least one request.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    aggregate : bool
        Whether interchangeable requests form one kind.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module docstring.
    """
    model = pyo.ConcreteModel(name="hindsight_makespan")
    groups = kinds(problem, aggregate=aggregate)
    per_step, per_token = problem.rates
    model.starts = pyo.Set(
        initialize=[
            (c, g, k)
            for c, kind in enumerate(groups)
            for g in range(kind.lanes)
            for k in kind.starts
        ],
        dimen=3,
    )
    upper = {(c, g, k): (0, len(groups[c].members)) for c, g, k in model.starts}
    model.x = pyo.Var(model.starts, domain=pyo.NonNegativeIntegers, bounds=upper)

    @constraint(model, range(len(groups)))
    def start_once(model: Any, c: int) -> Any:
        """(1) Every request starts exactly once."""
        kind = groups[c]
        terms = (model.x[c, g, k] for g in range(kind.lanes) for k in kind.starts)
        return pyo.quicksum(terms) == len(kind.members)

    # Per lane and step, the (kind, start) pairs that run there.
    running: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for c, g, start in model.starts:
        for k in range(start, start + groups[c].output):
            running.setdefault((g, k), []).append((c, start))
    cells, steps = sorted(running), sorted({k for _, k in running})
    model.busy = pyo.Var(steps if per_step else [], domain=pyo.Binary)
    model.peak = pyo.Var(
        steps if per_token else [],
        domain=pyo.NonNegativeIntegers,
        bounds=(0, problem.largest_load),
    )
    capacity = lanes(problem)[1]

    @constraint(model, cells)
    def slots(model: Any, g: int, k: int) -> Any:
        """(2) A lane runs at most as many requests as it has slots, and none at an idle step."""
        used = pyo.quicksum(model.x[c, g, start] for c, start in running[g, k])
        return used <= (capacity * model.busy[k] if per_step else capacity)

    def load(g: int, k: int) -> Any:
        return pyo.quicksum(
            (groups[c].prompt + k - start) * model.x[c, g, start] for c, start in running[g, k]
        )

    if per_token:

        @constraint(model, cells)
        def barrier(model: Any, g: int, k: int) -> Any:
            """(3) No load exceeds the peak."""
            return load(g, k) <= model.peak[k]

    if problem.work_conserving:
        _conserve_work(model, problem, groups, running)
    elif per_step:

        @constraint(model, steps[:-1])
        def gapless(model: Any, k: int) -> Any:
            """(6) After an idle step, all steps are idle."""
            return model.busy[k] >= model.busy[k + 1]

    if (limits := problem.memory) is not None:

        @constraint(model, cells)
        def memory(model: Any, g: int, k: int) -> Any:
            """(7) No worker holds more than its memory."""
            return load(g, k) <= int(limits[g])

    if problem.objective is MakespanObjective.LATENCY:
        cost = pyo.quicksum(k * model.x[c, g, k] for c, g, k in model.starts)
        cost += int(problem.output.sum()) - int(problem.arrival.sum())
    else:
        cost = per_step * pyo.quicksum(model.busy.values()) + problem.offset
        cost += per_token * pyo.quicksum(model.peak.values())
    model.objective = pyo.Objective(expr=cost, sense=pyo.minimize)
    return model


def _conserve_work(
    model: Any,
    problem: MakespanProblem,
    groups: tuple[RequestKind, ...],
    running: dict[tuple[int, int], list[tuple[int, int]]],
) -> None:
    """Add (4) and (5): if a request waits, all slots are used."""
    waits = [(c, k) for c, kind in enumerate(groups) for k in kind.starts[:-1]]
    model.full = pyo.Var(sorted({k for _, k in waits}), domain=pyo.Binary)
    of_step: dict[int, list[Any]] = {}
    for (g, k), pairs in running.items():
        of_step.setdefault(k, []).extend(model.x[c, g, start] for c, start in pairs)

    @constraint(model, model.full.index_set())
    def filled(model: Any, k: int) -> Any:
        return pyo.quicksum(of_step.get(k, [])) >= problem.total_slots * model.full[k]

    @constraint(model, waits)
    def waiting(model: Any, c: int, k: int) -> Any:
        kind, size = groups[c], len(groups[c].members)
        begun = (
            model.x[c, g, start]
            for g in range(kind.lanes)
            for start in range(kind.first_start, k + 1)
        )
        return pyo.quicksum(begun) + size * model.full[k] >= size
