"""Theorem 6.2 and the Ω(√n) bound: one long request, then many short ones.

Exact in the convention of section 3 (C): a short request of one token fills one slot, so once the
start of the long request is fixed, starting short ones as soon as they fit is best, and the least
total latency of any algorithm that neither pauses nor clears is a sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from bfio.kvcache.lower_bounds import long_and_short
from formulations.hindsight_latency import Convention, LatencyProblem, brute_force, total_latency
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Examination, Findings, Outcome
from proofs_checks.papers.kv.model import algorithm, jobs
from proofs_checks.search import examine

CLAIMS = Claims()


@dataclass(frozen=True)
class Attack:
    """A long request (``o = M − s``, at 0) and short ones (``o = 1``) released later.

    Parameters
    ----------
    memory, prompt : int
        ``M`` and ``s`` [tokens].
    num : int
        Short requests.
    release : int
        Round of their arrival.
    """

    memory: int
    prompt: int
    num: int
    release: int

    @property
    def together(self) -> int:
        """Short requests that run at a time on an empty worker."""
        return self.memory // (self.prompt + 1)

    def batches(self, num: int) -> int:
        """Total latency of ``num`` short requests from now on, with nothing else running."""
        full, rest = divmod(num, self.together)
        return self.together * full * (full + 1) // 2 + rest * (full + 1)

    def with_long_at(self, start: int) -> int:
        """Return the least total latency with the long request started at ``start``."""
        end = start + self.memory - self.prompt
        now, left, total = self.release, self.num, end
        while left and now < end:
            # Until the long request starts all is free; then it holds one token more a slot.
            held = self.prompt + 1 + now - start if now >= start else 0
            placed = min(left, (self.memory - held) // (self.prompt + 1))
            left -= placed
            now += 1
            total += placed * (now - self.release)
        return total + left * (now - self.release) + self.batches(left)

    def wait(self) -> int:
        """Return the total latency of the schedule that runs all short requests first."""
        return self.with_long_at(self.release + -(-self.num // self.together))

    def best(self) -> int:
        """Return a total latency that the optimum does not exceed."""
        return min(self.wait(), self.with_long_at(0))

    def problem(self) -> LatencyProblem:
        """Return the instance."""
        return long_and_short(
            self.memory, self.prompt, self.num, self.release, Convention.HALF_OPEN
        )


def theorem_6_2(steps: int, prompt: int, start: int, num: int | None = None) -> Attack:
    """Return the instance for a start of the long request; ``ε = 1/steps``, ``M = steps·s``."""
    memory = steps * prompt
    return Attack(memory, prompt, prompt if num is None else num, start + memory - 2 * prompt)


def _starts(memory: int, prompt: int) -> Sequence[int]:
    return 0, 1, prompt - 1, prompt, 2 * prompt, memory // 2, memory, 3 * memory, 100 * memory


def _agree(context: Context) -> Examination[Attack]:
    attacks = [
        Attack(memory, prompt, num, release)
        for memory in range(3, context.choose(8, 12, 16))
        for prompt in (1, 2)
        for num in (1, 3)
        for release in (0, 1, memory - prompt - 1)
    ]

    def same(attack: Attack) -> bool:
        problem = attack.problem()
        starts = algorithm(jobs(problem))
        if attack.release > 0 and attack.with_long_at(starts[0]) != total_latency(problem, starts):
            return False
        return attack.best() >= brute_force(problem)[0]

    return examine(
        "the sums = Algorithm 2's total latency, and none is below the optimum",
        "small instances, enumeration",
        attacks,
        same,
    )


# Theorem 6.2.
ADVERSARY = (
    "arrivals may answer the algorithm",
    "no clearing: a delayed request keeps its memory",
)


@CLAIMS.result(
    "kv.theorem6.2",
    Mutation("ten short requests whatever M", num=10),
    Mutation("the long request may be cleared", clearing=True),
    hypotheses=ADVERSARY,
    kind=Kind.ASYMPTOTIC,
)
def _theorem_check(context: Context, *, num: int | None = None, clearing: bool = False) -> Outcome:
    """No constant ratio without randomness.

    Source: KV-cache paper, Theorem 6.2 (section 6)
    Statement: Under adversarial arrivals no deterministic algorithm has a constant competitive
        ratio independent of M.
    Formula: for every c some M: sup_I TEL(I; A)/OPT(I) > c
    Summary: While the long request runs, or is paused, no short one fits beside it. The printed
        bound on OPT leaves out t′; for t′ ≥ εM the optimum runs the long request first instead. An
        algorithm that may clear it, as the benchmarks of section 7 do, has a ratio near 1 here.
    Reading: the rule of section 3 (C); the adversary releases the short requests once the long one
        has run for (1 − 2ε)M rounds. A pause after that only delays it: no short one fits beside.
    """

    def least_ratio(prompt: int) -> Fraction:
        ratios = []
        steps = 20
        for start in _starts(steps * prompt, prompt):
            attack = theorem_6_2(steps, prompt, start, num)
            cost = attack.with_long_at(start)
            ratios.append(Fraction(min(cost, attack.wait()) if clearing else cost, attack.best()))
        return min(ratios)

    targets = range(2, context.choose(5, 10, 15))
    largest = context.choose(1000, 10_000, 40_000)

    def exceeded(target: int) -> bool:
        sizes = (2**k for k in range(3, largest.bit_length()))
        return any(least_ratio(size) > target for size in sizes)

    seen = examine(
        "some M at which every start t′ of the long request costs more than c times the optimum",
        f"c = 2..{max(targets)}, ε = 1/20, t′ from 0 to 100·M, M = 20·2^k up to {20 * largest}",
        targets,
        exceeded,
    )
    return seen, _agree(context)


# The later bound.
def square_root(memory: int, start: int) -> Attack:
    """Return M/2 short requests released √M/2 rounds before the long one's memory peaks."""
    return Attack(memory, 1, memory // 2, start + memory - isqrt(memory) // 2)


@CLAIMS.result(
    "kv.square-root",
    Mutation("ten short requests whatever M", short=10),
    hypotheses=ADVERSARY,
    kind=Kind.ASYMPTOTIC,
)
def _square_root_check(context: Context, *, short: int | None = None) -> Outcome:
    """Ω(√n).

    Source: KV-cache paper, later version, deterministic lower bound
    Statement: Every deterministic algorithm has a competitive ratio of order √n at least.
    Formula: sup_I TEL(I; A)/OPT(I) = Ω(√n)
    Summary: The short requests wait √M/2 rounds each beside a long one that leaves no room; run
        first they take one round.
    Reading: s = 1, M/2 requests of one token at t′ + M − √M/2; constant 1/10; no pausing.
    """
    memories = [4**k for k in range(3, context.choose(7, 9, 12))]

    def grows(memory: int) -> bool:
        for start in _starts(memory, 2):
            attack = square_root(memory, start)
            if short is not None:
                attack = Attack(memory, 1, short, attack.release)
            ratio = Fraction(attack.with_long_at(start), attack.best())
            if 100 * ratio**2 < memory // 2 + 1:
                return False
        return True

    seen = examine(
        "ratio ≥ √n/10 for every start t′ of the long request",
        f"s = 1, n = M/2 + 1, M = {memories}, t′ from 0 to 100·M",
        memories,
        grows,
    )
    largest = square_root(memories[-1], 0)
    return Findings(
        seen,
        _agree(context),
        numbers={
            "n": largest.num + 1,
            "ratio_over_root_n": float(largest.with_long_at(0) / largest.best())
            / (largest.num + 1) ** 0.5,
        },
    )
