"""BR-0 by enumeration, from sections 3.1 and 3.2 alone: all possible decisions.

If the paper leaves a choice among requests (equal scores), every choice is followed. Requests of
equal size are interchangeable, so a decision is the sorted sizes that each worker admits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import TypeVar

from bfio.step.two_stage.fscore import ScoreWeights, score
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.route.probes import discounted
from proofs_checks.search import examine
from proofs_checks.step_enumeration import imbalance, vectors

CLAIMS = Claims()


T = TypeVar("T")

#: Sizes admitted by each worker, sorted.
Decision = tuple[tuple[int, ...], ...]
#: Sort key of a worker from free slots and margin; the worker with the largest key is next.
Key = Callable[[int, int], tuple[int, ...]]


def free_then_margin(free: int, margin: int) -> tuple[int, ...]:
    """Most free slots first, larger margin on ties."""
    return free, margin


def free_then_small_margin(free: int, margin: int) -> tuple[int, ...]:
    """A deliberately wrong order: most free slots first, smaller margin on ties."""
    return free, -margin


@dataclass(frozen=True)
class Rules:
    """Parameters of BR-0, which mutations may change.

    Parameters
    ----------
    threshold : int
        ``θ``.
    candidates : int
        Stage 2 looks at this many of the largest waiting requests.
    key : callable
        Order of workers.
    """

    threshold: int
    candidates: int
    key: Key = free_then_margin


@dataclass(frozen=True)
class PartialStep:
    """State in the course of one step's decision.

    Parameters
    ----------
    free, loads : tuple of int
        Free slots and load of each worker [tokens].
    waiting : tuple of int
        Sizes of waiting requests, sorted [tokens].
    admitted : tuple of tuples of int
        The decision so far.
    """

    free: tuple[int, ...]
    loads: tuple[int, ...]
    waiting: tuple[int, ...]
    admitted: Decision

    def margin(self, worker: int) -> int:
        """``m_g = max_h L_h − L_g``."""
        return max(self.loads) - self.loads[worker]

    def after(self, worker: int, sizes: tuple[int, ...]) -> "PartialStep":
        """Admit requests to a worker."""
        left = list(self.waiting)
        for size in sizes:
            left.remove(size)
        return PartialStep(
            _changed(self.free, worker, self.free[worker] - len(sizes)),
            _changed(self.loads, worker, self.loads[worker] + sum(sizes)),
            tuple(left),
            _changed(self.admitted, worker, tuple(sorted((*self.admitted[worker], *sizes)))),
        )


def f_score(added: int, margin: int, workers: int) -> int:
    """``F = Δ − G·max(0, Δ − m)`` (eq. 1)."""
    return added - workers * max(0, added - margin)


def best_sets(
    step: PartialStep, worker: int, candidates: Sequence[int], most: int
) -> tuple[int, set[tuple[int, ...]]]:
    """Return the highest score of 1 to ``most`` candidates for a worker, and the sets with it."""
    margin, G = step.margin(worker), len(step.free)
    sets = {s for n in range(1, most + 1) for s in combinations(sorted(candidates), n)}
    best = max(f_score(sum(s), margin, G) for s in sets)
    return best, {s for s in sets if f_score(sum(s), margin, G) == best}


def choices(step: PartialStep, rules: Rules) -> Iterator[PartialStep]:
    """Yield the next admissions BR-0 may make; of workers with equal keys the first is next."""
    workers = [g for g, free in enumerate(step.free) if free]
    worker = max(workers, key=lambda g: (*rules.key(step.free[g], step.margin(g)), -g))
    _, singles = best_sets(step, worker, step.waiting, 1)
    sent = singles
    if sum(step.free) <= rules.threshold:
        candidates = sorted(step.waiting)[-rules.candidates :]
        best, subsets = best_sets(step, worker, candidates, step.free[worker])
        # If no subset has a positive score, one request is admitted anyway to avoid starvation.
        sent = subsets if best > 0 else singles
    for sizes in sent:
        yield step.after(worker, sizes)


def decisions(
    free: Sequence[int], loads: Sequence[int], waiting: Sequence[int], rules: Rules
) -> set[Decision]:
    """Return all decisions that BR-0 may take at a step."""
    none: Decision = ((),) * len(free)
    steps = {PartialStep(tuple(free), tuple(loads), tuple(sorted(waiting)), none)}
    reached: set[Decision] = set()
    while steps:
        ended = {s for s in steps if not s.waiting or not any(s.free)}
        reached |= {s.admitted for s in ended}
        steps = {after for s in steps - ended for after in choices(s, rules)}
    return reached


def decision(assignment: Sequence[int | None], waiting: Sequence[int], workers: int) -> Decision:
    """Turn an assignment (worker or None per waiting request) into the sizes of each worker."""
    return tuple(
        tuple(sorted(s for s, g in zip(waiting, assignment, strict=True) if g == worker))
        for worker in range(workers)
    )


def _changed(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])


# Equation (1).


@CLAIMS.formula("route.eq1", Mutation("G + 1 in place of G", penalty=1), kind=Kind.IDENTITY)
def _eq1_check(context: Context, *, penalty: int = 0) -> Outcome:
    """The F-score is the drop in imbalance.

    Source: BalanceRoute paper, eq. (1) (section 3.1)
    Statement: Admitting a set of total size Δ to worker g with safe margin m changes the imbalance
        by −F; F is Δ up to the margin and falls by G − 1 per unit beyond it.
    Formula: F(S, g) = Δ − G·max(0, Δ − m_g) = Imbalance(before) − Imbalance(after)
    Summary: An identity; the two regimes meet at the margin.
    """
    largest, most = context.choose((3, 6), (6, 12), (9, 25))
    cases = [
        (loads, g, added)
        for G in (1, 2, 3)
        for loads in vectors(G, largest)
        for g in range(G)
        for added in range(most + 1)
    ]

    def holds(case: tuple[tuple[int, ...], int, int]) -> bool:
        loads, g, added = case
        G, margin = len(loads), max(loads) - loads[g]
        after = [load + added * (h == g) for h, load in enumerate(loads)]
        weights = ScoreWeights.of(Fraction(1), Fraction(G + penalty), (1,))
        regime = added if added <= margin else G * margin - (G - 1) * added
        return score([added], [margin], weights) == imbalance(loads) - imbalance(
            after
        ) and regime == imbalance(loads) - imbalance(after)

    return examine(
        "F(S, g) = Imbalance before − after, and both regimes",
        f"all loads up to {largest} of 1 to 3 workers, all added loads up to {most}",
        cases,
        holds,
    )


# The score over a window, eq. (2).


def slope(added: int, margins: Sequence[int], weights: ScoreWeights) -> int:
    """Slope of F_H just above ``added``: reward less the penalties of overflowing steps."""
    overflown = (p for p, m in zip(weights.penalty, margins, strict=True) if added >= m)
    return sum(weights.reward) - sum(overflown)


@CLAIMS.remark(
    "route.regimes",
    Mutation("safe up to the current margin m_g(0)", safe="current"),
    kind=Kind.IDENTITY,
)
def _regimes_check(context: Context, *, safe: str = "window") -> Outcome:
    """Two regimes of the F-score over a window.

    Source: BalanceRoute paper, section 4.1, on eq. (2)
    Statement: F_H is piecewise linear in Δ with two regimes: safe, Δ ≤ min_h m_g(h), where
        the penalty vanishes and F_H is linear; and overflow, where the penalty activates step by
        step.
    Formula: F_H = α·Δ·Σ_h γ^h for Δ ≤ min_h m_g(h);  beyond, slope α·Σ_h γ^h − β·Σ_{h: m_g(h) < Δ}
        γ^h
    Assumes: contributions constant over the window; α, β > 0
    Summary: The second regime is not linear but concave, with a kink at each margin, as "step by
        step" says and appendix D.4 counts: up to H + 1. For α = 1, β = G, F_H is the discounted
        drop in imbalance (route.eq1 at each step).
    """
    largest, steps = context.choose((4, 3), (6, 3), (8, 4))
    cases = [
        (margins, beta)
        for length in range(1, steps + 1)
        for margins in product(range(largest), repeat=length)
        for beta in (1, 2, 5)
    ]

    def holds(case: tuple[tuple[int, ...], int]) -> bool:
        margins, beta = case
        weights = discounted(margins, beta)
        values = [score([x] * len(margins), margins, weights) for x in range(2 * largest)]
        limit = min(margins) if safe == "window" else margins[0]
        return (
            all(values[x] == x * sum(weights.reward) for x in range(limit + 1))
            and all(values[x] < x * sum(weights.reward) for x in range(limit + 1, 2 * largest))
            and all(
                values[x + 1] - values[x] == slope(x, margins, weights)
                for x in range(2 * largest - 1)
            )
        )

    return examine(
        "linear up to min_h m(h), below that line beyond, each margin lowers the slope",
        f"all margins below {largest} over up to {steps} steps, β = 1, 2, 5, falling discounts",
        cases,
        holds,
    )
