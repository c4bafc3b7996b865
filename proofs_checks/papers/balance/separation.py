"""Lemmas 2 and 5: one admission step separates prompt sizes and contracts the gap.

Both lemmas concern one step. Let c_g be the free slots, all filled, A the
spread of the loads before admission and s an upper bound on sizes. On the event |c_g − Bp| ≤ δBp
for all g, the tightest form of ``A − γBp`` over all δ and Bp that fit the counts is

    A − (s·c_min − (s − 1)·c_max),

attained at Bp = (c_min + c_max)/2; it needs δ < 1/(2s − 1), that is s·c_min > (s − 1)·c_max.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, exp, floor

from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Data, Examination, Findings, Outcome
from proofs_checks.exact_laws import binomial_tail
from proofs_checks.search import examine
from proofs_checks.step_enumeration import Loads, gap, multisets, reachable_loads

CLAIMS = Claims()


Measure = Callable[[Loads], int]


@dataclass(frozen=True)
class Step:
    """Loads before admission, free slots and pool of one step."""

    base: tuple[int, ...]
    slots: tuple[int, ...]
    pool: tuple[int, ...]

    @property
    def bound(self) -> int:
        """The lemma's bound on the gap, for s the largest size in the pool."""
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


def step_of(data: Data) -> Step | None:
    """Read a step from plain data; None if the data are not a step."""
    workers = data["workers"]
    step = Step(
        tuple(w["base"] for w in workers), tuple(w["slots"] for w in workers), tuple(data["pool"])
    )
    sound = (
        len(workers) >= 1
        and min(step.base) >= 0
        and min(step.slots) >= 1
        and min(step.pool, default=0) >= 1
        and len(step.pool) >= sum(step.slots)
    )
    return step if sound else None


def within(step: Step) -> bool:
    """Whether the step meets the hypotheses of the lemma."""
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
    """Yield random steps whose loads are far apart; few can be brought within s_max."""
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

    def holds(case: tuple[Step, list[Loads]]) -> bool:
        nonlocal met
        step, minimisers = case
        bound = step.bound - sharper * (step.bound > max(step.pool))
        met += any(gap(loads) == bound > max(step.pool) for loads in minimisers)
        return all(gap(loads) <= bound for loads in minimisers)

    made = f"{domain(context)}; random steps of 2 to 4 workers with loads far apart"
    level = examine(
        "D ≤ max{s_max, A_pre − γBp} for every minimiser of D, where D ≤ s_max can be had", made,
        solved, holds, lambda case: min(map(gap, case[1])) <= max(case[0].pool),
    )  # fmt: skip
    apart = examine(
        "D ≤ A_pre − γBp for every minimiser of D, where D ≤ s_max cannot be had", made,
        solved, holds, lambda case: min(map(gap, case[1])) > max(case[0].pool),
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

    def bound(case: Completions) -> float:
        B, p, delta, G = case
        return 2 * G * exp(-float(rate * delta**2 * B * p))

    def holds(case: Completions) -> bool:
        B, p, delta, G = case
        least = ceil((1 - delta) * B * p / together)
        inside = range(least, floor((1 + delta) * B * p / together) + 1)
        outside = binomial_tail(B // together, p, inside)
        some = 1 - (1 - outside) ** G
        return float(some) <= bound(case) * (1 - 1e-9)

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
        lambda case: bound(case) < 1,
    )


# Lemma 5: separation and gap reduction where requests grow by a common increment.


@dataclass(frozen=True)
class DriftStep:
    """One step with the state before it: sizes in slots, completions, the increment, the pool."""

    sizes: tuple[tuple[int, ...], ...]
    completes: tuple[tuple[bool, ...], ...]
    increment: int
    pool: tuple[int, ...]

    def after_growth(self) -> Step:
        """Return the step before admission."""
        rows = [
            [size + self.increment for size, ends in zip(row, done, strict=True) if not ends]
            for row, done in zip(self.sizes, self.completes, strict=True)
        ]
        return Step(
            tuple(map(sum, rows)), tuple(map(sum, self.completes)), self.pool
        )  # fmt: skip


def _drift_steps(context: Context) -> Iterator[DriftStep]:
    rng = context.rng
    for _ in range(context.choose(150, 1500, 20_000)):
        G = int(rng.integers(2, 4))
        B, done = 3, int(rng.integers(1, 3)) if G == 2 else 1
        # Sizes far above those of the pool leave gaps that one admission cannot close.
        sizes = rng.integers(1, 25, (G, B)).tolist()
        pattern = tuple(i < done for i in range(B))
        pool = rng.integers(1, 4, G * done + 3).tolist()
        increment = int(rng.integers(0, 4))
        yield DriftStep(tuple(map(tuple, sizes)), (pattern,) * G, increment, tuple(pool))


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
    unaffected = examine(
        "a common increment leaves the gap as it is",
        "random steps of 2 or 3 workers with 3 requests each and increments 0..3",
        steps,
        lambda s: (
            gap(tuple(map(sum, s.sizes)))
            == gap(
                tuple(
                    sum(
                        a + (s.increment if shared or (g + i) % 2 else 0)
                        for i, a in enumerate(row)
                    )
                    for g, row in enumerate(s.sizes)
                )
            )
        ),
    )
    contracted = examine(
        "D ≤ max{s_max, A_pre − γBp}",
        "the same steps, some requests ending",
        steps,
        lambda s: all(
            gap(loads) <= s.after_growth().bound for loads in s.after_growth().minimisers(gap)
        ),
        lambda s: within(s.after_growth()),
    )
    return unaffected, contracted
