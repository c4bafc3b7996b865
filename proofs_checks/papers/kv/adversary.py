"""Theorem 6.2 and the Ω(√n) bound: one long request, then many short ones; printed costs.

Costs are exact in the convention of section 3 (C). A short request of one token occupies one slot.
For a fixed start of the long request it is therefore optimal to start short ones as soon as they
fit, and the least total latency without pausing or clearing is an explicit sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import isqrt

from bfio.kvcache.lower_bounds import costs_6_2, long_and_short
from formulations.hindsight_latency import Convention, LatencyProblem, brute_force, total_latency
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Examination, Findings, Outcome, dismiss_if, verifier
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
        """Number of short requests that fit together on an empty worker."""
        return self.memory // (self.prompt + 1)

    def batches(self, num: int) -> int:
        """Total latency of ``num`` short requests that start now on an empty worker."""
        full, rest = divmod(num, self.together)
        return self.together * full * (full + 1) // 2 + rest * (full + 1)

    def with_long_at(self, start: int) -> int:
        """Return the least total latency with the long request started at ``start``."""
        end = start + self.memory - self.prompt
        now, left, total = self.release, self.num, end
        while left and now < end:
            # All memory is free until the long request starts, which grows by one token per slot.
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
        """Return an upper bound on the optimal total latency."""
        return min(self.wait(), self.with_long_at(0))

    def problem(self, convention: Convention = Convention.HALF_OPEN) -> LatencyProblem:
        """Return the hindsight problem of this attack."""
        return long_and_short(self.memory, self.prompt, self.num, self.release, convention)


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


# The costs and the ratio that the proof of Theorem 6.2 prints.


def program_costs(steps: int, prompt: int) -> tuple[int, int, int]:
    """Return the exact costs of keeping, pausing and waiting under the rule of appendix B.1.

    Under this rule a short request holds s tokens for one round, so 1/ε of them run at a time, as
    in the proof. ``prompt`` must be a multiple of ``steps``.
    """
    memory = steps * prompt
    rounds = prompt // steps
    together = steps * rounds * (rounds + 1) // 2
    # At the release the long request holds (1 − ε)M, so one short request fits in that round only.
    late = prompt - 1
    full, rest = divmod(late, steps)
    after = steps * full * (full + 1) // 2 + rest * (full + 1)
    keep = memory - prompt + 1 + late * prompt + after
    pause = prompt * (prompt + 1) // 2 + memory
    wait = together + 2 * memory - 3 * prompt + rounds
    return keep, pause, wait


def printed_costs(steps: int, prompt: int) -> tuple[Fraction, Fraction, Fraction]:
    """Return the printed costs of keeping, pausing and waiting."""
    return costs_6_2(steps * prompt, Fraction(1, steps))


@verifier
def verify_costs(steps: int, multiple: int) -> str:
    """Confirm that a printed cost (two lower bounds, an equality) contradicts the exact cost."""
    dismiss_if(steps < 3 or multiple < 1)
    prompt = steps * multiple
    exact, printed = program_costs(steps, prompt), printed_costs(steps, prompt)
    dismiss_if(exact[0] >= printed[0] and exact[1] >= printed[1] and exact[2] == printed[2])
    return (
        f"ε = 1/{steps}, M = {steps * prompt}: keeping, pausing, waiting cost {exact}; printed "
        f"are {', '.join(map(str, printed))} (at least, at least, equal)"
    )


@CLAIMS.step(
    "kv.theorem6.2-costs",
    Mutation("M/2 in the correction", share=Fraction(1, 2)),
    Mutation("Equation (1) in place of B.1", rule=Convention.CLOSED),
    Mutation("B.1 in place of Equation (1) and section 3", others=(Convention.PRINTED,)),
    defect=Defect.FORMULA,
    verify=verify_costs,
)
def _costs_check(
    context: Context,
    *,
    share: Fraction = Fraction(1),
    rule: Convention = Convention.PRINTED,
    others: Sequence[Convention] = (Convention.CLOSED, Convention.HALF_OPEN),
) -> Outcome:
    """Costs of keeping, pausing, waiting.

    Source: KV-cache paper, proof of Theorem 6.2 (section 6)
    Statement: On the instance, keeping the long request costs at least (ε³/2 + ε²)M² + (1 − ε/2)M,
        pausing it at least ε²M²/2 + (2 − ε/2)M, and waiting with it ε³M²/2 + (2 − 3ε/2)M.
    Formula: TEL(A1) ≥ …, TEL(A2) ≥ …, TEL(A3) = ε³M²/2 + (2 − 3ε/2)M
    Assumes: s = εM; t′ = 0; 1/ε short requests at a time: the rule of appendix B.1
    Summary: One short request still fits in the round of the release; the long one, paused, ends
        at M; after waiting it takes (2 − 3ε)M + ε²M, not (2 − 2ε)M.
    Reading: with 1/ε short requests at a time, as the proof has it, only the rule of appendix B.1
        (B) is left. Under Equation (1) (A) and section 3 (C) keeping costs as much as printed, no
        short request fits beside the paused one, and the equality for waiting fails as well. The
        theorem does not suffer: it rests on the terms in M².
    Correction: Under the rule of B.1 the terms in M² are right, and the totals at most M off.
        Under Equation (1) or section 3 a short request holds εM + 1 tokens, so 1/ε − 1 run at a
        time, and for two rounds under (1): there the first inequality holds.
    """
    cases = list(product(range(3, context.choose(8, 20, 60)), (1, 2, 10, 1000)))

    def leading(steps: int, multiple: int) -> bool:
        prompt = steps * multiple
        pairs = zip(program_costs(steps, prompt), printed_costs(steps, prompt), strict=True)
        return all(abs(exact - printed) <= share * steps * prompt for exact, printed in pairs)

    def kept(steps: int, convention: Convention) -> int:
        problem = theorem_6_2(steps, steps, 0).problem(convention)
        return total_latency(problem, algorithm(jobs(problem)))

    domain = context.domain("ε = 1/3, 1/4, ..., M = k/ε² for k = 1, 2, 10, 1000", cases)
    printed = domain.refute("TEL(A1) ≥, TEL(A2) ≥, TEL(A3) = the printed sums")
    corrected = domain.examine("they differ by at most M, so the terms in M² are right", leading)
    small = range(3, 8)
    engine = examine(
        "exact cost of keeping = Algorithm 2 under B.1", "k = 1", small,
        lambda n: kept(n, rule) == program_costs(n, n)[0],
    )  # fmt: skip
    first = examine(
        "under Equation (1) and section 3 keeping costs as much as printed at least",
        "k = 1, 1/ε below 8, by Algorithm 2",
        list(product(small, others)),
        lambda n, convention: kept(n, convention) >= printed_costs(n, n)[0],
    )
    return printed, corrected, engine, first


def printed_ratio(steps: int, prompt: int) -> Fraction:
    """Return the ratio of the smaller printed cost to the printed bound on the optimum."""
    keep, pause, wait = printed_costs(steps, prompt)
    return min(keep, pause) / wait


@verifier
def verify_ratio(steps: int, prompt: int) -> str:
    """Confirm that the printed ratio stays below 1/ε for every M."""
    dismiss_if(steps < 3 or prompt < 1)
    ratios = [printed_ratio(steps, prompt * 10**power) for power in range(0, 13, 3)]
    dismiss_if(max(ratios) >= steps)
    shown = ", ".join(f"{float(ratio):.6f}" for ratio in ratios)
    return (
        f"ε = 1/{steps}, M = {steps * prompt}·10^(0, 3, 6, 9, 12): the ratio is {shown} < {steps}"
    )


@CLAIMS.step(
    "kv.theorem6.2-ratio",
    Mutation("1.01/ε in the correction", goal=Fraction(101, 100)),
    defect=Defect.FORMULA,
    verify=verify_ratio,
)
def _ratio_check(context: Context, *, goal: Fraction = Fraction(99, 100)) -> Outcome:
    """The ratio 1/ε.

    Source: KV-cache paper, end of the proof of Theorem 6.2
    Statement: For M large enough the ratio is at least min{2/ε, 1/ε} = 1/ε.
    Formula: min{TEL(A1), TEL(A2)}/TEL(A3) ≥ 1/ε
    Assumes: the printed formulas; 0 < ε < 1/2
    Summary: It tends to 1/ε from below, which is enough for the theorem.
    Correction: It tends to 1/ε from below as M grows: any smaller number is exceeded.
    """
    cases = list(product(range(3, context.choose(12, 60, 300)), (1, 10)))
    domain = context.domain("ε = 1/3, 1/4, ..., printed formulas", cases)
    printed = domain.refute("the ratio reaches 1/ε for M large")
    corrected = domain.examine(
        "the ratio exceeds 0.99/ε for M large",
        lambda steps, _: printed_ratio(steps, 10**9) > goal * steps,
    )
    return printed, corrected
