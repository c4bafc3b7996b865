"""Theorem 6.4: its proof, the bound, and a corrected proof."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import floor, lcm, log, sqrt
from typing import TypeAlias

from bfio.kvcache.lower_bounds import limit_6_4, printed_bound_6_4
from formulations.hindsight_latency import lower_bound, total_latency
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome, dismiss_if, verifier
from proofs_checks.papers.kv.adversary import Attack, theorem_6_2
from proofs_checks.papers.kv.model import CONVENTIONS, algorithm, jobs
from proofs_checks.search import examine

CLAIMS = Claims()


# Yao's inequality.
def _mixtures(size: int, parts: int) -> Iterator[tuple[Fraction, ...]]:
    """Yield all laws on ``size`` points with probabilities in multiples of ``1/parts``."""
    for counts in product(range(parts + 1), repeat=size - 1):
        if sum(counts) <= parts:
            yield tuple(Fraction(c, parts) for c in (*counts, parts - sum(counts)))


@CLAIMS.step("kv.eq8", Mutation("the worst deterministic one on the right", pick="worst"))
def _yao_check(context: Context, *, pick: str = "least") -> Outcome:
    """Yao's inequality for ratios.

    Source: KV-cache paper, proof of Theorem 6.4 (section 6), Equation (8)
    Statement: The worst ratio of any randomized algorithm is at least the least ratio of
        expectations of a deterministic one under any law of instances.
    Formula: inf_R sup_I E[TEL]/OPT ≥ sup_D inf_A E_D[TEL]/E_D[OPT]
    Assumes: finitely many algorithms and instances
    Summary: Exact fractions.
    """
    size, parts = context.choose((2, 4), (3, 6), (3, 12))
    games = []
    for _ in range(context.choose(30, 100, 300)):
        best = context.rng.integers(1, 10, size)
        rows = best + context.rng.integers(0, 12, (size, size))
        games.append((rows.tolist(), best.tolist()))

    def inequality(rows: list[list[int]], best: list[int]) -> bool:
        laws = list(_mixtures(size, parts))
        choose = min if pick == "least" else max
        instances: list[tuple[int, ...]] = list(zip(*rows, best, strict=True))
        left = min(max(_mean(law, costs) / opt for *costs, opt in instances) for law in laws)
        right = max(choose(_mean(law, row) for row in rows) / _mean(law, best) for law in laws)
        return left >= right

    return examine(
        "worst ratio of every mixture of algorithms ≥ least ratio of expectations under every law",
        f"random cost tables, {size} algorithms and instances, chances in multiples of 1/{parts}",
        games,
        inequality,
    )


def _mean(law: Sequence[Fraction], values: Sequence[int]) -> Fraction:
    return sum((p * value for p, value in zip(law, values, strict=True)), Fraction(0))


# The distribution.
def printed_values(steps: int, constant: int) -> list[Fraction]:
    """Return ``k = 1 − 2ε, 1 − ε, ..., c + 1 − 2ε`` for ε = 1/steps."""
    return [Fraction(steps - 2 + j, steps) for j in range(constant * steps + 1)]


def hit(steps: int, start: Fraction) -> list[Fraction]:
    """Return ``k′ + ε, k′ + 2ε, ..., k′ + (1 − 2ε)``."""
    return [start + Fraction(j, steps) for j in range(1, steps - 1)]


def law_cases(context: Context) -> list[tuple[int, int]]:
    """Return values of 1/ε and c."""
    steps, constants = context.choose((8, 4), (16, 6), (30, 8))
    return list(product(range(3, steps), range(1, constants)))


def require_law(steps: int, constant: int) -> None:
    """Raise ValueError if there is no such distribution."""
    if steps < 3 or constant < 1:
        raise ValueError("no distribution")


@verifier
def verify_distribution(steps: int, constant: int) -> str | None:
    """Confirm that the printed probabilities do not add up to 1."""
    require_law(steps, constant)
    total = len(printed_values(steps, constant)) * Fraction(1, steps * constant)
    return None if total == 1 else f"ε = 1/{steps}, c = {constant}: they add up to {total}"


_LAW = ("ε = 1/3, 1/4, ...", "c a positive integer")


@CLAIMS.step(
    "kv.theorem6.4-distribution",
    Mutation("ε/c in the correction", extra=0),
    hypotheses=_LAW,
    defect=Defect.FORMULA,
    verify=verify_distribution,
)
def _distribution_check(context: Context, *, extra: int = 1) -> Outcome:
    """The distribution of instances.

    Source: KV-cache paper, proof of Theorem 6.4 (section 6)
    Statement: Instance I_k comes with probability ε/c for k = 1 − 2ε, 1 − ε, ..., c + 1 − 2ε; this
        is a probability distribution.
    Formula: Σ_k ε/c = 1
    Summary: Both ends count: there are c/ε + 1 values of k.
    Correction: There are c/ε + 1 values, so each needs probability ε/(c + ε).
    """
    cases = law_cases(context)

    def one(steps: int, constant: int) -> bool:
        chance = Fraction(1, steps * constant + extra)
        return len(printed_values(steps, constant)) * chance == 1

    printed = context.refute(
        "ε/c for each k adds up to 1", "ε = 1/3, 1/4, ..., c = 1, 2, ...", cases
    )
    corrected = examine("ε/(c + ε) for each k does", "the same", cases, one)
    return printed, corrected


@verifier
def verify_conditional(steps: int, constant: int) -> str:
    """Count the instances that hit a start k′, weighted by ε/c."""
    require_law(steps, constant)
    start = printed_values(steps, constant)[0]
    chance = len(hit(steps, start)) * Fraction(1, steps * constant)
    dismiss_if(chance == Fraction(1, constant))
    return f"ε = 1/{steps}, c = {constant}: {len(hit(steps, start))} values, probability {chance}"


@CLAIMS.step(
    "kv.theorem6.4-conditional",
    Mutation("one value missing only", missing=1),
    hypotheses=_LAW,
    defect=Defect.FORMULA,
    verify=verify_conditional,
)
def _conditional_check(context: Context, *, missing: int = 2) -> Outcome:
    """Probability of a bad instance.

    Source: KV-cache paper, proof of Theorem 6.4 (section 6)
    Statement: One of the instances k = k′ + ε, ..., k′ + (1 − 2ε) comes with probability
        (1/ε)·(ε/c) = 1/c.
    Formula: Pr(k ∈ {k′+ε, …, k′+1−2ε}) = 1/c
    Summary: There are 1/ε − 2 values, not 1/ε; for the last k′ fewer, since k ends at c + 1 − 2ε.
    Correction: (1 − 2ε)/c, and less for k′ near the end.
    """
    cases = law_cases(context)

    def corrected(steps: int, constant: int) -> bool:
        values = printed_values(steps, constant)
        inside = [start for start in values if hit(steps, start)[-1] <= values[-1]]
        weight = Fraction(steps - missing, steps * constant)
        return all(len(hit(steps, k)) * Fraction(1, steps * constant) == weight for k in inside)

    printed = context.refute(
        "one of k = k′ + ε..k′ + 1 − 2ε comes with probability 1/c",
        "ε = 1/3, 1/4, ..., c = 1, 2, ...",
        cases,
    )
    as_corrected = examine(
        "with probability (1 − 2ε)/c",
        "the same, every k′ with all of them in range",
        cases,
        corrected,
    )
    return printed, as_corrected


# The memory left at the release.
@verifier
def verify_room(steps: int, prompt: int, later: int) -> str:
    """Compare the memory that the long request leaves at the release with (k − k′)M."""
    dismiss_if(steps < 3 or prompt < 1 or not 1 <= later <= steps - 2)
    memory, age = steps * prompt, later * prompt
    room = memory - (prompt + age)
    dismiss_if(room == age)
    return (
        f"ε = 1/{steps}, M = {memory}, k − k′ = {later}·ε: {room} tokens are left, "
        f"(k − k′)M = {age}"
    )


@CLAIMS.step(
    "kv.theorem6.4-room",
    Mutation("without the prompt", prompts=0),
    defect=Defect.MISPRINT,
    verify=verify_room,
)
def _room_check(context: Context, *, prompts: int = 1) -> Outcome:
    """Memory left beside the long request.

    Source: KV-cache paper, proof of Theorem 6.4 (section 6)
    Statement: At time kM the remaining memory is (k − k′)M.
    Formula: M − (s + (k − k′)M) = (k − k′)M
    Assumes: s = εM; the long request started at k′M
    Summary: (k − k′)M is what it has generated. The later steps of the proof use (k′ + 1 − k)M.
    Correction: (k′ + 1 − k)M − s. The next paragraphs of the proof have (k′ + 1 − k)M, which is a
        safe bound, so that is what is meant.
    """
    cases = [
        (n, q, j)
        for n in range(3, context.choose(9, 30, 80))
        for q in (1, 4)
        for j in range(1, n - 1)
    ]

    def corrected(steps: int, prompt: int, later: int) -> bool:
        problem = Attack(steps * prompt, prompt, 0, 0).problem()
        held = problem.prompt.tolist()[0] + later * prompt
        return bool(problem.memory - held == (steps - later - prompts) * prompt)

    printed = context.refute(
        "(k − k′)M tokens are left at kM", "ε = 1/3, 1/4, ..., all k − k′", cases
    )
    as_corrected = examine("(k′ + 1 − k)M − s are", "the same", cases, corrected)
    return printed, as_corrected


# The proof of Theorem 6.4: the harmonic sum and the bound for every algorithm.


#: The printed bound for ε and c.
Bound: TypeAlias = Callable[[Fraction, int], Fraction]


# The sum and the bound.
def riemann_sum(steps: int) -> Fraction:
    """``ε·Σ_k 1/(k′ + 1 − k)`` over the values of k that hit a start k′, from the display."""
    start = Fraction(1)
    return sum_of_fractions(1 / (start + 1 - k) for k in hit(steps, start)) / steps


def sum_of_fractions(terms: Iterable[Fraction]) -> Fraction:
    """Return the sum of fractions, added over their common denominator."""
    listed = list(terms)
    whole = lcm(*(term.denominator for term in listed))
    return Fraction(sum(t.numerator * (whole // t.denominator) for t in listed), whole)


def last_display(steps: int, constant: int) -> Fraction:
    """Return ``(1 − 1/c) + (1/c)·ε·Σ_k 1/(k′ + 1 − k)``, without `bfio.kvcache.lower_bounds`."""
    return 1 + (riemann_sum(steps) - 1) / constant


def without_one(epsilon: Fraction, constant: int) -> Fraction:
    """Evaluate the bound wrongly, with H in place of H − 1."""
    return printed_bound_6_4(epsilon, constant) + Fraction(1, constant)


@CLAIMS.step(
    "kv.theorem6.4-sum",
    Mutation("H without −1 in the identity", terms=0),
    Mutation("H without −1 in the bound", bound=without_one),
    kind=Kind.IDENTITY,
)
def _sum_check(context: Context, *, terms: int = 1, bound: Bound = printed_bound_6_4) -> Outcome:
    """The harmonic sum.

    Source: KV-cache paper, proof of Theorem 6.4 (section 6)
    Statement: ε·Σ_k 1/(k′ + 1 − k) tends to the integral of 1/x over (0, 1), so to infinity.
    Formula: ε·Σ_{k=k′+ε}^{k′+1−2ε} 1/(k′+1−k) = H_{1/ε−1} − 1 → ∞
    Assumes: 1/ε an integer
    Summary: It grows like ln(1/ε) only: with c = 2 the bound is 1.41 at ε = 1/10 and 3.74 at
        1/1000.
    """
    largest, target = context.choose((60, 3), (400, 5), (4000, 7))

    def harmonic(steps: int) -> bool:
        closed = sum_of_fractions(Fraction(1, j) for j in range(1, steps)) - terms
        return riemann_sum(steps) == closed

    def as_displayed(steps: int, constant: int) -> bool:
        return bound(Fraction(1, steps), constant) == last_display(steps, constant)

    def exceeded(goal: int) -> bool:
        return any(bound(Fraction(1, 2**p), 1) > goal for p in range(2, 14))

    identity = examine(
        "ε·Σ_k 1/(k′ + 1 − k) = H_{1/ε−1} − 1",
        f"all 1/ε in 3..{largest}",
        range(3, largest + 1),
        harmonic,
    )
    growth = examine(
        "it exceeds every number as ε → 0",
        f"numbers up to {target}, c = 1",
        range(1, target + 1),
        exceeded,
    )
    displayed = examine(
        "the bound of `bfio.kvcache.lower_bounds` = (1 − 1/c) + (1/c)·ε·Σ_k 1/(k′ + 1 − k)",
        f"all 1/ε in 3..{min(largest, 100)}, c = 1, 2, 5",
        product(range(3, min(largest, 100) + 1), (1, 2, 5)),
        as_displayed,
    )
    return Findings(
        identity,
        growth,
        displayed,
        numbers={f"bound_at_1/{n}_c_2": float(bound(Fraction(1, n), 2)) for n in (10, 1000)},
    )


def expected_ratio(steps: int, constant: int, prompt: int) -> Fraction:
    """Return an upper bound on ``E[TEL]/E[OPT]`` of the algorithm that starts at once.

    The optimum is at least the sum of the optima for the short requests and for the long one.
    """
    cost = least = 0
    for j in range(constant * steps + 1):
        attack = theorem_6_2(steps, prompt, j * prompt)
        cost += attack.with_long_at(0)
        least += attack.batches(prompt) + attack.memory - prompt
    return Fraction(cost, least)


def limits(steps: int, constant: int) -> dict[str, Fraction]:
    """Return the ratio of starting at once for large M, under each convention."""
    return {c.value: limit_6_4(Fraction(1, steps), constant, c) for c in CONVENTIONS}


@verifier
def verify_bound(steps: int, constant: int) -> str:
    """Check that an algorithm beats the bound: in the limit of large M, and exactly for some M."""
    require_law(steps, constant)
    bound, greatest = last_display(steps, constant), limits(steps, constant)
    exact = [expected_ratio(steps, constant, prompt) for prompt in (1, 10, 100)]
    # The ratio is trivially at least 1, so bounds of at most 1 are not tested.
    dismiss_if(constant < 2 or bound <= max(greatest.values()) or max(exact) > greatest["C"])
    shown = ", ".join(f"{float(limit):.4f} ({name})" for name, limit in greatest.items())
    return (
        f"ε = 1/{steps}, c = {constant}: the bound is {float(bound):.4f}; starting at once, k′ = "
        f"0, has a ratio of {shown} for M large, and under C of "
        f"{', '.join(f'{float(r):.4f}' for r in exact)} at M = {steps}·(1, 10, 100)"
    )


@CLAIMS.step(
    "kv.theorem6.4-bound",
    Mutation("ε = 1/10, where the bound is small", sizes=(10,)),
    Mutation("1 + 1/c in the correction", short=Fraction(1, 2)),
    defect=Defect.FORMULA,
    verify=verify_bound,
)
def _bound_check(
    context: Context,
    *,
    sizes: Sequence[int] = (40,),
    short: Fraction = Fraction(1),
) -> Outcome:
    """From some starts to every algorithm.

    Source: KV-cache paper, proof of Theorem 6.4 (section 6), step from the last display to the
        theorem
    Statement: The last display bounds the ratio for a start at k′M, k′ ∈ {1 − 2ε, ..., c + 1 −
        2ε}. So no deterministic algorithm has a constant ratio under the distribution.
    Formula: E_D[TEL]/E_D[OPT] ≥ (1 − 1/c) + (1/c)(H_{1/ε−1} − 1) for every k′ in [0, c]
    Assumes: all instances equally likely; M large; c ≥ 2
    Summary: The display is for k′ ≥ 1 − 2ε. An algorithm that starts at once is hit by one
        instance of c/ε + 1 only.
    Reading: it refutes the step, not the display. Conventions A, B and C for M large, C exactly;
        optimum bounded below by the requests taken apart.
    Correction: Starting the long request at once, k′ = 0, has a ratio of at most 1 + 2/c: it is
        done before most instances release anything. The display leaves k′ < 1 − 2ε out. The
        support of D is to blame: kv.theorem6.4 has one that hits every start, and proves the
        theorem.
    """
    constants = context.choose((2, 3), range(2, 6), range(2, 11))
    cases = list(product(sizes, constants))

    def by_engine(steps: int, prompt: int) -> bool:
        attack = theorem_6_2(steps, prompt, 0)
        problem = attack.problem()
        mine = total_latency(problem, algorithm(jobs(problem)))
        return mine == attack.with_long_at(0) and lower_bound(problem) <= attack.best()

    def at_most(case: tuple[int, int]) -> bool:
        # In one of c/ε + 1 instances 1/ε short requests wait for εM rounds each: at most 2/c more.
        most = 1 + short * Fraction(2, case[1])
        return max(expected_ratio(*case, 10_000), *limits(*case).values()) <= most

    domain = context.domain(
        f"1/ε in {list(sizes)}, c in {list(constants)}, conventions A, B, C", cases
    )
    engine = examine(
        "the sums = Algorithm 2's total latency",
        "small instances",
        [(4, 2), (5, 3), (6, 4)],
        by_engine,
    )
    printed = domain.refute(
        "starting at once has a ratio of (1 − 1/c) + (1/c)(H_{1/ε−1} − 1) at least"
    )
    corrected = domain.examine("it has a ratio of at most 1 + 2/c", at_most)
    return printed, corrected, engine


# Theorem 6.4 with a corrected proof: a distribution of releases that hits every start.
#
# With probability ½ only the long request arrives. Otherwise εM short ones arrive at kM, with k
# uniform on ε, 2ε, ..., c + 1 − 2ε. Before the release a deterministic algorithm knows the long
# request only, so it is given by a start k′M. (A pause keeps the tokens, and each εM tokens still
# take εM rounds, so pausing hits no fewer releases.) A start after cM costs 1 + c times the
# optimum if nothing else arrives. With an earlier start, the 1/ε − 2 releases after k′ find memory
# for 1/ε − 2, ..., 1 short requests at a time. The optimum, which waits, runs at least 1/ε − 1
# (1/ε under B, which only helps).


#: The values of k for 1/ε and c.
Law: TypeAlias = Callable[[int, int], list[Fraction]]
#: A bound on TEL/OPT at a release, for 1/ε and the free share of M.
Growth: TypeAlias = Callable[[int, Fraction], Fraction]


def every_release(steps: int, constant: int) -> list[Fraction]:
    """Return ``k = ε, 2ε, ..., c + 1 − 2ε``."""
    return [Fraction(j, steps) for j in range(1, (constant + 1) * steps - 1)]


def least_growth(steps: int, room: Fraction) -> Fraction:
    """Return a lower bound on TEL/OPT for large M if ``room·M`` tokens are free at the release.

    ``fit`` short requests run at a time in the free memory, with a total latency of
    ``(εM)²/(2·fit)``. If the long request waits, at least 1/ε − 1 run at a time. Under A both take
    twice as long; if one fits, three quarters of this remain, more than the proof uses.
    """
    fit = floor(room * steps)
    return Fraction(steps - 1, fit) if fit > 0 else Fraction(1)


def cleared(steps: int, room: Fraction) -> Fraction:
    """Return the bound if the long request may be cleared, which costs no term in M²."""
    del steps, room
    return Fraction(1)


def least_ratio(steps: int, constant: int) -> Fraction:
    """``½ + ½·[1 − 1/(c + 1) + (H_{1/ε−1} − 1)/(c + 1)]``, or 1 + c/2 if that is smaller."""
    hits = riemann_sum(steps) - 1
    return min(1 + hits / (2 * (constant + 1)), 1 + Fraction(constant, 2))


def mean_ratio(
    steps: int,
    constant: int,
    start: Fraction,
    *,
    law: Law = every_release,
    growth: Growth = least_growth,
) -> Fraction:
    """Return a lower bound on ``E[TEL/OPT]``, for large M, if the long request starts at k′M.

    Parameters
    ----------
    steps, constant : int
        1/ε and c.
    start : Fraction
        k′.
    law : callable
        Returns the values of k. With probability ½ the short requests arrive at kM, each k being
        equally likely; otherwise none arrive.
    growth : callable
        Returns a lower bound on TEL/OPT for one release.
    """
    length = 1 - Fraction(1, steps)
    alone = (start + length) / length
    values = law(steps, constant)
    hits = [growth(steps, start + length - k) for k in values if k > start]
    mean = (sum(hits, Fraction(0)) + len(values) - len(hits)) / len(values)
    return (alone + mean) / 2


def limit(steps: int) -> float:
    """Return the bound for the best c, with H = ln n + 0.5772 + 1/(2n) − ..."""
    hits = log(steps - 1) + 0.5772156649 + 1 / (2 * steps) - 2
    # The two parts of the minimum are equal if c(c + 1) = hits.
    constant = max(sqrt(hits + Fraction(1, 4)) - 0.5, 0.0)
    return 1 + constant / 2


def _costs_at(steps: int, prompt: int, later: int) -> bool:
    """Compare both parts of `least_growth` with exact costs under C, for a start at 0."""
    attack = Attack(steps * prompt, prompt, prompt, later * prompt)
    together = Fraction(prompt**2, 2)
    rest = 2 * prompt + attack.release + attack.memory
    growth = least_growth(steps, Fraction(steps - 1 - later, steps))
    least = together * growth / (steps - 1)
    return attack.with_long_at(0) >= least and attack.wait() <= together / (steps - 1) + rest


@CLAIMS.result(
    "kv.theorem6.4",
    Mutation("the printed values of k", law=printed_values),
    Mutation("the long request may be cleared", growth=cleared),
    kind=Kind.ASYMPTOTIC,
    proof="randomized-starts",
)
def _theorem_check(
    context: Context, *, law: Law = every_release, growth: Growth = least_growth
) -> Outcome:
    """No constant ratio with randomness.

    Source: KV-cache paper, Theorem 6.4 (section 6)
    Statement: Under adversarial arrivals no randomized algorithm has a constant competitive ratio
        independent of M.
    Formula: sup_M inf_R sup_I E[TEL(I; R)]/OPT(I) = ∞
    Assumes: what has been processed is not cleared, as in Theorem 6.2
    Summary: The theorem stands, with another distribution than the printed one, which fails
        (kv.theorem6.4-distribution, kv.theorem6.4-bound). With chance ½ only the long request
        comes, else k is uniform on ε, 2ε, ..., c + 1 − 2ε. Each k′ ≤ c meets, at 1/ε − 2 of the
        releases, memory for 1, ..., 1/ε − 2 short requests at a time; k′ > c costs 1 + c where
        nothing else arrives. By Yao's inequality for E[TEL/OPT] (kv.eq8) the ratio is at least ½ +
        ½·[1 − 1/(c + 1) + (H_{1/ε−1} − 1)/(c + 1)] or 1 + c/2, unbounded with c about √ln(1/ε),
        after M → ∞.
    Reading: as Theorem 6.2, for algorithms that may pause, which keeps the memory, and do not
        clear: cleared once, the long request costs O(M) more, and neither proof says anything.
        Terms linear in M are left out, as in the paper.
    """
    sizes, constants = context.choose(((8, 20), (1, 2)), ((8, 20, 50), (1, 2, 3)), ((200,), (3,)))
    cases = [
        (n, c, Fraction(k, 2 * n))
        for n, c in product(sizes, constants)
        for k in range(2 * n * (c + 1) + 1)
    ]
    every = examine(
        "E[TEL/OPT] ≥ min{½ + ½·[1 − 1/(c + 1) + (H_{1/ε−1} − 1)/(c + 1)], 1 + c/2} for M large",
        f"1/ε in {list(sizes)}, c in {list(constants)}, k′ = 0, ε/2, ε, ..., c + 1",
        cases,
        lambda *case: mean_ratio(*case, law=law, growth=growth) >= least_ratio(*case[:2]),
    )
    costs = examine(
        "what it counts of TEL and OPT, up to terms linear in M, for k′ = 0",
        "convention C, 1/ε = 4..7, M = 50/ε, every k",
        [(n, 50, later) for n in range(4, 8) for later in range(1, n - 1)],
        _costs_at,
    )
    most = context.choose(4, 5, 6)
    unbounded = examine(
        "the bound exceeds every number, c and 1/ε chosen for it",
        f"1, 3/2, ..., {most}/2 with c = twice the number and 1/ε = 2^p",
        [Fraction(h, 2) for h in range(2, most + 1)],
        lambda goal: any(_exceeds(goal, 2**p) for p in range(3, 80)),
    )
    return Findings(
        every,
        costs,
        unbounded,
        numbers={f"bound_at_1/{10**p}": limit(10**p) for p in (2, 4, 6, 9)},
    )


def _exceeds(goal: Fraction, steps: int) -> bool:
    """Return whether `least_ratio` for c = 2·goal exceeds the goal, by H_n > ln n + ½."""
    constant = 2 * goal
    return 1 + (log(steps - 1) - 1.5) / (2 * (float(constant) + 1)) > goal
