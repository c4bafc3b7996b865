"""How many shorter arrivals there are: the proofs of Lemmas 5.5 and 5.6."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import exp, log

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.exact_laws import ExactLaw, binomial, gathered, mean, of_sum
from proofs_checks.search import Domain, examine, refute

CLAIMS = Claims()


@dataclass(frozen=True)
class ArrivalWindow:
    """Arrivals in a number of rounds: 0..``most`` per round, outputs 1..``longest``, all uniform.

    Parameters
    ----------
    rounds : int
        Rounds counted.
    most : int
        ``B``.
    longest : int
        Largest output.
    below : int
        ``ô``: arrivals with an output below it count.
    """

    rounds: int
    most: int
    longest: int
    below: int

    def law(self) -> ExactLaw:
        """Law of the number of arrivals that count, by convolution."""
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
        """Mean of that law."""
        return mean(self.law())


def _windows(context: Context) -> Iterator[ArrivalWindow]:
    rounds, most, longest = context.choose((4, 2, 3), (6, 3, 4), (10, 4, 6))
    for c, b, k in product(range(1, rounds + 1), range(1, most + 1), range(2, longest + 1)):
        yield from (ArrivalWindow(c, b, k, below) for below in range(2, k + 1))


# The mean.
def printed_mean(window: ArrivalWindow) -> Fraction:
    """``λ·C·F(ô)``."""
    rate = Fraction(window.most, 2)
    return rate * window.rounds * Fraction(window.below, window.longest)


def read_window(data: Data) -> ArrivalWindow:
    """Read a window and refuse a meaningless one."""
    window = ArrivalWindow(data["rounds"], data["most"], data["longest"], data["below"])
    if min(window.rounds, window.most) < 1 or not 2 <= window.below <= window.longest <= 30:
        raise ValueError("no window")
    return window


def verify_mean(data: Data) -> str | None:
    """Compare the printed mean with that of the exact law."""
    window = read_window(data)
    exact, printed = window.mean(), printed_mean(window)
    if exact == printed:
        return None
    return (
        f"C = {window.rounds}, 0..{window.most} arrivals a round, outputs 1..{window.longest}, "
        f"ô = {window.below}: the mean is {exact}, λ·C·F(ô) = {printed}"
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

    domain = Domain(
        "arrivals 0..B and outputs 1..K uniform, small B, C, K, ô, exact laws", windows
    )
    printed = domain.refute("E N over C rounds = λ·C·F(ô)", verify_mean, lambda w: dict(vars(w)))
    as_corrected = domain.examine("E N over C rounds = λ·C·F(ô − 1)", corrected)
    return printed, as_corrected


# Hoeffding, and what is read off it.
def tail(law: ExactLaw, least: Fraction) -> Fraction:
    """``Pr(N ≥ least)``."""
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

    def bounded(case: tuple[ArrivalWindow, Fraction]) -> bool:
        window, delta = case
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
#: Constants C that are tried, from 1 on.
_LONGEST = 20


def chances(rounds: int, tenths: int) -> list[Fraction]:
    """Return ``Pr(N ≥ (1 + 1/T)·E N)`` over C rounds for each duration T."""
    law = binomial(rounds, Fraction(tenths, 10))
    return [tail(law, (1 + Fraction(1, t)) * mean(law)) for t in _HORIZONS]


def verify_tail(data: Data) -> str | None:
    """Check that the probability stays as T grows a hundredfold, whatever the constant C."""
    tenths = data["tenths"]
    if not 1 <= tenths <= 9:
        return None
    chances_by_rounds = {rounds: chances(rounds, tenths) for rounds in range(1, _LONGEST + 1)}
    if any(2 * last < first or not last for first, *_, last in chances_by_rounds.values()):
        return None
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
def _tail_check(
    context: Context, *, delta: Fraction = Fraction(1, 2), factor: float = 1
) -> Outcome:
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
    cases = [{"tenths": p} for p in context.choose((5,), (2, 5, 8), range(1, 10))]

    def with_log(case: tuple[int, int]) -> bool:
        tenths, duration = case
        p = Fraction(tenths, 10)
        rounds = int(factor * log(duration) / float(2 * delta**2 * p**2)) + 1
        return tail(binomial(rounds, p), (1 + delta) * rounds * p) <= Fraction(1, duration)

    printed = refute(
        f"for some C up to {_LONGEST}, Pr(N ≥ (1 + 1/T)·E N) halves from T = 10 to 1000",
        "one arrival a round, shorter than ô with a probability in tenths, exact",
        cases,
        verify_tail,
    )
    corrected = examine(
        "with a fixed δ and C = B²·log T/(2δ²λ²F²) the probability is at most 1/T",
        "the same, δ = 1/2, T = 10, 100, 1000",
        product((5, 8), _HORIZONS),
        with_log,
    )
    return printed, corrected
