"""Proposition 5 exactly: a decision problem over stage counts bounds every blind policy.

The instance is that of A.3: prompts of one token, half with one decode stage and half with two.
A blind policy does not know the types. Between two iterations its GPU state has three numbers:
prompts before stage 1 of unknown type, prompts before stage 1 known to have a stage 2 (they
reached it and were evicted), and prompts before stage 2. ``proofs/proposition5.md`` proves that
the linear program below bounds every policy for any arrivals.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb, sqrt

import numpy as np

from formulations.arrays import FloatArray
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.papers.fluid.queues import mean_path, poisson_law, reflected_laws
from proofs_checks.search import examine
from proofs_checks.statistics import bounded_mean, mean

CLAIMS = Claims()


#: Prompts on the GPU between iterations: unknown before stage 1, known before stage 1, before
#: stage 2. They hold 1, 1 and 2 tokens each.
State = tuple[int, int, int]
#: ``d0`` and ``d1`` with ``d0 + 9·d1 = 1``, and limits on the bound: a rate that a blind policy
#: without evictions reaches, and the claimed one.
TIMES = (
    (Fraction(1, 2), Fraction(1, 18), Fraction(4649, 1000), Fraction(4704, 1000)),
    (Fraction(1, 4), Fraction(1, 12), Fraction(4818, 1000), Fraction(4840, 1000)),
    (Fraction(1, 10), Fraction(1, 10), Fraction(4925, 1000), Fraction(4932, 1000)),
)


@dataclass(frozen=True)
class Batch:
    """One iteration from a state.

    Parameters
    ----------
    state : tuple of int
        GPU state before the iteration.
    fresh, restarted : int
        Prompts that pass stage 0: of unknown type, and known to have a stage 2.
    unknown, known, last : int
        Prompts that pass stage 1, of each of these kinds, and prompts that pass stage 2.
    """

    state: State
    fresh: int
    restarted: int
    unknown: int
    known: int
    last: int

    @property
    def tokens(self) -> int:
        """Tokens of the batch; they determine its duration."""
        return self.fresh + self.restarted + 2 * (self.unknown + self.known) + 3 * self.last

    @property
    def reward(self) -> int:
        """Mean reward: 2 for a prompt that ends after stage 1, 3 after stage 2."""
        return self.unknown + 3 * self.last

    def outcomes(self) -> Iterator[tuple[State, int, int]]:
        """Yield the next states, with their probabilities as numerator and denominator."""
        u, k, v = self.state
        for longer in range(self.unknown + 1):
            after = (
                u - self.unknown + self.fresh,
                k - self.known + self.restarted,
                v - self.last + self.known + longer,
            )
            yield after, comb(self.unknown, longer), 2**self.unknown


def states(memory: int) -> list[State]:
    """Return all states whose tokens fit in memory."""
    return [
        (u, k, v)
        for v in range(memory // 2 + 1)
        for k in range(memory - 2 * v + 1)
        for u in range(memory - 2 * v - k + 1)
    ]


@cache
def batches(memory: int) -> tuple[Batch, ...]:
    """Return all batches that fit in memory together with the paused prompts, from all states.

    Each member adds one token to the memory in use.
    """
    found = []
    for state in states(memory):
        u, k, v = state
        free = memory - u - k - 2 * v
        for counts in product(
            range(free + 1),
            range(free + 1),
            range(min(u, free) + 1),
            range(min(k, free) + 1),
            range(min(v, free) + 1),
        ):
            if 1 <= sum(counts) <= free:
                found.append(Batch(state, *counts))
    return tuple(found)


def smaller(state: State) -> Iterator[State]:
    """Yield the states after one eviction."""
    for place in range(3):
        if state[place]:
            u, k, v = (n - (place == other) for other, n in enumerate(state))
            yield u, k, v


def values(
    memory: int, start: Fraction, token: Fraction, evicts: bool = True
) -> tuple[float, dict[State, float]]:
    """Solve the linear program: the least rate g, and potentials that prove it.

    Without evictions, g bounds policies that never evict and never run out of fresh prompts.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    index = {state: i for i, state in enumerate(states(memory))}
    entries: list[tuple[int, int, float]] = []
    limits: list[float] = []
    for batch in batches(memory):
        row = len(limits)
        entries.append((row, len(index), -float(start + token * batch.tokens)))
        entries.append((row, index[batch.state], -1.0))
        entries += [(row, index[s], n / d) for s, n, d in batch.outcomes()]
        limits.append(-batch.reward)
    for state in index if evicts else ():
        for after in smaller(state):
            entries += [(len(limits), index[after], 1.0), (len(limits), index[state], -1.0)]
            limits.append(0.0)
    rows, columns, numbers = zip(*entries, strict=True)
    matrix = csr_matrix((numbers, (rows, columns)), (len(limits), len(index) + 1))
    cost = np.zeros(len(index) + 1)
    cost[-1] = 1
    # Without evictions a state may have no feasible batch, and its potential would be unbounded.
    sides = [(None, None) if evicts else (-(10**3), 10**3)] * len(index) + [(None, None)]
    solved = linprog(cost, matrix, limits, bounds=sides, method="highs")
    if solved.status != 0:
        raise ArithmeticError(f"the linear program was not solved: {solved.message}")
    potential = {state: float(solved.x[i] - solved.x[0]) for state, i in index.items()}
    return float(solved.x[-1]), potential


def rounded(potential: dict[State, float], unit: int) -> dict[State, int]:
    """Round potentials to multiples of 1/unit so that no eviction raises them."""
    whole: dict[State, int] = {}
    for state in sorted(potential, key=sum):
        least = max((whole[after] for after in smaller(state)), default=-(10**9))
        whole[state] = max(round(potential[state] * unit), least)
    return whole


def certified_rate(
    potential: dict[State, int], unit: int, memory: int, start: Fraction, token: Fraction
) -> Fraction:
    """Return the least g that the potentials prove, in fractions.

    Raises
    ------
    ArithmeticError
        If an eviction would raise the potential.
    """
    if any(potential[a] > potential[s] for s in potential for a in smaller(s)):
        raise ArithmeticError("an eviction raises the potential")
    # In integer multiples of 1/(unit·2^memory): the largest gain for each duration.
    gains: dict[int, int] = {}
    for batch in batches(memory):
        gain = (batch.reward * unit - potential[batch.state]) << memory
        for state, number, of in batch.outcomes():
            gain += potential[state] * number * (2**memory // of)
        gains[batch.tokens] = max(gain, gains.get(batch.tokens, gain))
    scale = unit * 2**memory
    return max(Fraction(gain, scale) / (start + token * n) for n, gain in gains.items())


# Paused prompts count as tokens of the batch.


_INSTANCE = (
    "l = (1, 1), l' = (1, 2), λ = (1, 1), d0 + 9·d1 = 1, C = M* = 9",
    "Poisson arrivals",
    "the policy does not read the type, and may do all else: wait, pause, evict, use randomness",
)


@CLAIMS.result(
    "fluid.proposition5",
    Mutation("memory of 10", memory=10),
    Mutation("a bound lower by 1/100", less=Fraction(1, 100)),
    hypotheses=(*_INSTANCE, "the KV cache of paused prompts counts toward C"),
    proof="proposition5",
)
def _check(context: Context, *, memory: int = 9, less: Fraction = Fraction(0)) -> Outcome:
    """Not knowing the types costs throughput.

    Source: fluid paper, Proposition 5 (section 5.2)
    Statement: With C = M* there is an instance on which any policy unaware of types has a
        throughput gap of Ω(1).
    Formula: Thr* − E[Thr^(ζ,π)] = Ω(1)
    Summary: On the instance of A.3 every such policy has a throughput of at most 4.704 at d0 =
        1/2, 4.840 at d0 = 1/4 and 4.932 at d0 = 1/10, plus O(1/T), against Thr* = 5: a linear
        program over 125 states, its dual solution checked in fractions. With one token more of
        memory the bound exceeds 5. The bound grows as d0 falls: without evictions a blind policy
        reaches 4.649 at d0 = 1/2, 4.818 at d0 = 1/4 and 4.925 at d0 = 1/10.
    Reading: proven for d0 = 1/2, 1/4 and 1/10, where the paper fixes d0 + 9·d1 = 1 only; paused
        prompts count toward C. The display of section 2.3 sums over the batch only; read so, the
        instance of A.4 has no such gap (fluid.proposition5-batch). There the proposition survives
        for another reason where M* is no integer: no batch then fills it, and everybody falls
        short, aware of types or not (l = l' = 1 with C = M* = 3/2: nobody can ever finish a
        prompt). Whether it does on any other we do not know.
    """
    times = context.choose(TIMES[:1], TIMES, TIMES)
    rates = {}
    for start, token, *_ in times:
        potential = rounded(values(memory, start, token)[1], 10**4)
        rates[start] = certified_rate(potential, 10**4, memory, start, token)
    bounded = examine(
        "Thr ≤ g + O(1/T) for every policy that does not know the types, with g below 5 "
        "and no less than such a policy reaches without evictions",
        "potentials from a linear program, rounded to 1/10,000 and checked in fractions; "
        + "; ".join(f"d0 = {s}, d1 = {t}: g = {float(rates[s]):.4f}" for s, t, *_ in times),
        times,
        lambda fixed, _, reached, most: reached <= rates[fixed] <= most - less,
    )
    numbers = {
        f"rate of the best blind policy without evictions at d0 = {start}": round(
            values(memory, start, token, evicts=False)[0], 5
        )
        for start, token, *_ in context.choose(TIMES[:0], TIMES, TIMES)
    }
    return Findings(bounded, numbers=numbers)


# Only the members of the batch count.


def mean_queue(law: FloatArray, served: int, steps: int) -> FloatArray:
    """Return the mean of a queue after 1, 2, ... steps, from empty, by convolution.

    Parameters
    ----------
    law : FloatArray
        Law of the arrivals of a step.
    served : int
        Most departures of a step, before its arrivals.
    steps : int
        Steps.
    """
    left = mean_path(reflected_laws([law] * (steps - 1), served))
    return np.array(left) + mean(law)


def unfinished(steps: int, replicas: int, starts: int, rng: np.random.Generator) -> FloatArray:
    """Run the blind policy of the proof; return the iterations left for unfinished prompts.

    Shape (R,). In each unit of time up to ``starts`` prompts pass stage 0, all prompts of the
    previous step pass stage 1, and one passes stage 2.
    """
    waiting = np.zeros((2, replicas), dtype=np.int64)
    before = np.zeros((2, replicas), dtype=np.int64)
    last = np.zeros(replicas, dtype=np.int64)
    for _ in range(steps):
        last = np.maximum(last - 1, 0) + before[1]
        total = waiting.sum(axis=0)
        number = np.minimum(total, starts)
        # Types are exchangeable in the queue, so the started prompts are a random sample of it.
        long = np.where(total > 0, rng.hypergeometric(waiting[1], waiting[0], number), 0)
        before = np.stack([number - long, long])
        waiting = waiting - before + rng.poisson(1, (2, replicas))
    left: FloatArray = 2.0 * (waiting[0] + before[0]) + 3.0 * (waiting[1] + before[1] + last)
    return left


@CLAIMS.own(
    "fluid.proposition5-batch",
    Mutation("one start in each iteration", starts=1),
    Mutation("an eighth of the bound on the queues", share=0.125),
    hypotheses=(*_INSTANCE[:2], "paused prompts do not count toward C"),
    kind=Kind.STATISTICAL,
    proof="proposition5",
)
def _batch_only_check(context: Context, *, starts: int = 2, share: float = 1) -> Outcome:
    """Not knowing the types costs nothing if only the batch counts.

    Source: fluid paper, Proposition 5 with the memory constraint of section 2.3 (our question)
    Statement: If the constraint Σ_{i in batch} (l_i + k_i) ≤ C is all, a policy that knows no
        types has on the instance of A.3 and A.4 a throughput gap of at most 9·√(2/T) + 15/T.
    Formula: 5 − E[Thr^T] ≤ 9·√(2/T) + 15/T for T = 1, 2, 3, ...
    Summary: Two prompts through stage 0, two through stage 1, one through stage 2 in each unit of
        time fill the memory exactly; what is left over are two critical queues. So the sketch of
        A.4, that every batch under-utilizes the memory or risks an overflow, needs that paused
        prompts count.
    """
    horizons = context.choose((25, 100, 400), (100, 1000, 10_000), (1000, 10_000, 40_000))
    replicas, steps = context.choose(40, 100, 400), context.choose(60, 300, 600)
    arrivals = mean_queue(poisson_law(2), starts, steps)
    longer = mean_queue(np.array([0.25, 0.5, 0.25]), 1, steps)
    walks = examine(
        "E W_n ≤ 2√(2n) + 2 and E V_n ≤ √(2n) + 1",
        f"laws by convolution, n = 1, ..., {steps}",
        range(1, steps + 1),
        lambda n: (
            arrivals[n - 1] <= share * (2 * sqrt(2 * n) + 2)
            and longer[n - 1] <= share * (sqrt(2 * n) + 1)
        ),
    )
    estimates = tuple(
        bounded_mean(
            f"gap at T = {duration} (Thr* = 5)",
            unfinished(duration, replicas, starts, context.rng) / duration,
            "9√(2/T) + 15/T",
            9 * sqrt(2 / duration) + 15 / duration,
        ).estimate
        for duration in horizons
    )
    return Findings(walks, estimates=estimates)
