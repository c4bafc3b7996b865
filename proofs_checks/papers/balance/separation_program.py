"""Lemma 2 for the policy that section 4 defines: minimisers of the imbalance, not of the gap.

The statement that holds for every minimiser of the program (IO) is proved in
``proofs/separation-levels.md``: some assignment leaves worker q at most max{s_max − s_min,
d_q − Γ} below the maximum, so the sum of these terms bounds the least imbalance.
"""

from collections.abc import Callable, Iterator
from itertools import combinations, combinations_with_replacement, permutations
from typing import Any

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.balance.separation import Step, small_steps, step_of, steps_apart, within
from proofs_checks.papers.own.separation_levels import deficit_bounds
from proofs_checks.search import Domain, examine, refute
from proofs_checks.step_enumeration import gap, imbalance, multisets

CLAIMS = Claims()


# The same statement for the program that the policy solves.


def verify_program(data: Data) -> str | None:
    """Confirm that no minimiser of the imbalance meets the lemma's bound."""
    step = step_of(data)
    if step is None or not within(step):
        return None
    minimisers = step.minimisers(imbalance)
    if any(gap(loads) <= step.bound for loads in minimisers):
        return None
    return (
        f"the minimisers of the imbalance have the loads {[list(x) for x in minimisers]}, gaps "
        f"{[gap(x) for x in minimisers]}, all above the bound {step.bound}"
    )


def imbalance_bounded(step: Step | None, sharper: int = 0) -> bool:
    """Whether the least imbalance is at most the sum of all bounds except the smallest."""
    assert step is not None
    bounds = sorted(deficit_bounds(step, sharper))
    # The statement leaves worker p open; the sum is largest if the smallest bound is left out.
    return imbalance(step.minimisers(imbalance)[0]) <= sum(bounds[1:])


@CLAIMS.own(
    "own.separation-program",
    Mutation("two workers only, where imbalance is gap", workers=2),
    Mutation("one token less per worker in the correction", sharper=1),
    Mutation(
        "the overloaded pool dropped in the correction",
        applies=lambda step: step.counts_agree,
    ),
    proof="separation-levels",
    defect=Defect.INFERENCE,
    verify=verify_program,
)
def _program_check(
    context: Context,
    *,
    workers: int = 3,
    sharper: int = 0,
    applies: Callable[[Step], bool] = within,
) -> Outcome:
    """Lemma 2 for the program (IO).

    Source: BF-IO paper, proof of Lemma 2, for the policy of Algorithm 1 (our question)
    Statement: On every outcome of the event E_cnt, as the proof of Lemma 2 has it, the assignments
        that Algorithm 1 chooses, minimisers of the imbalance over all feasible assignments from
        the pool, meet D(k) ≤ max{s_max, A_pre(k) − γBp}.
    Formula: |c_g − Bp| ≤ δBp for all g  ⇒  D(k) ≤ max{s_max, A_pre(k) − γBp},  γ = 1 − δ(2·s_max −
        1)
    Assumes: overloaded pool (Definition 1); all c_g free slots are filled; |c_g − Bp| ≤ δBp for
        all g with 0 < δ < 1/(2·s_max − 1)
    Summary: Algorithm 1 minimises the imbalance, the proof the gap. With three workers the program
        may prefer large requests on two heavy workers to a smaller gap, but only by a few
        requests' worth.
    Reading: an outcome is looked at, not its probability: where the probability in Lemma 2 says
        something, 2G·exp(−δ²Bp/3) < 1, more than 3·log(2G)·(2·s_max − 1)² slots get free per
        worker, and whether the printed bound can fail there is open. The bound is taken in its
        tightest form over δ and Bp; where all workers have one free slot every form of it is below
        A_pre, and the gaps found are not. The minimisers tried are all of them, so no tie-break
        saves it.
    Correction: Every minimiser of the imbalance, whatever breaks its ties, has Imbalance(k) ≤
        Σ_{q≠p} max{s_max − s_min, d_q − γBp}, where p is some worker and d_q says how far q was
        below the largest load before admission (own.separation-levels): an assignment that is so
        level is feasible for (IO). Under (IO) the imbalance contracts by itself, and once γBp
        outweighs noise and (G − 2)(s_max − s_min) it tends to at most (G − 1)·s_max
        (own.lemma4-smax): Theorem 2 holds for (IO) with any tie-break.
    """
    largest, spread = context.choose((11, 12), (12, 14), (14, 20))
    data = violating_step(workers, workers + 2, largest, spread, int(context.rng.integers(2**31)))
    printed = refute(
        "D ≤ max{s_max, A_pre − γBp} for some minimiser of (IO)",
        f"one integer program over all overloaded steps of {workers} workers with one free slot, "
        f"{workers + 2} sizes up to {largest} and loads up to {spread}: feasible iff one breaks "
        "it",
        [data],
        verify_program,
        lambda minimisers: dict(minimisers or {}),
        holds=lambda minimisers: minimisers is None,
    )

    steps = [*small_steps(context), *steps_apart(context), *([step_of(data)] if data else [])]
    corrected = examine(
        "Imbalance ≤ Σ_{q≠p} max{s_max − s_min, d_q − γBp} for every minimiser of (IO)",
        "every step of balance.lemma2; random steps of 2 to 4 workers with 1 to 3 free slots and "
        "loads far apart; and the step found above",
        steps,
        lambda step: imbalance_bounded(step, sharper),
        lambda step: step is not None and applies(step),
    )
    return printed, corrected


# Does the program minimise the gap?


def verify_objective(data: Data) -> str | None:
    """Confirm that no minimiser of the imbalance has the least gap."""
    step = step_of(data)
    if step is None or not within(step):
        return None
    best = min(gap(x) for x in step.minimisers(gap))
    minimisers = step.minimisers(imbalance)
    if best in map(gap, minimisers):
        return None
    return (
        f"the least gap is {best}, of loads {list(step.minimisers(gap)[0])}; minimisers of the "
        f"imbalance have the loads {[list(x) for x in minimisers]}"
    )


def _level_steps(context: Context, workers: int) -> Iterator[Step]:
    """Yield overloaded steps with one free slot per worker, loads in decreasing order."""
    largest, spread = context.choose((6, 0), (8, 1), (10, 3))
    for G in (2, 3):
        for pool in multisets(G + 2, largest) if workers >= G else ():
            # Workers are interchangeable: loads in decreasing order are enough.
            for base in combinations_with_replacement(range(spread, -1, -1), G - 1):
                step = Step((*base, 0), (1,) * G, pool)
                if within(step):
                    yield step


@CLAIMS.step(
    "balance.lemma2-objective",
    Mutation("two workers only", workers=2),
    Mutation("factor 1 in place of G − 1 in the correction", factor=lambda G: 1),
    defect=Defect.SENTENCE,
    verify=verify_objective,
)
def _objective_check(
    context: Context, *, workers: int = 3, factor: Callable[[int], int] = lambda G: G - 1
) -> Outcome:
    """BF-IO minimises the gap.

    Source: BF-IO paper, proof of Lemma 2 against section 4, (IO) with H = 0
    Statement: Among all feasible assignments BF-IO chooses one that minimises D(k).
    Formula: argmin Imbalance(k) ⊆ argmin D(k)
    Assumes: BF-IO is the program (IO) with H = 0; overloaded pool (Definition 1)
    Summary: For two workers imbalance and gap are the same number; from three on they are not.
    Correction: (IO) minimises the imbalance. Its minimisers have gaps of at most G − 1 times the
        least gap, because D ≤ Imbalance ≤ (G − 1)·D. What this does to Lemma 2:
        own.separation-program.
    """
    steps = list(_level_steps(context, workers))
    domain = Domain(
        "overloaded steps with one free slot per worker and two spare requests, small sizes", steps
    )
    printed = domain.refute(
        "some minimiser of (IO) minimises D",
        verify_objective,
        Step.to_data,
        holds=lambda s: min(map(gap, s.minimisers(imbalance))) == gap(s.minimisers(gap)[0]),
    )
    corrected = domain.examine(
        "the gap of every minimiser of (IO) is at most (G − 1) times the least gap",
        lambda s: max(map(gap, s.minimisers(imbalance)))
        <= factor(len(s.slots)) * gap(s.minimisers(gap)[0])
    )  # fmt: skip
    return printed, corrected


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
        Seed of the solver, which may change the step that is found.

    Returns
    -------
    dict or None
        Plain data for `proofs_checks.papers.balance.separation.step_of`. None proves that the
        domain has no violating step.
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
    """Require that no size occurs more than N − C times (Definition 1)."""
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
    """Require ``D > s_max`` and ``D > A_pre − 1``, the bound for one free slot per worker."""
    rows = [model.add(gap >= top + 1)]
    rows += [model.add(gap >= b - other) for b in base for other in base if b is not other]
    if condition is not None:
        for row in rows:
            row.only_enforce_if(condition)


def _require_optimality(
    model: Any, loads: list[Any], base: list[Any], sizes: list[Any], top: Any, reach: int
) -> None:
    """Require that no assignment has a smaller imbalance, and that ties break the bound too."""
    workers = len(base)
    value = workers * loads[0] - sum(loads)
    for assignment in permutations(range(len(sizes)), workers):
        if assignment == tuple(range(workers)):
            continue
        other = [base[g] + sizes[i] for g, i in enumerate(assignment)]
        peak, floor = model.new_int_var(0, reach, ""), model.new_int_var(0, reach, "")
        model.add_max_equality(peak, other)
        model.add_min_equality(floor, other)
        breaks = model.new_bool_var("")
        _break_bound(model, peak - floor, base, top, breaks)
        model.add(workers * peak - sum(other) >= value + 1 - breaks)
