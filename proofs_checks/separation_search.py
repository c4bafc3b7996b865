"""An integer program for steps at which every minimiser of the imbalance breaks Lemma 2.

Sizes and loads are its variables. The assignment under test gives request g to worker g; that it
is optimal is one inequality per other assignment, which a handful of workers and requests allow to
be written out.
"""

from itertools import combinations, permutations
from typing import Any

from proofs_checks.evidence import Data


def violating_step(
    workers: int, requests: int, largest: int, spread: int, seed: int
) -> Data | None:
    """Return a step with one free slot per worker that breaks Lemma 2 under (IO), or None.

    Parameters
    ----------
    workers, requests : int
        ``G``, and the size of the pool.
    largest, spread : int
        Largest size, and largest load before admission [tokens].
    seed : int
        Seed of the solver; which of several steps is found depends on it.

    Returns
    -------
    dict or None
        Plain data as `proofs_checks.papers.balance.separation.step_of` reads them. None is a proof
        that the domain holds no such step.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    sizes = [model.new_int_var(1, largest, f"s{i}") for i in range(requests)]
    base = [model.new_int_var(0, spread, f"b{g}") for g in range(workers)]
    top = model.new_int_var(1, largest, "s_max")
    model.add_max_equality(top, sizes)
    model.add(base[-1] == 0)
    _require_overload(model, sizes, requests - workers)
    loads = [base[g] + sizes[g] for g in range(workers)]
    for g in range(workers):
        model.add(loads[0] >= loads[g])
        model.add(loads[g] >= loads[-1])
    _break_bound(model, loads[0] - loads[-1], base, top, None)
    _require_optimality(model, loads, base, sizes, top, largest + spread)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise ArithmeticError(f"the solver stopped with {solver.status_name(status)}")
    return {
        "workers": [{"base": solver.value(b), "slots": 1} for b in base],
        "pool": [solver.value(s) for s in sizes],
    }


def _require_overload(model: Any, sizes: list[Any], most_alike: int) -> None:
    """No size occurs more than N − C times (Definition 1)."""
    alike: dict[frozenset[int], Any] = {}
    for i, j in combinations(range(len(sizes)), 2):
        same, above = model.new_bool_var(""), model.new_bool_var("")
        model.add(sizes[i] == sizes[j]).only_enforce_if(same)
        model.add(sizes[i] > sizes[j]).only_enforce_if([~same, above])
        model.add(sizes[i] < sizes[j]).only_enforce_if([~same, ~above])
        alike[frozenset((i, j))] = same
    for i in range(len(sizes)):
        model.add(1 + sum(same for pair, same in alike.items() if i in pair) <= most_alike)


def _break_bound(model: Any, gap: Any, base: list[Any], top: Any, condition: Any) -> None:
    """``D > s_max`` and ``D > A_pre − 1``, the bound for one free slot per worker."""
    rows = [model.add(gap >= top + 1)]
    rows += [model.add(gap >= b - other) for b in base for other in base if b is not other]
    if condition is not None:
        for row in rows:
            row.only_enforce_if(condition)


def _require_optimality(
    model: Any, loads: list[Any], base: list[Any], sizes: list[Any], top: Any, reach: int
) -> None:
    """No assignment has a smaller imbalance, and one as small breaks the bound too."""
    workers = len(base)
    value = workers * loads[0] - sum(loads)
    for chosen in permutations(range(len(sizes)), workers):
        if chosen == tuple(range(workers)):
            continue
        other = [base[g] + sizes[i] for g, i in enumerate(chosen)]
        peak, floor = model.new_int_var(0, reach, ""), model.new_int_var(0, reach, "")
        model.add_max_equality(peak, other)
        model.add_min_equality(floor, other)
        breaks = model.new_bool_var("")
        _break_bound(model, peak - floor, base, top, breaks)
        model.add(workers * peak - sum(other) >= value + 1 - breaks)
