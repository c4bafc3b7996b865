"""Lemmas 2 and 5: one admission step separates prompt sizes and contracts the gap.

Both lemmas concern one step. Let c_g be the free slots, all filled, A the
spread of the loads before admission and s an upper bound on sizes. On the event |c_g − Bp| ≤ δBp
for all g, the tightest form of ``A − γBp`` over all δ and Bp that fit the counts is

    A − (s·c_min − (s − 1)·c_max),

attained at Bp = (c_min + c_max)/2; it needs δ < 1/(2s − 1), that is s·c_min > (s − 1)·c_max.

The lemma minimises the gap. The policy that section 4 defines minimises the imbalance. The
statement that holds for every minimiser of its program (IO) is proved in
``proofs/separation-levels.md``: some assignment leaves worker q at most max{s_max − s_min,
d_q − Γ} below the maximum, so the sum of these terms bounds the least imbalance.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product
from math import ceil, exp, floor
from typing import Any

import numpy as np

from bfio.testing.balance import contraction, distance_bounds
from formulations.arrays import IntArray
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Examination, Findings, Outcome, dismiss_if, verifier
from proofs_checks.runs import Loads, gap, imbalance, multisets, reachable_loads
from proofs_checks.search import examine
from proofs_checks.statistics import binomial_tail

CLAIMS = Claims()


Measure = Callable[[Loads], int]


@dataclass(frozen=True)
class Step:
    """One admission step: loads before admission, free slots and pool."""

    base: tuple[int, ...]
    slots: tuple[int, ...]
    pool: tuple[int, ...]

    @property
    def bound(self) -> int:
        """The lemma's bound on the gap, with s the largest size in the pool [tokens]."""
        s, most, least = max(self.pool), max(self.slots), min(self.slots)
        return max(s, gap(self.base) - (s * least - (s - 1) * most))

    @property
    def counts_agree(self) -> bool:
        """Whether the free slots are close enough to each other for some δ < 1/(2s − 1)."""
        s = max(self.pool)
        return s * min(self.slots) > (s - 1) * max(self.slots)

    @property
    def overloaded(self) -> bool:
        """Definition 1 at this step: the pool still fills all slots if any one size is removed."""
        largest_class = max(Counter(self.pool).values())
        return len(self.pool) - largest_class >= sum(self.slots)

    def minimisers(self, measure: Measure) -> list[Loads]:
        """Return the loads of all assignments that minimise a measure."""
        reached = reachable_loads(self.base, self.slots, self.pool)
        best = min(map(measure, reached))
        return sorted(loads for loads in reached if measure(loads) == best)

    def to_data(self) -> Data:
        """Return the step as plain data, one record per worker."""
        workers = [{"base": b, "slots": c} for b, c in zip(self.base, self.slots, strict=True)]
        return {"workers": workers, "pool": list(self.pool)}


def step_of(data: Data) -> Step:
    """Read a step from plain data, and dismiss data that are not a step."""
    workers = data["workers"]
    step = Step(
        tuple(w["base"] for w in workers), tuple(w["slots"] for w in workers), tuple(data["pool"])
    )
    dismiss_if(not workers or min(step.base) < 0 or min(step.slots) < 1)
    dismiss_if(min(step.pool, default=0) < 1 or len(step.pool) < sum(step.slots))
    return step


def within(step: Step) -> bool:
    """Return whether the step meets the hypotheses of the lemma."""
    return step.counts_agree and step.overloaded


# Lemma 2: minimisers of the gap.


def small_steps(context: Context) -> Iterator[Step]:
    """Yield every step of a small domain; one worker has load 0 before admission."""
    for slots, count, largest, spread in context.choose(_QUICK, _NORMAL, _DEEP):
        for pool in multisets(count, largest):
            for base in product(range(spread + 1), repeat=len(slots) - 1):
                yield Step((*base, 0), slots, pool)


def domain(context: Context) -> str:
    """Return the domain of `small_steps` in words."""
    parts = [
        f"free slots {slots}, {count} sizes up to {largest}, loads up to {spread}"
        for slots, count, largest, spread in context.choose(_QUICK, _NORMAL, _DEEP)
    ]
    return "every step with " + "; ".join(parts)


#: Slots, pool, largest size, largest load before admission.
_QUICK = (((1, 1), 3, 3, 5), ((1, 1), 4, 2, 5), ((2, 3), 10, 2, 5), ((1, 1, 1), 5, 3, 3))
_NORMAL = (*_QUICK, ((2, 2), 6, 3, 6), ((1, 1, 1), 5, 4, 6), ((1, 1, 1), 6, 3, 6))
_DEEP = (*_NORMAL, ((2, 2, 2), 9, 3, 6), ((1, 1, 1, 1), 6, 3, 5), ((1, 1, 1), 6, 5, 9))


def steps_apart(context: Context) -> Iterator[Step]:
    """Yield random steps with a large spread of loads, which few admissions reduce to s_max."""
    rng = context.rng
    for _ in range(context.choose(60, 800, 30_000)):
        G, slots = int(rng.integers(2, 5)), 1
        largest = int(rng.integers(2, 9))
        if G < 4:
            slots = int(rng.integers(1, 3 if G == 3 else 4))
        pool = rng.integers(1, largest + 1, G * slots + int(rng.integers(2, 4))).tolist()
        base = rng.integers(0, 4 * largest * slots, G).tolist()
        yield Step(tuple(base), (slots,) * G, tuple(pool))


#: Slots of a worker, completion probability, relative deviation, workers.
Completions = tuple[int, Fraction, Fraction, int]

#: Slots and completion probability where the bound is nearly tight: many slots, few freed.
_TIGHT = (3000, Fraction(1, 60))
_DELTAS = (Fraction(1, 20), Fraction(1, 5), Fraction(1, 2), Fraction(9, 10))


#: Hypotheses and formula of the lemma.
HYPOTHESES = (
    "overloaded pool (Definition 1)",
    "all c_g free slots are filled",
    "|c_g − Bp| ≤ δBp for all g with 0 < δ < 1/(2·s_max − 1)",
)


FORMULA = (
    "D(k) ≤ max{s_max, A_pre(k) − γBp} with probability ≥ 1 − 2G·exp(−δ²Bp/3),  "
    "γ = 1 − δ(2·s_max − 1)"
)


@CLAIMS.result(
    "balance.lemma2",
    Mutation("the overloaded pool dropped", applies=lambda s: s.counts_agree),
    Mutation("the opposite policy: the largest gap", measure=lambda x: -gap(x)),
    Mutation("one token more of contraction", sharper=1),
    Mutation("the rate 1/3 raised to 1/2", rate=Fraction(1, 2)),
    Mutation("requests that end in pairs", together=2),
    Mutation("δ = 5, beyond 1", deltas=(Fraction(5),)),
    formula=FORMULA,
    hypotheses=HYPOTHESES,
    proof="separation-levels",
)
def _lemma2_check(
    context: Context,
    *,
    applies: Callable[[Step], bool] = within,
    measure: Measure = gap,
    sharper: int = 0,
    rate: Fraction = Fraction(1, 3),
    deltas: Sequence[Fraction] = _DELTAS,
    together: int = 1,
) -> Outcome:
    """Separation and gap reduction.

    Source: BF-IO paper, Lemma 2 (appendix C.2)
    Statement: If the assignment of a step minimises the gap D, then on the event that all workers
        free nearly Bp slots the gap is at most the larger of s_max and A_pre − γBp.
    Summary: The event bound and the one-step bound hold, and the latter is sharp: with sizes θ and
        θ + 1 waiting it is met. The printed proof swaps x > y only; if the heavy and the light
        worker hold equal sizes there is nothing to swap, and it is the overloaded pool that must
        supply a different size.
    Reading: BF-IO is read, as in the lemma's proof, as a minimiser of D; own.separation-program
        takes the program of section 4 instead. The bound is checked in its tightest form over δ.
    """
    steps = filter(applies, (*small_steps(context), *steps_apart(context)))
    solved = [(step, step.minimisers(measure)) for step in steps]
    met = 0

    def holds(step: Step, minimisers: list[Loads]) -> bool:
        nonlocal met
        bound = step.bound - sharper * (step.bound > max(step.pool))
        met += any(gap(loads) == bound > max(step.pool) for loads in minimisers)
        return all(gap(loads) <= bound for loads in minimisers)

    made = f"{domain(context)}; random steps of 2 to 4 workers with loads far apart"
    level = examine(
        "D ≤ max{s_max, A_pre − γBp} for every minimiser of D, where D ≤ s_max can be had", made,
        solved, holds, lambda step, minima: min(map(gap, minima)) <= max(step.pool),
    )  # fmt: skip
    apart = examine(
        "D ≤ A_pre − γBp for every minimiser of D, where D ≤ s_max cannot be had", made,
        solved, holds, lambda step, minima: min(map(gap, minima)) > max(step.pool),
    )  # fmt: skip
    return Findings(
        level,
        apart,
        _chernoff(context, rate, deltas, together),
        numbers={"steps that meet A_pre − γBp > s_max with equality": met},
    )


def _chernoff(
    context: Context, rate: Fraction, deltas: Sequence[Fraction], together: int
) -> Examination[Completions]:
    """Compare ``P(some |c_g − Bp| > δBp)`` with ``2G·exp(−δ²Bp/3)``, exactly on the left.

    Requests end in groups of ``together``: independently unless a mutation changes it.
    """
    slots = context.choose((8, 40), (8, 40, 100, 200), (8, 40, 100, 200, 500))
    chances = [Fraction(k, 10) for k in (1, 3, 5, 8)]

    def bound(B: int, p: Fraction, delta: Fraction, G: int) -> float:
        return 2 * G * exp(-float(rate * delta**2 * B * p))

    def holds(case: Completions) -> bool:
        B, p, delta, G = case
        least = ceil((1 - delta) * B * p / together)
        inside = range(least, floor((1 + delta) * B * p / together) + 1)
        outside = binomial_tail(B // together, p, inside)
        some = 1 - (1 - outside) ** G
        return float(some) <= bound(*case) * (1 - 1e-9)

    cases = [
        (B, p, d, G)
        for (B, p), d, G in product((*product(slots, chances), _TIGHT), deltas, (2, 16))
    ]
    return examine(
        "P(|c_g − Bp| > δBp for some g) ≤ 2G·exp(−δ²Bp/3)",
        f"exact binomial sums for B in {slots}, p and δ on a grid, and for B = {_TIGHT[0]}, p = "
        f"{_TIGHT[1]}, G = 2 and 16; where the bound is below 1",
        cases,
        holds,
        lambda *case: bound(*case) < 1,
    )


# Lemma 5: separation and gap reduction where requests grow by a common increment.


#: Sizes in the slots, shape (G, B), the increment, and the step after growth and completions.
Drifting = tuple[IntArray, int, Step]


def _drift_steps(context: Context) -> Iterator[Drifting]:
    rng = context.rng
    for _ in range(context.choose(150, 1500, 20_000)):
        G = int(rng.integers(2, 4))
        B, done = 3, int(rng.integers(1, 3)) if G == 2 else 1
        # Sizes far above those of the pool leave gaps that one admission cannot close.
        sizes = rng.integers(1, 25, (G, B))
        pool = rng.integers(1, 4, G * done + 3).tolist()
        increment = int(rng.integers(0, 4))
        # The first requests of each worker end.
        base = (sizes[:, done:] + increment).sum(axis=1).tolist()
        yield sizes, increment, Step(tuple(base), (done,) * G, tuple(pool))


@CLAIMS.result(
    "balance.lemma5",
    Mutation("increments that requests do not share (by age)", shared=False),
    formula=FORMULA,
    hypotheses=(*HYPOTHESES, "one increment δ_k ≥ 0 for all requests alive at step k"),
    proof="separation-levels",
)
def _lemma5_check(context: Context, *, shared: bool = True) -> Outcome:
    """Separation and gap reduction under drift.

    Source: BF-IO paper, Lemma 5 (appendix C.3)
    Statement: Lemma 2 holds unchanged if every alive request grows by δ_k at step k.
    Summary: Growth that all requests share shifts every load by Bδ and cancels in A_pre; the rest
        is Lemma 2.
    """
    steps = list(_drift_steps(context))

    def keeps_gap(sizes: IntArray, increment: int, _: Step) -> bool:
        grows = shared | (np.indices(sizes.shape).sum(axis=0) % 2 > 0)
        after = sizes + increment * grows
        return bool(np.ptp(sizes.sum(axis=1)) == np.ptp(after.sum(axis=1)))

    unaffected = examine(
        "a common increment leaves the gap as it is",
        "random steps of 2 or 3 workers with 3 requests each and increments 0..3",
        steps,
        keeps_gap,
    )
    contracted = examine(
        "D ≤ max{s_max, A_pre − γBp}",
        "the same steps, some requests ending",
        steps,
        lambda _, __, step: all(gap(loads) <= step.bound for loads in step.minimisers(gap)),
        lambda _, __, step: within(step),
    )
    return unaffected, contracted


def deficit_bounds(step: Step, sharper: int = 0) -> list[int]:
    """Return ``max{s_max − s_min, d_q − Γ}`` for each worker q."""
    return [bound - sharper for bound in distance_bounds(step.base, step.slots, step.pool)]


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
        before admission, and Γ = s_max·c_min − (s_max − 1)·c_max. So a minimiser of the gap has at
        most the largest of these as its gap, and every minimiser of the imbalance at most their
        sum as its imbalance. On the event |c_g − Bp| ≤ δBp for all g, Γ ≥ γBp with γ = 1 −
        δ(2·s_max − 1).
    Formula: max_h L_h − L_q ≤ max{s_max − s_min, max_h a_h − a_q − Γ} for all q
    Assumes: overloaded pool (Definition 1); each worker has a free slot, all are filled
    Summary: The assignment with the least maximum, then the fewest workers at it, then the largest
        total does it: no waiting request may be smaller than one on the heaviest worker, nor
        larger than one on a worker far below, and an overloaded pool has a second size. It needs
        no δ, mends the proof of Lemma 2 and serves the program (IO) as well.
    """
    steps = filter(applies, (*small_steps(context), *steps_apart(context)))
    solved = [(step, levelled(step)) for step in steps]

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
        examine(
            "Γ ≥ γBp with the least δ that fits",
            "all s_max up to 5, c_min and c_max up to 7, Bp = 1/2, 1, ..., 8",
            product(range(1, 6), range(1, 8), range(1, 8), range(1, 17)),
            lambda s, least, most, twice: (
                2 * contraction((least, most), (s,))
                >= twice - (2 * s - 1) * max(abs(2 * least - twice), abs(2 * most - twice))
            ),
        ),
    )


# The same statement for the program that the policy solves.


@verifier
def verify_program(data: Data) -> str:
    """Confirm that no minimiser of the imbalance meets the lemma's bound."""
    step = step_of(data)
    dismiss_if(not within(step))
    minimisers = step.minimisers(imbalance)
    dismiss_if(any(gap(loads) <= step.bound for loads in minimisers))
    return (
        f"the minimisers of the imbalance have the loads {[list(x) for x in minimisers]}, gaps "
        f"{[gap(x) for x in minimisers]}, all above the bound {step.bound}"
    )


def imbalance_bounded(step: Step, sharper: int = 0) -> bool:
    """Return whether the least imbalance is at most the sum of all bounds except the smallest."""
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
    printed = context.refute(
        "D ≤ max{s_max, A_pre − γBp} for some minimiser of (IO)",
        f"one integer program over all overloaded steps of {workers} workers with one free slot, "
        f"{workers + 2} sizes up to {largest} and loads up to {spread}: feasible iff one breaks "
        "it",
        [data],
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
        applies,
    )
    return printed, corrected


# Does the program minimise the gap?


@verifier
def verify_objective(data: Data) -> str:
    """Confirm that no minimiser of the imbalance has the least gap."""
    step = step_of(data)
    dismiss_if(not within(step))
    best = min(gap(x) for x in step.minimisers(gap))
    minimisers = step.minimisers(imbalance)
    dismiss_if(best in map(gap, minimisers))
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
    domain = context.domain(
        "overloaded steps with one free slot per worker and two spare requests, small sizes", steps
    )
    printed = domain.refute(
        "some minimiser of (IO) minimises D",
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
