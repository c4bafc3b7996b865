"""The proof of constant regret: round accounting, signs, what OFF starts, and its terms."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

from formulations.hindsight_latency import LatencyProblem, total_latency
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.model import algorithm, as_data, jobs, random_problem
from proofs_checks.papers.kv.moments import (
    FROM_STATE,
    MADE,
    Moment,
    draws,
    moments,
    read_common,
)
from proofs_checks.search import Domain, examine

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
    """Return arrivals and lengths of what starts now; requests alike in both are one."""
    data = moment.data
    return Counter((data.arrival[job], data.length[job]) for job in moment.started(starts))


def leaves_the_batch(moment: Moment) -> bool:
    """Whether every optimum starts something that Algorithm 2 does not."""
    mine = lengths(moment, moment.online)
    return all(lengths(moment, other) - mine for other in moment.offline)


def verify_subset(data: Data) -> str | None:
    """Enumerate the optima from a state of Algorithm 2 and compare their batches with its own."""
    if not 0 <= data["now"] <= 50:
        return None
    moment = Moment(read_common(data), data["now"])
    if not leaves_the_batch(moment):
        return None
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
    # Rarer than what the other claims look for.
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
    domain = Domain(MADE, cases)
    printed = domain.refute(
        "some optimum starts a subset of what Algorithm 2 starts",
        verify_subset,
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
def expected(data: Data, power: int = 1) -> Fraction:
    """Return the mean of a CP that is C_1·K̄, but q·T^power with probability 1/T."""
    if data["horizon"] < 2 or min(data["usual"], data["slope"]) < 1:
        raise ValueError("no horizon, or a bound of 0")
    chance = Fraction(1, data["horizon"])
    usual, unusual = Fraction(data["usual"]), Fraction(data["slope"] * data["horizon"] ** power)
    return (1 - chance) * usual + chance * unusual


def verify_expectation(data: Data) -> str | None:
    """Compare the mean with the bound that holds with probability 1 − 1/T."""
    mean = expected(data)
    if data["usual"] >= data["slope"] * data["horizon"] or mean <= data["usual"]:
        return None
    return (
        f"T = {data['horizon']}: CP = {data['usual']} = C_1·K̄ with probability 1 − 1/T, and "
        f"{data['slope']}·T with probability 1/T, has mean {mean}"
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
    cases = [
        {"usual": c, "slope": q, "horizon": t}
        for c, q, t in product(range(1, largest), range(1, largest), range(2, largest))
    ]
    domain = Domain(
        f"CP = C_1·K̄ or, with probability 1/T, q·T; whole C_1·K̄, q, T below {largest}", cases
    )
    printed = domain.refute("E CP ≤ C_1·K̄", verify_expectation)
    corrected = domain.examine(
        "E CP ≤ C_1·K̄ + q",
        # The sum is at most q·T; broken, q·T².
        lambda case: expected(case, power) <= case["usual"] + share * case["slope"],
    )
    return printed, corrected
