"""The hindsight makespan program, stated once.

Sets
    kinds c of requests alike, n_c of each (`kinds.kinds`); lanes g = 0..G_c−1 open to c; steps k
    starts k = e_c..l_c, a window that holds an optimum (proofs: `latest_starts`, `kinds`)
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

(4) and (5) are work conservation, only there: at each step all slots are used, or nobody waits,
so min(free, waiting) requests start. (6) holds for some optimum: idle steps after the last
arrival can be deleted. Lanes are workers, numbered as a list of the requests first uses them;
for latency, which without a memory does not see workers, one lane has all m slots. The barrier
of the BF-IO paper, section 3, is (3).
"""

from typing import Any

from formulations.hindsight_makespan.kinds import kinds, lanes
from formulations.hindsight_makespan.problem import MakespanObjective, MakespanProblem
from formulations.modelling import pyo
from formulations.request_table import RequestKind


def build(problem: MakespanProblem, *, aggregate: bool = True) -> Any:
    """State the program of a problem with at least one request.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    aggregate : bool
        Whether requests alike form one kind.

    Returns
    -------
    pyomo.environ.ConcreteModel
        With the variables and constraints named in the module's text.
    """
    model = pyo.ConcreteModel(name="hindsight_makespan")
    groups = kinds(problem, aggregate=aggregate)
    per_step, per_token = problem.rates
    _starts(model, groups)
    _start_once(model, groups)
    running = _running(groups)
    steps = sorted({k for _, k in running})
    model.busy = pyo.Var(steps if per_step else [], domain=pyo.Binary)
    model.peak = pyo.Var(
        steps if per_token else [],
        domain=pyo.NonNegativeIntegers,
        bounds=(0, problem.largest_load),
    )
    _slots(model, problem, running)
    if per_token:
        _barrier(model, groups, running)
    if problem.work_conserving:
        _work_conserving(model, problem, groups, running)
    elif per_step:
        _gapless(model, steps)
    if problem.memory is not None:
        _memory(model, problem.memory.tolist(), groups, running)
    model.objective = pyo.Objective(expr=_cost(model, problem), sense=pyo.minimize)
    return model


def _starts(model: Any, groups: tuple[RequestKind, ...]) -> None:
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


def _start_once(model: Any, groups: tuple[RequestKind, ...]) -> None:
    """(1) Every request starts, once."""

    def rule(model: Any, c: int) -> Any:
        kind = groups[c]
        terms = (model.x[c, g, k] for g in range(kind.lanes) for k in kind.starts)
        return pyo.quicksum(terms) == len(kind.members)

    model.start_once = pyo.Constraint(range(len(groups)), rule=rule)


def _running(groups: tuple[RequestKind, ...]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return, per lane and step, the (kind, start) that run there."""
    running: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for c, kind in enumerate(groups):
        for g in range(kind.lanes):
            for start in kind.starts:
                for k in range(start, start + kind.output):
                    running.setdefault((g, k), []).append((c, start))
    return running


def _slots(
    model: Any, problem: MakespanProblem, running: dict[tuple[int, int], list[tuple[int, int]]]
) -> None:
    """(2) A lane runs as many requests as it has slots, and none at a step that is not busy."""
    capacity = lanes(problem)[1]

    def rule(model: Any, g: int, k: int) -> Any:
        used = pyo.quicksum(model.x[c, g, start] for c, start in running[g, k])
        return used <= (capacity * model.busy[k] if k in model.busy else capacity)

    model.slots = pyo.Constraint(sorted(running), rule=rule)


def _barrier(
    model: Any,
    groups: tuple[RequestKind, ...],
    running: dict[tuple[int, int], list[tuple[int, int]]],
) -> None:
    """(3) No load exceeds the peak."""

    def rule(model: Any, g: int, k: int) -> Any:
        return _load(model, groups, running, g, k) <= model.peak[k]

    model.barrier = pyo.Constraint(sorted(running), rule=rule)


def _memory(
    model: Any,
    limits: list[int],
    groups: tuple[RequestKind, ...],
    running: dict[tuple[int, int], list[tuple[int, int]]],
) -> None:
    """(7) No worker holds more than its memory."""

    def rule(model: Any, g: int, k: int) -> Any:
        return _load(model, groups, running, g, k) <= limits[g]

    model.memory = pyo.Constraint(sorted(running), rule=rule)


def _load(
    model: Any,
    groups: tuple[RequestKind, ...],
    running: dict[tuple[int, int], list[tuple[int, int]]],
    g: int,
    k: int,
) -> Any:
    return pyo.quicksum(
        (groups[c].prompt + k - start) * model.x[c, g, start] for c, start in running[g, k]
    )


def _work_conserving(
    model: Any,
    problem: MakespanProblem,
    groups: tuple[RequestKind, ...],
    running: dict[tuple[int, int], list[tuple[int, int]]],
) -> None:
    """(4), (5) Where a request waits, all slots are used."""
    waits = [
        (c, k) for c, kind in enumerate(groups) for k in range(kind.first_start, kind.last_start)
    ]
    model.full = pyo.Var(sorted({k for _, k in waits}), domain=pyo.Binary)
    of_step: dict[int, list[Any]] = {}
    for (g, k), pairs in running.items():
        of_step.setdefault(k, []).extend(model.x[c, g, start] for c, start in pairs)

    def filled(model: Any, k: int) -> Any:
        return pyo.quicksum(of_step.get(k, [])) >= problem.total_slots * model.full[k]

    def waiting(model: Any, c: int, k: int) -> Any:
        kind, size = groups[c], len(groups[c].members)
        begun = (
            model.x[c, g, start]
            for g in range(kind.lanes)
            for start in range(kind.first_start, k + 1)
        )
        return pyo.quicksum(begun) + size * model.full[k] >= size

    model.filled = pyo.Constraint(model.full.index_set(), rule=filled)
    model.waiting = pyo.Constraint(waits, rule=waiting)


def _gapless(model: Any, steps: list[int]) -> None:
    """(6) Once idle, idle for ever."""

    def rule(model: Any, k: int) -> Any:
        return model.busy[k] >= model.busy[k + 1]

    model.gapless = pyo.Constraint(steps[:-1], rule=rule)


def _cost(model: Any, problem: MakespanProblem) -> Any:
    per_step, per_token = problem.rates
    if problem.objective is MakespanObjective.LATENCY:
        constant = int(problem.output.sum()) - int(problem.arrival.sum())
        return pyo.quicksum(k * model.x[c, g, k] for c, g, k in model.starts) + constant
    busy = per_step * pyo.quicksum(model.busy.values())
    return busy + per_token * pyo.quicksum(model.peak.values()) + problem.offset
