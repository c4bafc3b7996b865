"""One admission step levels the loads, for both objectives: replaces the proof of Lemma 2."""

from collections.abc import Callable, Iterator

from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.balance.separation import Step, domain, small_steps, steps_apart
from proofs_checks.search import examine
from proofs_checks.step_enumeration import Loads, gap, imbalance, reachable_loads

CLAIMS = Claims()


def contraction(step: Step) -> int:
    """``Γ = s_max·c_min − (s_max − 1)·c_max`` [tokens]."""
    s = max(step.pool)
    return s * min(step.slots) - (s - 1) * max(step.slots)


def deficit_bounds(step: Step, sharper: int = 0) -> list[int]:
    """Return ``max{s_max − s_min, d_q − Γ}`` for each worker q."""
    spread, top = max(step.pool) - min(step.pool), max(step.base)
    return [max(spread, top - base - contraction(step)) - sharper for base in step.base]


def levelled(step: Step) -> tuple[list[Loads], int, int]:
    """Return the loads of the proof's assignments, least gap and least imbalance.

    The proof's assignment has the least maximum, then the fewest workers with that load, then the
    largest total.
    """
    reached = reachable_loads(step.base, step.slots, step.pool)

    def order(loads: Loads) -> tuple[int, int, int]:
        return max(loads), loads.count(max(loads)), -sum(loads)

    best = min(map(order, reached))
    chosen = [loads for loads in reached if order(loads) == best]
    return chosen, min(map(gap, reached)), min(map(imbalance, reached))


def _steps(context: Context) -> Iterator[Step]:
    yield from small_steps(context)
    yield from steps_apart(context)


@CLAIMS.own(
    "own.separation-levels",
    Mutation("the overloaded pool dropped", applies=lambda step: True),
    Mutation("one token less", sharper=1),
    proof="separation-levels",
)
def _check(
    context: Context,
    *,
    applies: Callable[[Step], bool] = lambda step: step.overloaded,
    sharper: int = 0,
) -> Outcome:
    """One step levels the loads.

    Source: BF-IO paper, Lemmas 2 and 5 (appendix C) for both objectives (our sharpening)
    Statement: With an overloaded pool some assignment leaves each worker q at most max{s_max −
        s_min, d_q − Γ} below the largest load, where d_q is how far q was below the largest load
        before admission, and Γ = s_max·c_min − (s_max − 1)·c_max ≥ γBp. So a minimiser of the gap
        has at most the largest of these as its gap, and every minimiser of the imbalance at most
        their sum as its imbalance.
    Formula: max_h L_h − L_q ≤ max{s_max − s_min, max_h a_h − a_q − Γ} for all q
    Assumes: overloaded pool (Definition 1); each worker has a free slot, all are filled
    Summary: The assignment with the least maximum, then the fewest workers at it, then the largest
        total does it: no waiting request may be smaller than one on the heaviest worker, nor
        larger than one on a worker far below, and an overloaded pool has a second size. It needs
        no δ, mends the proof of Lemma 2 and serves the program (IO) as well.
    """
    solved = [(step, levelled(step)) for step in _steps(context) if applies(step)]

    def every_worker(case: tuple[Step, tuple[list[Loads], int, int]]) -> bool:
        step, (chosen, _, _) = case
        bounds = deficit_bounds(step, sharper)
        return all(
            max(loads) - load <= bound
            for loads in chosen
            for load, bound in zip(loads, bounds, strict=True)
        )

    def optima(case: tuple[Step, tuple[list[Loads], int, int]]) -> bool:
        step, (chosen, least_gap, least_imbalance) = case
        bounds = deficit_bounds(step, sharper)
        heaviest = chosen[0].index(max(chosen[0]))
        others = sum(bound for q, bound in enumerate(bounds) if q != heaviest)
        return least_gap <= max(bounds) and least_imbalance <= others

    made = f"{domain(context)}; random steps of 2 to 4 workers with loads far apart; overloaded"
    return (
        examine("M − L_q ≤ max{s_max − s_min, d_q − Γ} for every q", made, solved, every_worker),
        examine(
            "least D ≤ max{s_max − s_min, A_pre − Γ}, least Imb ≤ Σ_{q≠p} max{s_max − s_min, "
            "d_q − Γ}",
            made,
            solved,
            optima,
        ),
    )
