"""Arrivals in the proofs of Lemmas 5.5 and 5.6: shorter ones, and the shortest that waits."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import exp, isqrt, log

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Outcome, dismiss_if, verifier
from proofs_checks.papers.kv.adversary import ADVERSARY, theorem_6_2
from proofs_checks.papers.kv.model import Jobs, algorithm
from proofs_checks.search import examine
from proofs_checks.statistics import ExactLaw, binomial, gathered, of_sum
from proofs_checks.statistics import exact_mean as mean

CLAIMS = Claims()


@dataclass(frozen=True)
class ArrivalWindow:
    """Arrivals in some rounds: 0..``most`` per round, outputs 1..``longest``, all uniform.

    Parameters
    ----------
    rounds : int
        Rounds counted.
    most : int
        ``B``.
    longest : int
        Largest output.
    below : int
        ``ô``: arrivals with an output below it are counted.
    """

    rounds: int
    most: int
    longest: int
    below: int

    def law(self) -> ExactLaw:
        """Return the law of the number of counted arrivals, by convolution."""
        chance = Fraction(self.below - 1, self.longest)
        one = gathered(
            (short, share / (self.most + 1))
            for arrivals in range(self.most + 1)
            for short, share in binomial(arrivals, chance).items()
        )
        law: ExactLaw = {0: Fraction(1)}
        for _ in range(self.rounds):
            law = of_sum(law, one)
        return law

    def mean(self) -> Fraction:
        """Return the mean of that law."""
        return mean(self.law())


def _windows(context: Context) -> Iterator[ArrivalWindow]:
    rounds, most, longest = context.choose((4, 2, 3), (6, 3, 4), (10, 4, 6))
    for c, b, k in product(range(1, rounds + 1), range(1, most + 1), range(2, longest + 1)):
        yield from (ArrivalWindow(c, b, k, below) for below in range(2, k + 1))


# The mean.
def printed_mean(window: ArrivalWindow) -> Fraction:
    """Return ``λ·C·F(ô)``."""
    rate = Fraction(window.most, 2)
    return rate * window.rounds * Fraction(window.below, window.longest)


@verifier
def verify_mean(rounds: int, most: int, longest: int, below: int) -> str:
    """Confirm that the printed mean differs from the mean of the exact law."""
    if min(rounds, most) < 1 or not 2 <= below <= longest <= 30:
        raise ValueError("no window")
    window = ArrivalWindow(rounds, most, longest, below)
    exact, printed = window.mean(), printed_mean(window)
    dismiss_if(exact == printed)
    return (
        f"C = {rounds}, 0..{most} arrivals a round, outputs 1..{longest}, ô = {below}: the mean "
        f"is {exact}, λ·C·F(ô) = {printed}"
    )


_ROUNDS = "N is counted over C rounds. The interval [t, t + C], as printed, has C + 1."


ARRIVALS = ("arrivals per round i.i.d. within [0, B]", "outputs i.i.d. with F")


@CLAIMS.step(
    "kv.lemma5.5-mean",
    Mutation("F(ô) in the correction", up_to=0),
    hypotheses=ARRIVALS,
    reading=_ROUNDS,
    defect=Defect.FORMULA,
    verify=verify_mean,
)
def _mean_check(context: Context, *, up_to: int = 1) -> Outcome:
    """Mean number of shorter arrivals.

    Source: KV-cache paper, proof of Lemma 5.5 (appendix B.3)
    Statement: The expected number of arrivals in [t, t + C] with outputs shorter than ô is λCF(ô).
    Formula: E[N^{<ô}_{[t,t+C]}] = λ·C·F(ô)
    Summary: Outputs are integers: shorter than ô means at most ô − 1.
    Correction: It is λ·C·F(ô − 1) for C rounds.
    """
    windows = list(_windows(context))

    def corrected(window: ArrivalWindow) -> bool:
        chance = Fraction(window.below - up_to, window.longest)
        return window.mean() == Fraction(window.most, 2) * window.rounds * chance

    domain = context.domain(
        "arrivals 0..B and outputs 1..K uniform, small B, C, K, ô, exact laws", windows
    )
    printed = domain.refute("E N over C rounds = λ·C·F(ô)")
    as_corrected = domain.examine("E N over C rounds = λ·C·F(ô − 1)", corrected)
    return printed, as_corrected


# Hoeffding's inequality, and the conclusion drawn from it.
def tail(law: ExactLaw, least: Fraction) -> Fraction:
    """Return ``Pr(N ≥ least)``."""
    return sum((p for n, p in law.items() if n >= least), Fraction(0))


@CLAIMS.step(
    "kv.lemma5.5-hoeffding",
    Mutation("10 in place of 2", power=10.0),
    hypotheses=ARRIVALS,
    reading=f"{_ROUNDS} Over these the inequality fails: with C = 1, one arrival a round, "
    "half of them short and δ = 1 the probability is 1/4, and the bound e⁻² = 0.135.",
)
def _hoeffding_check(context: Context, *, power: float = 2.0) -> Outcome:
    """Hoeffding's inequality for shorter arrivals.

    Source: KV-cache paper, proof of Lemma 5.5 (appendix B.3)
    Statement: The number of shorter arrivals in C rounds exceeds (1 + δ) times its mean with
        probability at most exp(−2δ²(E N)²/(C·B²)).
    Formula: Pr(N ≥ (1+δ)·E N) ≤ exp(−2δ²(E N)²/(C·B²))
    """
    cases = [(w, Fraction(d, 10)) for w in _windows(context) for d in (1, 5, 10, 20)]

    def bounded(window: ArrivalWindow, delta: Fraction) -> bool:
        law, mean = window.law(), window.mean()
        exponent = power * float(delta * mean) ** 2 / (window.rounds * window.most**2)
        return float(tail(law, (1 + delta) * mean)) <= exp(-exponent) + 1e-12

    return examine(
        "Pr(N ≥ (1 + δ)·E N) ≤ exp(−2δ²(E N)²/(C·B²))",
        "arrivals 0..B and outputs 1..K uniform, exact laws, δ = 0.1, 0.5, 1, 2",
        cases,
        bounded,
    )


_HORIZONS = (10, 100, 1000)
#: Number of constants C tried, from 1 on.
_LONGEST = 20


def chances(rounds: int, tenths: int) -> list[Fraction]:
    """Return ``Pr(N ≥ (1 + 1/T)·E N)`` over C rounds for each duration T."""
    law = binomial(rounds, Fraction(tenths, 10))
    return [tail(law, (1 + Fraction(1, t)) * mean(law)) for t in _HORIZONS]


@verifier
def verify_tail(tenths: int) -> str:
    """Check for each constant C that the probability does not vanish as T grows a hundredfold."""
    dismiss_if(not 1 <= tenths <= 9)
    chances_by_rounds = {rounds: chances(rounds, tenths) for rounds in range(1, _LONGEST + 1)}
    dismiss_if(any(2 * last < first or not last for first, *_, last in chances_by_rounds.values()))
    shown = [f"{float(chance):.3f}" for chance in chances_by_rounds[_LONGEST]]
    return (
        f"one arrival a round, shorter than ô with probability {tenths}/10: for no C up to "
        f"{_LONGEST} does Pr(N ≥ (1 + 1/T)·E N) vanish; for C = {_LONGEST} it is "
        f"{', '.join(shown)} at T = {', '.join(map(str, _HORIZONS))}"
    )


@CLAIMS.step(
    "kv.lemma5.5-tail",
    Mutation("a twentieth of the window in the correction", factor=0.05),
    hypotheses=ARRIVALS,
    defect=Defect.INFERENCE,
    verify=verify_tail,
)
def _tail_check(context: Context, *, factor: float = 1) -> Outcome:
    """The choice δ = 1/T.

    Source: KV-cache paper, proof of Lemma 5.5 (appendix B.3) and of Lemma 5.6 (appendix B.4)
    Statement: With δ = 1/T Hoeffding's bound on Pr(N ≥ (1 + 1/T)λCF) is about 1 − O(1/T).
        Consequently the optimum has served all of S_ON ∪ U by t + C with probability at least 1 −
        O(1/T).
    Formula: Pr(N ≥ (1+1/T)·λCF) = O(1/T) for a constant C
    Summary: At δ = 1/T Hoeffding's bound is near 1, and so says nothing; the proof goes on as if
        it bounded the probability of the opposite. N ≥ (1 + 1/T)·E N gets likelier as T grows.
    Reading: the display bounds the bad event by a number near 1; that its probability is O(1/T)
        for some constant C is implied by the conclusion, not printed. Refuted where for every C
        tried the probability at T = 1000 is at least half of that at T = 10.
    Correction: The conclusion needs that fewer shorter requests arrive with probability 1 −
        O(1/T), and the displays do not give it. The bound on the bad event tends to 1 and says
        nothing; its probability tends to a positive number. A fixed δ and a window C = B²·log
        T/(2δ²λ²F²), which grows with T, give 1/T.
    """

    def with_log(tenths: int, duration: int) -> bool:
        p, delta = Fraction(tenths, 10), Fraction(1, 2)
        rounds = int(factor * log(duration) / float(2 * delta**2 * p**2)) + 1
        return tail(binomial(rounds, p), (1 + delta) * rounds * p) <= Fraction(1, duration)

    printed = context.refute(
        f"for some C up to {_LONGEST}, Pr(N ≥ (1 + 1/T)·E N) halves from T = 10 to 1000",
        "one arrival a round, shorter than ô with a probability in tenths, exact",
        context.choose((5,), (2, 5, 8), range(1, 10)),
    )
    corrected = examine(
        "with a fixed δ and C = B²·log T/(2δ²λ²F²) the probability is at most 1/T",
        "the same, δ = 1/2, T = 10, 100, 1000",
        product((5, 8), _HORIZONS),
        with_log,
    )
    return printed, corrected


# Remark 6.3: dependence of the ratio of Theorem 6.2 on the number of short requests.


def ratio(steps: int, prompt: int, num: int) -> Fraction:
    """Return the cost of keeping the long request, divided by the cost of delaying it.

    No short request fits with the long one after the release, so both costs are sums.
    """
    case = theorem_6_2(steps, prompt, 0, num)
    long_output, short = case.memory - prompt, case.batches(num)
    keep = long_output + num * prompt + short
    wait = case.release - (-num // case.together) + long_output + short
    return Fraction(keep, min(keep, wait))


# The two ends of the range.
_READING = (
    "the rule of section 3 (C), Algorithm 2, which starts at once and is the best answer here: "
    "after the release no short request fits beside the long one, paused or not."
)


@CLAIMS.remark(
    "kv.remark6.3",
    Mutation("M/5 for far more", far=Fraction(1, 5)),
    Mutation("√M for far fewer", few=isqrt),
    hypotheses=ADVERSARY,
    reading="the remark gives no figures; too few: one; too many: 1000·M, for which 1.01 is "
    f"near enough to 1; {_READING}",
)
def _ends_check(
    context: Context, *, far: Fraction = Fraction(1000), few: Callable[[int], int] = lambda M: 1
) -> Outcome:
    """Too few or too many short requests.

    Source: KV-cache paper, Remark 6.3 (section 6)
    Statement: If the number of short requests is too small, the total delay is negligible; if it
        is too large, the delay is dominated by the processing time and the ratio goes to 1.
    Formula: ratio(1) ≤ 1 + 2ε,  ratio(m) → 1 as m/M → ∞
    Summary: Both ends are as the remark says. How few is too few is another matter: with √M of
        them the ratio is large (kv.remark6.3-balance, kv.square-root).
    """
    sizes = context.choose((5, 10, 100), (5, 10, 20, 50, 100), range(3, 201))

    def negligible(steps: int) -> bool:
        # At ε = 1/3 the long request takes 2s rounds alone, and the short one waits for s of them.
        return ratio(steps, 10**6, few(steps * 10**6)) <= 1 + Fraction(2, steps)

    def near_one(steps: int) -> bool:
        return ratio(steps, 10**6, int(far * steps * 10**6)) <= Fraction(101, 100)

    def by_attack(steps: int) -> bool:
        cases = [theorem_6_2(steps, prompt, 0, num) for prompt in (2, 7) for num in (1, 3, 20)]
        return all(
            ratio(steps, case.prompt, case.num) == Fraction(case.with_long_at(0), case.best())
            for case in cases
        )

    made = f"1/ε in {list(sizes)}"
    domain = context.domain(f"{made}, M = 10^6/ε", sizes)
    least = domain.examine("one short request: ratio at most 1 + 2ε", negligible)
    many = domain.examine(f"{far}·M short requests: ratio at most 1.01", near_one)
    sums = examine("the sums are those of the runs", f"{made}, small M", sizes, by_attack)
    return least, many, sums


# The values between the ends.
@verifier
def verify_balance(steps: int, half: int) -> str:
    """Compare the ratio at εM short requests with that at half and twice as many."""
    dismiss_if(steps < 3 or half < 1)
    less, same, more = (ratio(steps, 2 * half, half * times) for times in (1, 2, 4))
    dismiss_if(2 * less < 3 * same or 2 * more < same)
    return (
        f"ε = 1/{steps}, M = {2 * half * steps}: with εM/2, εM, 2εM = {half}, {2 * half}, "
        f"{4 * half} short requests the ratio is "
        f"{', '.join(f'{float(value):.3f}' for value in (less, same, more))}"
    )


@CLAIMS.remark(
    "kv.remark6.3-balance",
    Mutation("1/x² in the correction", power=2),
    hypotheses=(*ADVERSARY, "M large, ε < 1/2"),
    defect=Defect.SENTENCE,
    reading="the remark gives no figure for `precisely balanced`; the thresholds are ours: "
    "refuted where half the number gives at least 3/2 of the ratio, and twice the number at "
    f"least half of it. {_READING[0].upper()}{_READING[1:]}",
    verify=verify_balance,
)
def _balance_check(context: Context, *, power: int = 1) -> Outcome:
    """Precise balance of the number.

    Source: KV-cache paper, Remark 6.3 (section 6)
    Statement: The choice of εM is crucial, as the number of short requests must be precisely
        balanced: with too few of them the long one can go first at a negligible total delay, as
        only few are put off.
    Formula: ratio(m) is large for m ≈ εM only
    Summary: The fewer short requests, the greater the ratio, down to some √M of them; there it
        grows without bound in M even for a fixed ε (kv.square-root).
    Correction: The number matters at its ends (kv.remark6.3), not in between. For M large, with
        x·εM short requests the ratio tends to 1 + 2(1/ε − 1)/x: it is of order 1/ε for every fixed
        x, and greater for fewer short requests.
    """
    sizes = range(5, context.choose(12, 40, 200))
    shares = [Fraction(k, 10) for k in (1, 2, 5, 10, 20, 50, 100)]

    def formula(steps: int, share: Fraction) -> bool:
        exact = ratio(steps, 10**10, int(share * 10**10))
        expected = 1 + Fraction(2 * (steps - 1)) / share**power
        return abs(exact - expected) <= expected / 50

    printed = context.refute(
        "at εM/2 the ratio is below 3/2, or at 2εM below 1/2, of that at εM",
        "1/ε = 5, 6, ..., M = 2h/ε for h = 10, 1000, 10^5",
        product(sizes, (10, 1000, 10**5)),
    )
    corrected = examine(
        "with x·εM short requests the ratio is 1 + 2(1/ε − 1)/x within 2 %",
        f"the same ε, x = {', '.join(map(str, shares))}, M = 10^10/ε",
        product(sizes, shares),
        formula,
    )
    return printed, corrected


# The shortest waiting request.
def waiting_law(
    memory: int, longest: int, per_round: int, now: int
) -> dict[tuple[int, int], Fraction]:
    """Return the joint law of ``|R(t)|`` and ``o_min`` under Algorithm 2, by all output sequences.

    Prompts of 1, outputs uniform on 1..``longest``, ``per_round`` arrivals in each round.
    """
    arrivals = tuple(r for r in range(now + 1) for _ in range(per_round))
    share = Fraction(1, longest ** len(arrivals))

    def number_and_shortest(outputs: tuple[int, ...]) -> tuple[int, int]:
        data = Jobs(memory, arrivals, (1,) * len(arrivals), tuple(o + 1 for o in outputs))
        waiting = [o for o, p in zip(outputs, algorithm(data), strict=True) if p >= now]
        return len(waiting), min(waiting)

    sequences = product(range(1, longest + 1), repeat=len(arrivals))
    return gathered((number_and_shortest(outputs), share) for outputs in sequences)


def formula_fails(law: dict[tuple[int, int], Fraction], longest: int) -> str | None:
    """Compare ``Pr(o_min ≤ x)`` given ``|R|`` with ``1 − (1 − F(x))^|R|``."""
    for size in sorted({r for r, _ in law}):
        total = sum(p for (r, _), p in law.items() if r == size)
        for x in range(1, longest):
            share = (
                sum((p for (r, o), p in law.items() if r == size and o <= x), Fraction(0)) / total
            )
            formula = 1 - (1 - Fraction(x, longest)) ** size
            if share != formula:
                return f"|R| = {size}: Pr(o_min ≤ {x}) = {share}, the formula gives {formula}"
    return None


@verifier
def verify_minimum(memory: int, longest: int, per_round: int, now: int) -> str:
    """Compute the law of the shortest waiting output and compare it with the formula."""
    dismiss_if(not 2 <= longest < memory or per_round < 1 or now < 0)
    dismiss_if(longest ** (per_round * (now + 1)) > 1000)
    why = formula_fails(waiting_law(memory, longest, per_round, now), longest)
    dismiss_if(why is None)
    return (
        f"convention A, M = {memory}, s = 1, {per_round} arrivals a round, outputs uniform on "
        f"1..{longest}, t = {now}: given {why}"
    )


@CLAIMS.step(
    "kv.lemma5.6-minimum",
    Mutation("round 0 only, when all are fresh", nows=(0,)),
    Mutation("one draw more in the correction", shift=1),
    hypotheses=ARRIVALS,
    defect=Defect.SENTENCE,
    verify=verify_minimum,
)
def _minimum_check(
    context: Context, *, nows: tuple[int, ...] = (0, 1, 2), shift: int = 0
) -> Outcome:
    """The shortest waiting request.

    Source: KV-cache paper, proof of Lemma 5.6 (appendix B.4)
    Statement: The shortest of the waiting requests R(t) has output at most x with probability 1 −
        (1 − F(x))^{|R(t)|}.
    Formula: Pr(o_min^{(t)} ≤ x) = 1 − (1 − F(x))^{|R(t)|}
    Summary: Algorithm 2 takes the shortest first, so those left over are longer than fresh draws.
    Reading: given |R(t)|.
    Correction: It holds for independent draws, so in the first round. Those that Algorithm 2
        leaves over are longer; where short ones are served as they come, the shortest does not get
        shorter as the queue grows.
    """
    largest = context.choose(5, 8, 12)
    cases = [
        (m, k, a, t)
        for m, k, a, t in product(range(3, largest), (2, 3), (1, 2), nows)
        if k < m and k ** (a * (t + 1)) <= context.choose(100, 1000, 1000)
    ]

    def independent(longest: int, size: int) -> bool:
        draws = list(product(range(1, longest + 1), repeat=size))
        law = {
            (size + shift, o): Fraction(sum(min(d) == o for d in draws), len(draws))
            for o in range(1, longest + 1)
        }
        return formula_fails(law, longest) is None

    printed = context.refute(
        "Pr(o_min ≤ x) = 1 − (1 − F(x))^{|R|} for R(t) of Algorithm 2",
        "small M, all output sequences of the first rounds",
        cases,
    )
    corrected = examine(
        "the same for |R| independent draws",
        "up to 4 draws from 1..4, enumerated",
        product(range(2, 5), range(1, 5)),
        independent,
    )
    return printed, corrected
