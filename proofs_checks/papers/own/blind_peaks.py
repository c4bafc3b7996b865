"""Length-blind policies cost G times the least sum of peaks: ``proofs/blind-peaks.md``."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb

import numpy as np

from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Examination, Findings, Outcome
from proofs_checks.search import examine

CLAIMS = Claims()


@dataclass(frozen=True)
class Cluster:
    """Workers, slots per worker, and the length of long requests."""

    workers: int
    slots: int
    longest: int

    @property
    def lanes(self) -> int:
        """Number of slots of all workers."""
        return self.workers * self.slots

    @property
    def num_requests(self) -> int:
        """Requests of the adversary's instance."""
        return self.workers * ((self.lanes - 1) * self.longest + 1)


#: Chooses the number of starts per worker, from the free slots and the number waiting.
Blind = Callable[[Sequence[int], int], Sequence[int]]


def random_policy(rng: np.random.Generator, slots: int) -> Blind:
    """Return a policy that at random fills all workers, fills one worker, or idles."""
    moods = rng.dirichlet([2, 1, 1])

    def starts(free: Sequence[int], waiting: int) -> list[int]:
        mood = int(rng.choice(3, p=moods))
        counts = [0] * len(free)
        for g in rng.permutation(len(free)).tolist():
            wanted = free[g] if mood == 0 else int(rng.integers(0, slots + 1)) if mood == 1 else 0
            counts[g] = min(free[g], wanted, waiting - sum(counts))
        return counts

    return starts


def run_against(cluster: Cluster, policy: Blind, together: int = 1) -> tuple[int, list[int]]:
    """Run a policy against an adversary that chooses lengths as requests start.

    Parameters
    ----------
    cluster : Cluster
        Workers.
    policy : callable
        A blind policy: it sees free slots and the number waiting only.
    together : int
        Long requests that may start in a step in which no long request runs.

    Returns
    -------
    tuple
        Sum of peaks, and the lengths of all requests by start.
    """
    running: list[list[tuple[int, int]]] = [[] for _ in range(cluster.workers)]
    waiting, peaks = cluster.num_requests, 0
    lengths: list[int] = []
    while waiting or any(running):
        free = [cluster.slots - len(held) for held in running]
        counts = policy(free, waiting) if waiting else [0] * cluster.workers
        left = 0 if any(o > 1 for held in running for _, o in held) else together
        for held, count in zip(running, counts, strict=True):
            for _ in range(count):
                is_long = left > 0 and sum(o > 1 for o in lengths) < cluster.workers
                left -= is_long
                lengths.append(cluster.longest if is_long else 1)
                held.append((1, lengths[-1]))
        waiting -= sum(counts)
        peaks += max(sum(load for load, _ in held) for held in running)
        running = [[(load + 1, o) for load, o in held if load < o] for held in running]
    return peaks, lengths


def hindsight(cluster: Cluster, shorts: int) -> int:
    """Return the sum of peaks if long requests run in parallel, then the short ones."""
    full, rest = divmod(shorts, cluster.lanes)
    triangle = cluster.longest * (cluster.longest + 1) // 2
    return triangle + full * cluster.slots - (-rest // cluster.workers)


def _runs(context: Context) -> Iterator[tuple[Cluster, Blind]]:
    for workers, slots, longest in context.choose(
        ((2, 1, 4), (2, 2, 6), (3, 1, 5)),
        ((2, 1, 4), (2, 2, 8), (3, 1, 6), (3, 2, 8), (4, 1, 6)),
        ((2, 1, 9), (2, 4, 12), (3, 2, 16), (5, 2, 12)),
    ):
        for _ in range(context.choose(5, 12, 100)):
            yield Cluster(workers, slots, longest), random_policy(context.rng, slots)


def close_chance(places: int, long: int, distance: int) -> Fraction:
    """Return the probability that two of some uniform positions are closer than a distance."""
    # Removing distance − 1 positions after each makes the remaining choice unrestricted.
    left = places - (long - 1) * (distance - 1)
    return 1 - Fraction(comb(max(left, 0), long), comb(places, long))


def _chances(context: Context, share: int) -> Examination[tuple[int, int, int]]:
    most = context.choose(8, 11, 14)
    small = [(n, g, d) for n in range(2, most) for g in range(2, 4) for d in range(1, n) if g <= n]

    def counted(n: int, g: int, d: int) -> bool:
        near = sum(any(b - a < d for a, b in pairwise(c)) for c in combinations(range(n), g))
        chance = close_chance(n, g, d)
        return chance == Fraction(near, comb(n, g)) and chance <= Fraction(
            g * g * d, share * (n - 1)
        )

    return examine(
        "P(two of G places of n less than d apart) ≤ G²d/(n − 1), by counting",
        f"all n < {most}, G = 2, 3, d < n",
        small,
        counted,
    )


@CLAIMS.own(
    "own.blind-peaks",
    Mutation("two long ones may start together", together=2),
    Mutation("a quarter of the chance", share=4),
    proof="blind-peaks",
)
def _check(context: Context, *, together: int = 1, share: int = 1) -> Outcome:
    """The price of not knowing lengths is G.

    Source: BF-IO and BalanceRoute papers, policies without predictions (our question)
    Statement: No schedule has more than G times the least sum of peaks over a drained run, and no
        policy that does not know output lengths, deterministic or randomized, has a smaller
        constant.
    Formula: Σ_k max_g L_g(k) ≤ G·OPT;  sup ratio of every blind policy = G
    Assumes: G workers in lockstep, B slots each; decisions depend on arrivals, prompts and what
        has ended only
    Summary: Requests look alike until they end. An adversary lets the next one to start be long
        whenever no long one runs, so that long ones never share a step, and hindsight runs them
        side by side. A few long ones at random places among many short ones do the same to
        randomized policies. For these the check tests the chance that long ones meet, not the
        mean ratio; it does not test the proof's case of a constant cost per step either.
    """
    ratios: dict[int, float] = {}

    def pays(cluster: Cluster, policy: Blind) -> bool:
        peaks, lengths = run_against(cluster, policy, together)
        triangle = cluster.longest * (cluster.longest + 1) // 2
        longs = sum(o > 1 for o in lengths)
        other = hindsight(cluster, len(lengths) - longs)
        most = triangle + Fraction(len(lengths), cluster.workers) + cluster.slots
        return longs == cluster.workers and peaks >= longs * triangle and other <= most

    def within(cluster: Cluster, policy: Blind) -> bool:
        peaks, lengths = run_against(cluster, policy, cluster.workers)
        work = sum(o * (o + 1) // 2 for o in lengths)
        return work <= cluster.workers * peaks and peaks <= work

    for longest in (20, 80, 1000):
        cluster = Cluster(2, 1, longest)
        least = hindsight(cluster, cluster.num_requests - 2)
        ratios[longest] = longest * (longest + 1) / least
    return Findings(
        examine(
            "the adversary's G long requests never run together; hindsight pays at most L(L + "
            "1)/2 + n/G + B",
            "random blind policies that fill, fill in part or idle, G = 2 to 4, B = 1, 2",
            _runs(context),
            pays,
        ),
        examine("W/G ≤ sum of peaks ≤ W", "the same policies", _runs(context), within),
        _chances(context, share),
        numbers={f"least ratio at L = {k}, G = 2, B = 1": r for k, r in ratios.items()},
    )
