"""The regret of Algorithm 2: its decomposition and the sums of the proof."""

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from formulations.hindsight_latency import Convention, LatencyProblem, total_latency
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome, dismiss_if, verifier
from proofs_checks.papers.kv.coupling import (
    FROM_STATE,
    MADE,
    Moment,
    draws,
    moments,
    read_common,
    small_problems,
)
from proofs_checks.papers.kv.model import (
    algorithm,
    as_data,
    jobs,
    least_latency,
    optima,
    prefix,
    problem_of,
    random_problem,
)
from proofs_checks.search import examine

CLAIMS = Claims()


# Equation (6).
@CLAIMS.step("kv.eq6", Mutation("summed to the last arrival", truncated=True), kind=Kind.IDENTITY)
def _rounds_check(context: Context, *, truncated: bool = False) -> Outcome:
    """Latency round by round.

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), Equations (5) and (6)
    Statement: Every pending request, processed or not, costs 1 in each round; the sum over all
        rounds is the total latency.
    Formula: ℓ_t = |S(t) ∪ R(t)|,  TEL = Σ_t ℓ_t
    Assumes: unit rounds; summed until all have completed
    Summary: Rounds after the last arrival count too.
    """

    def counted(problem: LatencyProblem) -> bool:
        starts = algorithm(jobs(problem))
        ends = [p + o for p, o in zip(starts, problem.output.tolist(), strict=True)]
        spans = list(zip(problem.arrival.tolist(), ends, strict=True))
        rounds = max(problem.arrival.tolist()) + 1 if truncated else max(ends)
        pending = (sum(a <= t < c for a, c in spans) for t in range(rounds))
        return bool(sum(pending) == total_latency(problem, starts))

    problems = (
        random_problem(context.rng, most=8, memory=15)
        for _ in range(context.choose(200, 2000, 50_000))
    )
    return examine(
        "Σ_t |S ∪ R| = Σ_i (c_i − a_i)", "random runs of Algorithm 2", problems, counted
    )


# Footnote 6.
@CLAIMS.step(
    "kv.footnote6",
    Mutation("Algorithm 2 in place of OFF in the second term", against_online=True),
    hypotheses=FROM_STATE,
)
def _sign_check(context: Context, *, against_online: bool = False) -> Outcome:
    """Compensated values are not negative.

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), footnote 6
    Statement: CP_{t+1} is never negative, and 0 if online and offline decide alike at t.
    Formula: L^OFF_{t+1}(S_ON, R_ON) ≥ L^OFF_{t+1}(S̃_OFF, R̃_OFF)
    Summary: By enumeration of all schedules from the state.
    """

    def never_negative(moment: Moment) -> bool:
        if against_online:
            return moment.compensated + sum(moment.offline[0]) >= sum(moment.online)
        alike = any(moment.started(o) == moment.started(moment.online) for o in moment.offline)
        return moment.compensated >= 0 and not (alike and moment.compensated)

    return examine(
        "CP ≥ 0, and 0 if some optimum decides alike",
        MADE,
        moments(context, draws(context)),
        never_negative,
    )


# Which requests OFF starts.
def lengths(moment: Moment, starts: Sequence[int]) -> Counter[tuple[int, int]]:
    """Count the requests that start now, by arrival and length."""
    data = moment.data
    return Counter((data.arrival[job], data.length[job]) for job in moment.started(starts))


def leaves_the_batch(moment: Moment) -> bool:
    """Return whether every optimum starts a request that Algorithm 2 does not."""
    mine = lengths(moment, moment.online)
    return all(lengths(moment, other) - mine for other in moment.offline)


@verifier
def verify_subset(data: Data) -> str:
    """Enumerate the optima from a state of Algorithm 2 and compare their batches with its own."""
    dismiss_if(not 0 <= data["now"] <= 50)
    moment = Moment(read_common(data), data["now"])
    dismiss_if(not leaves_the_batch(moment))
    return (
        f"convention {moment.problem.convention}, M = {moment.problem.memory}, (arrival, s, o) = "
        f"{data['requests']}: at t = {moment.now} Algorithm 2 starts "
        f"{sorted(moment.started(moment.online))}, every optimum something else, such as "
        f"{sorted(moment.started(moment.offline[0]))}"
    )


@CLAIMS.step(
    "kv.off-subset",
    Mutation("fewer by one in the correction", spare=1),
    hypotheses=FROM_STATE,
    defect=Defect.SENTENCE,
    verify=verify_subset,
)
def _subset_check(context: Context, *, spare: int = 0) -> Outcome:
    # Counterexamples are rarer than those of the other claims.
    """OFF differs only by starting less.

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), text before Algorithm 3
    Statement: Where OFF decides otherwise than Algorithm 2, it processes a subset of S_ON ∪ U,
        saving memory for shorter requests to come.
    Formula: V(t) ⊂ S_ON(t) ∪ U(t)
    Summary: It may start a longer one instead of a shorter one, because of when they end.
    Reading: refuted where no optimum starts a subset, requests of equal arrival and output alike.
    Correction: It starts no more requests than Algorithm 2 does, |V| ≤ |U|, but may start others.
    """
    cases = list(moments(context, 2 * draws(context)))
    domain = context.domain(MADE, cases)
    printed = domain.refute(
        "some optimum starts a subset of what Algorithm 2 starts",
        lambda m: as_data(m.problem, now=m.now),
        holds=lambda m: not leaves_the_batch(m),
    )
    corrected = domain.examine(
        "no optimum starts more requests",
        lambda m: all(len(m.started(o)) + spare <= len(m.started(m.online)) for o in m.offline),
    )
    return printed, corrected


# The terms K(t′).
@CLAIMS.step(
    "kv.pending-difference", Mutation("no difference at all", per_round=0), hypotheses=FROM_STATE
)
def _pending_check(context: Context, *, per_round: int = 1) -> Outcome:
    """The terms K(t′).

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), displays below Lemmas 5.5 and 5.6
    Statement: In each round t′ = t + 1, ..., t̂ the numbers of pending requests of OC and OFF
        differ by a constant K(t′) at most, since only a finite number of requests can be processed
        per round.
    Formula: |S_OC ∪ R_OC| − |S̃_OFF ∪ R̃_OFF| ≤ K(t′)
    Summary: Both start from the same requests, and OFF completes at most ⌊M/s⌋ a round, each of
        which holds s tokens at least.
    Reading: K(t′) = (t′ − t)·⌊M/s⌋, so K̄ = sup K(t′) is constant only if t̂ − t is bounded.
    """

    def bounded(moment: Moment) -> bool:
        offline = moment.offline[0]
        coupled = moment.coupled(offline)
        served = moment.problem.memory // int(moment.problem.prompt[0])
        return all(
            moment.pending(coupled.starts, r) - moment.pending(offline, r)
            <= per_round * served * (r - moment.now)
            for r in range(moment.now + 1, coupled.copies_from + 1)
        )

    return examine(
        "|S_OC ∪ R_OC| − |S_OFF ∪ R_OFF| ≤ (t′ − t)·⌊M/s⌋ for t′ = t + 1..t̂",
        MADE,
        moments(context, draws(context) // 2),
        bounded,
    )


# The bound for the first rounds.
@CLAIMS.step(
    "kv.compensated-linear",
    Mutation("an eighth of it", share=Fraction(1, 8)),
    hypotheses=FROM_STATE,
)
def _linear_check(context: Context, *, share: Fraction = Fraction(1)) -> Outcome:
    """A compensated value is O(T).

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), text before the last display (t <
        t_0)
    Statement: For t < t_0 one can take q·T as a bound on CP_{t+1}, for some constant q.
    Formula: CP_{t+1} ≤ q·T
    Summary: After any decision OFF may let what runs end and put its own schedule off by max d
        rounds. With n ≤ B·T this is q·T.
    Reading: q = B·max d, at any t.
    """

    def bounded(moment: Moment) -> bool:
        longest = max(moment.data.length)
        return moment.compensated <= share * len(moment.data.length) * longest

    return examine(
        "CP_{t+1} ≤ n·max d, d the slots that a request occupies",
        MADE,
        moments(context, draws(context) // 2),
        bounded,
    )


# The expectation.
def expected(usual: int, slope: int, rounds: int, power: int = 1) -> Fraction:
    """Return the mean of a CP that is q·T^power with probability 1/T and C_1·K̄ otherwise."""
    chance = Fraction(1, rounds)
    return (1 - chance) * usual + chance * Fraction(slope * rounds**power)


@verifier
def verify_expectation(usual: int, slope: int, rounds: int) -> str:
    """Compare the mean with the bound that holds with probability 1 − 1/T."""
    if rounds < 2 or min(usual, slope) < 1:
        raise ValueError("no round, or a bound of 0")
    mean = expected(usual, slope, rounds)
    dismiss_if(usual >= slope * rounds or mean <= usual)
    return (
        f"T = {rounds}: CP = {usual} = C_1·K̄ with probability 1 − 1/T, and {slope}·T with "
        f"probability 1/T, has mean {mean}"
    )


@CLAIMS.step(
    "kv.coupling-constant",
    Mutation("C_1·K̄ in the correction", share=0),
    Mutation("sums of up to q·T² in the correction", power=2),
    defect=Defect.FORMULA,
    verify=verify_expectation,
)
def _expectation_check(context: Context, *, share: int = 1, power: int = 1) -> Outcome:
    """From a bound with high probability to the expectation.

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), bounds C_1·K̄ and C_2·K̄ on
        CP_{t+1}
    Statement: With probability 1 − O(1/T), t̂ − t ≤ C_1 and so the sum of the differences is at
        most C_1·K̄; hence CP_{t+1}, an expectation, is at most C_1·K̄.
    Formula: Pr(Σ_{t′} … ≤ C_1·K̄) ≥ 1 − O(1/T)  ⇒  CP_{t+1} ≤ C_1·K̄
    Assumes: the sum is at most q·T always (kv.compensated-linear)
    Summary: The event of probability O(1/T) is left out of the expectation, where CP may be q·T;
        it adds a constant.
    Reading: of the step alone, as a statement about a random number, which need not come from an
        instance; the probability left out is 1/T, so a = 1.
    Correction: CP_{t+1} ≤ C_1·K̄ + a·q if the probability left out is at most a/T: still a
        constant. That the probability is 1 − O(1/T) is where the proof fails (kv.lemma5.5-tail).
    """
    largest = context.choose(8, 20, 40)
    cases = list(product(range(1, largest), range(1, largest), range(2, largest)))
    domain = context.domain(
        f"CP = C_1·K̄ or, with probability 1/T, q·T; whole C_1·K̄, q, T below {largest}", cases
    )
    printed = domain.refute("E CP ≤ C_1·K̄")
    corrected = domain.examine(
        "E CP ≤ C_1·K̄ + q",
        # The sum is at most q·T; the mutation uses q·T².
        lambda usual, q, T: expected(usual, q, T, power) <= usual + share * q,
    )
    return printed, corrected


# The proof of constant regret: telescoping sums (3) and (4), and the decomposition.


# Equations (3) and (4).
def least_left(problem: LatencyProblem, path: Sequence[int], now: int) -> int:
    """Return ``L^OFF_t``: latency from round ``now`` on of the optimum from a path's state."""
    best = optima(jobs(problem), prefix(path, now), now)[0]
    columns = zip(problem.arrival.tolist(), best, problem.output.tolist(), strict=True)
    return sum(max(0, p + o - max(now, a)) for a, p, o in columns)


def differences(
    problem: LatencyProblem, path: Sequence[int], after: Sequence[int] | None = None
) -> list[int]:
    """Return ``L^OFF_t − L^OFF_{t+1}`` along a path, until all requests have completed.

    Parameters
    ----------
    problem : LatencyProblem
        Requests.
    path : sequence of int
        Starts that lead to the states.
    after : sequence of int, optional
        Starts that lead to the second states; those of the path by default.
    """
    ends = [p + o for p, o in zip(path, problem.output.tolist(), strict=True)]
    second = path if after is None else after
    return [
        least_left(problem, path, t) - least_left(problem, second, t + 1) for t in range(max(ends))
    ]


def _problems(context: Context) -> list[LatencyProblem]:
    return list(small_problems(context, context.choose(40, 300, 3000)))


def _optimum(problem: LatencyProblem) -> list[int]:
    return list(optima(jobs(problem))[0])


_MADE = "random instances of 4 requests, optima from each state by enumeration"


@CLAIMS.step(
    "kv.eq3",
    Mutation("the second term from the state of Algorithm 2", consistent=False),
    hypotheses=FROM_STATE[:2],
    kind=Kind.IDENTITY,
)
def _offline_check(context: Context, *, consistent: bool = True) -> Outcome:
    """The optimum as a telescoping sum.

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), Equation (3)
    Statement: The total latency of the optimum is the sum over the rounds of L^OFF_t(S(t), R(t)) −
        L^OFF_{t+1}(S(t+1), R(t+1)).
    Formula: L^OFF_1(S(1), R(1)) = Σ_t (L^OFF_t(S(t), R(t)) − L^OFF_{t+1}(S(t+1), R(t+1)))
    Summary: OFF from a state that it has reached goes on at the same total cost.
    Reading: rounds until all have completed, so that the last term is 0; optima with the started
        requests as they are.
    """
    problems = _problems(context)

    def sums_up(problem: LatencyProblem) -> bool:
        path = _optimum(problem)
        after = None if consistent else algorithm(jobs(problem))
        total = sum(path) + int((problem.output - problem.arrival).sum())
        return sum(differences(problem, path, after)) == total

    def pending(problem: LatencyProblem) -> bool:
        path = _optimum(problem)
        moment = Moment(problem, 0)
        terms = differences(problem, path)
        return terms == [moment.pending(path, t) for t in range(len(terms))]

    domain = context.domain(_MADE, problems)
    total = domain.examine("L^OFF_1 = Σ_t (L^OFF_t − L^OFF_{t+1})", sums_up)
    each = domain.examine("along OFF's own path each term is |S ∪ R|", pending)
    return total, each


@CLAIMS.step(
    "kv.eq4", Mutation("three rounds only", last=3), hypotheses=FROM_STATE[:2], kind=Kind.IDENTITY
)
def _online_check(context: Context, *, last: int | None = None) -> Outcome:
    """The same sum along the states of Algorithm 2.

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), Equation (4)
    Statement: The states in (3) may be replaced by those of Algorithm 2.
    Formula: L^OFF_1 = Σ_t (L^OFF_t(S_ON(t), R_ON(t)) − L^OFF_{t+1}(S_ON(t+1), R_ON(t+1)))
    Summary: Exact, path by path.
    Reading: rounds until all have completed under Algorithm 2.
    """

    def sums_up(problem: LatencyProblem) -> bool:
        terms = differences(problem, algorithm(jobs(problem)))
        best = sum(_optimum(problem)) + int((problem.output - problem.arrival).sum())
        return sum(terms[:last]) == best

    return examine("(4) with the states of Algorithm 2", _MADE, _problems(context), sums_up)


# The decomposition.
def gap_and_sum(problem: LatencyProblem) -> tuple[int, int]:
    """Return total latency of Algorithm 2 less the optimum, and the sum of its CP terms."""
    data = jobs(problem)
    online = algorithm(data)
    terms = sum(Moment(problem, now).compensated for now in range(max(online) + 1))
    return sum(online) - least_latency(data), terms


def streams(memory: int, longest: int, per_round: int, rounds: int) -> Iterator[LatencyProblem]:
    """Yield a stream with every sequence of outputs, all equally likely; convention A, s = 1."""
    arrivals = [r for r in range(rounds) for _ in range(per_round)]
    if not 1 <= longest < memory or min(per_round, rounds - 1) < 1:
        raise ValueError("no stream of two rounds, or outputs that never fit")
    if longest ** len(arrivals) > 100:
        raise ValueError("too many sequences")
    for outputs in product(range(1, longest + 1), repeat=len(arrivals)):
        yield problem_of(memory, [1] * len(arrivals), outputs, Convention.CLOSED, arrivals)


@verifier
def verify_decomposition(memory: int, longest: int, per_round: int, rounds: int) -> str:
    """Evaluate both sides of the printed decomposition exactly."""
    pairs = [gap_and_sum(problem) for problem in streams(memory, longest, per_round, rounds)]
    gap, terms = (Fraction(sum(column), len(pairs)) for column in zip(*pairs, strict=True))
    left, right = gap / (per_round * rounds), terms / rounds
    dismiss_if(left == right)
    return (
        f"convention A, M = {memory}, s = 1, {per_round} arrivals in each of T = {rounds} rounds, "
        f"outputs uniform on 1..{longest}: E[AEL − OPT/n] = {left}, (1/T)·Σ CP = {right}"
    )


@CLAIMS.step(
    "kv.regret-decomposition",
    Mutation("one arrival a round, where n = T", rate=1),
    Mutation("without the first two rounds", from_round=2),
    hypotheses=(*FROM_STATE, "arrivals per round i.i.d. with bounded support"),
    defect=Defect.FORMULA,
    verify=verify_decomposition,
)
def _decomposition_check(context: Context, *, rate: int = 2, from_round: int = 0) -> Outcome:
    """Decomposition of the regret.

    Source: KV-cache paper, proof of Theorem 5.3 (section 5.1), display after Equation (6)
    Statement: The regret, the expected excess of AEL over OPT/n, is 1/T times the sum of the
        compensated values of the T rounds.
    Formula: E[AEL − OPT/n] = (1/T)·Σ_t E[L^OFF_{t+1}(S_ON, R_ON) − L^OFF_{t+1}(S̃_OFF, R̃_OFF)]
    Summary: The terms add up to the excess of the total latency. AEL divides it by n, the printed
        formula by T; with a fixed number λ of arrivals a round they differ by the factor λ.
    Reading: a fixed number of arrivals in every round is a distribution with bounded support;
        latencies counted until all have completed. The counterexample is under A; the factor n/T
        is the same under B and C, where the identity of the correction is checked as well.
    Correction: Path by path TEL − OPT = Σ_t CP_{t+1}, summed until all have completed. AEL divides
        by n, which is about λT: the regret is 1/(λT) times the sum. For a bound that does not grow
        with T the factor does not matter.
    """
    memories, longest = context.choose(
        (range(3, 6), (2,)), (range(3, 8), (2, 3)), (range(3, 12), (2, 3))
    )
    cases = [(m, k, rate, 2) for m, k in product(memories, longest) if k < m]
    problems = list(small_problems(context, context.choose(60, 600, 5000)))

    def pathwise(problem: LatencyProblem) -> bool:
        gap, terms = gap_and_sum(problem)
        skipped = sum(Moment(problem, now).compensated for now in range(from_round))
        return gap == terms - skipped

    printed = context.refute(
        "E[AEL − OPT/n] = (1/T)·Σ_t CP_{t+1}",
        f"streams of {rate} arrivals a round, s = 1, small M, all sequences of outputs",
        cases,
        found="exhaustive search",
    )
    corrected = examine(
        "TEL − OPT = Σ_t CP_{t+1} on every path, until all have completed",
        "random runs of Algorithm 2 on 4 requests, conventions A, B, C, optima by enumeration",
        problems,
        pathwise,
    )
    return printed, corrected
