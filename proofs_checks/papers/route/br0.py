"""BR-0 enumerated by sections 3.1 and 3.2, compared with the paper's sentences and the toolkit.

If the paper leaves a choice among requests (equal scores), every choice is followed. Requests of
equal size are interchangeable, so a decision is the sorted sizes that each worker admits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, combinations, combinations_with_replacement, product
from typing import TypeVar

import numpy as np

from bfio.step.two_stage.fscore import ScoreWeights, score
from bfio.step.two_stage.heuristic import TwoStageParameters, two_stage_reference
from formulations.arrays import IntArray
from proofs_checks.claim import Claims, Context, Defect, Effort, Kind, Mutation
from proofs_checks.evidence import Outcome, dismiss_if, verifier
from proofs_checks.papers.route.probes import discounted
from proofs_checks.runs import imbalance, multisets, vectors
from proofs_checks.search import examine

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
    """The parameters of BR-0, which mutations of checks may change.

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
    """The state of BR-0 within one step: the decision so far, and what is left.

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
        """Return ``m_g = max_h L_h − L_g``."""
        return max(self.loads) - self.loads[worker]

    def after(self, worker: int, sizes: tuple[int, ...]) -> "PartialStep":
        """Return the state after a worker admits requests of these sizes."""
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
    """Return ``F = Δ − G·max(0, Δ − m)`` (eq. 1)."""
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

    def holds(loads: tuple[int, ...], g: int, added: int) -> bool:
        G, margin = len(loads), max(loads) - loads[g]
        after = [load + added * (h == g) for h, load in enumerate(loads)]
        weights = ScoreWeights.of(Fraction(1), Fraction(G + penalty), (1,))
        regime = added if added <= margin else G * margin - (G - 1) * added
        drop = imbalance(loads) - imbalance(after)
        return score([added], [margin], weights) == regime == drop

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

    def holds(margins: tuple[int, ...], beta: int) -> bool:
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


def emptiest(active: Sequence[Sequence[int]]) -> int | None:
    """Return the worker with the most free slots; None if there is a tie."""
    counts = [len(requests) for requests in active]
    return counts.index(min(counts)) if counts.count(min(counts)) == 1 else None


def best_single(waiting: Sequence[int], margin: int, workers: int) -> set[int]:
    """Return the sizes of highest F-score for a worker with this margin."""
    scores = {size: f_score(size, margin, workers) for size in waiting}
    return {size for size, value in scores.items() if value == max(scores.values())}


@verifier
def verify_stage1(
    slots: int, threshold: int, active: list[list[int]], waiting: list[int]
) -> str | None:
    """Confirm that stage 1 sends an unsafe request, contrary to the sentence."""
    dismiss_if(len(active) < 2 or len(waiting) < 2 or min(waiting) < 1 or threshold < 1)
    dismiss_if(any(not 1 <= len(requests) <= slots or min(requests) < 1 for requests in active))
    free = sum(slots - len(requests) for requests in active)
    worker = emptiest(active)
    if worker is None or free <= threshold:
        return None
    loads = [sum(requests) for requests in active]
    margin = max(loads) - loads[worker]
    sent = best_single(waiting, margin, len(active))
    # Every part of the sentence must fail: safe request, largest request, lightest worker.
    dismiss_if(min(sent) <= margin or max(waiting) in sent or loads[worker] == min(loads))
    return (
        f"loads {loads}, {[slots - len(r) for r in active]} free slots, θ = {threshold}, "
        f"sizes {waiting} waiting: the worker with most free slots has the load {loads[worker]} "
        f"and the margin {margin}, and the request of highest score for it has the size "
        f"{min(sent)}"
    )


#: Slots of each worker, θ, active requests by worker, waiting requests.
_State = tuple[int, int, tuple[tuple[int, ...], ...], tuple[int, ...]]


def _states(context: Context) -> Iterator[_State]:
    """Yield small clusters with active requests and a unique emptiest worker."""
    largest, slots = context.choose((3, 3), (4, 3), (4, 4))
    sizes = range(1, largest + 1)
    rows = [row for n in range(1, slots + 1) for row in combinations_with_replacement(sizes, n)]
    for active in product(rows, repeat=2):
        if len(active[0]) != len(active[1]) and sum(map(len, active)) < 2 * slots - 1:
            yield from ((slots, 1, active, waiting) for waiting in multisets(2, largest))


def _as_toolkit(state: _State, penalty: int | None) -> bool:
    """Return whether the toolkit's BR-0 makes one of the decisions that enumerated BR-0 allows."""
    slots, threshold, active, waiting = state
    free, loads = [slots - len(row) for row in active], list(map(sum, active))
    beta = None if penalty is None else Fraction(penalty)
    assignment = two_stage_reference(
        np.array(free), np.array(loads)[:, None], np.array(waiting)[:, None], (1,),
        TwoStageParameters(threshold=threshold, beta=beta),
    )  # fmt: skip
    by_hand = decisions(free, loads, waiting, Rules(threshold, len(waiting)))
    return decision(assignment, waiting, len(free)) in by_hand


@CLAIMS.remark(
    "route.stage1",
    Mutation("all requests of one size", alike=True),
    Mutation("safe requests only in the correction", fits=True),
    Mutation("the toolkit's BR-0 without a penalty", penalty=0),
    defect=Defect.SENTENCE,
    verify=verify_stage1,
)
def _stage1_check(
    context: Context, *, alike: bool = False, fits: bool = False, penalty: int | None = None
) -> Outcome:
    """The safe regime of stage 1.

    Source: BalanceRoute paper, section 3.2, stage 1
    Statement: While more than θ slots are free, the worker with most free slots admits the single
        request of highest score. Because it has the largest spare capacity it is in the safe
        regime, F = s_i: the largest waiting request goes to the lightest worker with most free
        slots.
    Formula: g* = argmax_g cap_g  ⇒  s_i ≤ m_{g*},  i = argmax s_i,  L_{g*} = min_g L_g
    Assumes: Σ_g cap_g > θ; BR-0
    Summary: A worker with few but long requests can have most free slots and the highest load;
        then its margin is 0, every request overflows, and the smallest does least harm. An empty
        cluster is another case.
    Reading: a counterexample breaks all three parts, and every worker in it is at work.
    Correction: Free slots count requests, margins count tokens. Stage 1 sends the largest request
        that fits the margin of g* or the smallest that does not, whichever scores higher; the
        largest one if all fit, and the smallest one if none does.
    """
    cases = [
        state
        for state in _states(context)
        # If all requests have the same size, fewer requests mean a smaller load.
        if not alike or len(set(chain(*state[2], state[3]))) == 1
    ]
    domain = context.domain(
        "two workers with a few active requests, two waiting, small sizes", cases
    )
    printed = domain.refute(
        "stage 1 sends a safe request, or the largest one, or to the lightest worker"
    )

    def corrected_holds(
        _: int, __: int, active: Sequence[Sequence[int]], waiting: Sequence[int]
    ) -> bool:
        loads = list(map(sum, active))
        margin = max(loads) - loads[emptiest(active) or 0]
        safe = [size for size in waiting if size <= margin]
        over = [size for size in waiting if size > margin]
        candidates = {*([max(safe)] if safe else []), *([min(over)] if over and not fits else [])}
        sent = best_single(waiting, margin, len(loads))
        return bool(candidates) and sent <= candidates and (bool(over) or sent == {max(safe)})

    corrected = domain.examine(
        "it sends the largest request up to the margin or the smallest above; if all are up to "
        "the margin, the largest", corrected_holds
    )  # fmt: skip
    toolkit = examine(
        "the toolkit's BR-0 takes a decision of BR-0 by hand", "a part of the same",
        cases[:: context.choose(4, 2, 1)], lambda *state: _as_toolkit(state, penalty),
    )  # fmt: skip
    return printed, corrected, toolkit


#: Decides from free slots, loads, sizes, window weights and parameters.
Router = Callable[
    [IntArray, IntArray, IntArray, tuple[int, ...], TwoStageParameters], list[int | None] | None
]


@dataclass(frozen=True)
class RandomStep:
    """A step: free slots, loads and sizes [tokens], threshold, candidates."""

    free: tuple[int, ...]
    loads: tuple[int, ...]
    sizes: tuple[int, ...]
    threshold: int
    candidates: int


@dataclass(frozen=True)
class Break:
    """The changes of a mutation: to factors of BR-H, or to parameters of BR-0."""

    beta: int = 0
    threshold: int = 0
    candidates: int | None = None
    key: Key = free_then_margin


_INTACT = Break()


def _cases(context: Context) -> Iterator[RandomStep]:
    rng = context.rng
    for n in range(context.choose(150, 1500, 20_000)):
        G, N = int(rng.integers(1, 4)), int(rng.integers(1, 7))
        # Every second step has few distinct numbers, so that keys, margins and scores tie.
        load, size = ((30, 12), (3, 4))[n % 2]
        yield RandomStep(
            tuple(rng.integers(0, 4, G).tolist()),
            tuple(rng.integers(0, load, G).tolist()),
            tuple(rng.integers(1, size, N).tolist()),
            int(rng.integers(0, 5)),
            (6, 6, 2, 3)[n % 4],
        )


def _two_routers(case: RandomStep, broken: Break, route: Router) -> list[list[int | None] | None]:
    """Return BR-H's decisions with the defaults, and with explicit α, β and discount."""
    arrays = (
        np.array(case.free, dtype=np.int64),
        np.array(case.loads, dtype=np.int64)[:, None],
        np.array(case.sizes, dtype=np.int64)[:, None],
    )
    explicit = TwoStageParameters(
        threshold=case.threshold,
        candidates=case.candidates,
        alpha=Fraction(1),
        beta=Fraction(len(case.free) + broken.beta),
    )
    # At most six requests wait, so without a limit all are candidates.
    limit = None if case.candidates == 6 else case.candidates
    default = TwoStageParameters(threshold=case.threshold, candidates=limit)
    # A discount has no effect if there is only one step.
    return [route(*arrays, (1,), default), route(*arrays, (7,), explicit)]


def _decides_as_by_hand(case: RandomStep, broken: Break, route: Router) -> bool:
    rules = Rules(
        case.threshold + broken.threshold, broken.candidates or case.candidates, broken.key
    )
    allowed = decisions(case.free, case.loads, case.sizes, rules)
    one, other = _two_routers(case, broken, route)
    return (
        one is not None and one == other and decision(one, case.sizes, len(case.free)) in allowed
    )


def _routers(context: Context) -> Iterator[tuple[str, Router]]:
    yield "readable", two_stage_reference
    if context.effort is not Effort.QUICK:
        # Loading the compiled kernels takes too long for quick effort, and for listing claims.
        from bfio.step.two_stage.heuristic import two_stage_compiled

        yield "compiled", two_stage_compiled


@CLAIMS.remark(
    "route.family",
    Mutation("β = G + 3", broken=Break(beta=3)),
    Mutation("≥ θ in place of > θ", broken=Break(threshold=-1)),
    Mutation("one candidate in stage 2", broken=Break(candidates=1)),
    Mutation(
        "the smallest margin first among workers with equally many free slots",
        broken=Break(key=free_then_small_margin),
    ),
)
def _family_check(context: Context, *, broken: Break = _INTACT) -> Outcome:
    """BR-0 is BR-H with H = 0.

    Source: BalanceRoute paper, sections 3.2 and 4, and contributions
    Statement: With H = 0, α = 1 and β = G the two-stage algorithm of BR-H takes the decisions of
        BR-0, whatever the discount.
    Formula: F_0(S, g; α = 1, β = G) = F(S, g)
    Assumes: the same threshold and candidates
    Summary: With H = 0, α = 1, β = G the score of BR-H is that of BR-0. BR-0 is written from the
        paper's text for this check and shares nothing with the toolkit's.
    Reading: what the paper leaves open, as in the toolkit's description: the queue's key is free
        slots, then margin, then index, in both stages; the candidates are the largest waiting
        requests; where no subset has a positive score, the best single request of all that wait
        goes. Requests of one size, and sets of equal score, are exchangeable.
    """
    cases = list(_cases(context))
    seen = [
        examine(
            f"BR-H takes a decision of BR-0 by hand ({name} version), with the defaults and with "
            "α, β and a discount written out",
            "random steps of up to 3 workers and 6 requests, any threshold, every other one with "
            "many ties; all choices among equal scores followed",
            cases,
            partial(_decides_as_by_hand, broken=broken, route=route),
        )
        for name, route in _routers(context)
    ]
    return tuple(seen)
