"""The proof of constant regret: telescoping sums (3) and (4), and the decomposition."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.kv.model import (
    algorithm,
    jobs,
    least_latency,
    optima,
    prefix,
    problem_of,
)
from proofs_checks.papers.kv.moments import FROM_STATE, Moment, small_problems
from proofs_checks.search import Domain, examine, refute

CLAIMS = Claims()


# Equations (3) and (4).
def least_left(problem: LatencyProblem, path: Sequence[int], now: int) -> int:
    """``L^OFF_t``: latency from round ``now`` on of the optimum from the state that a path has."""
    best = optima(jobs(problem), prefix(path, now), now)[0]
    columns = zip(problem.arrival.tolist(), best, problem.output.tolist(), strict=True)
    return sum(max(0, p + o - max(now, a)) for a, p, o in columns)


def differences(
    problem: LatencyProblem, path: Sequence[int], after: Sequence[int] | None = None
) -> list[int]:
    """Return ``L^OFF_t − L^OFF_{t+1}`` along a path, until all have completed.

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

    domain = Domain(_MADE, problems)
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


def streams(data: Data) -> Iterator[LatencyProblem]:
    """Yield a stream with every sequence of outputs, all equally likely; convention A, s = 1."""
    memory, longest, per_round, rounds = (
        data[key] for key in ("memory", "longest", "per_round", "rounds")
    )
    arrivals = [r for r in range(rounds) for _ in range(per_round)]
    if not 1 <= longest < memory or min(per_round, rounds - 1) < 1:
        raise ValueError("no stream of two rounds, or outputs that never fit")
    if longest ** len(arrivals) > 100:
        raise ValueError("too many sequences")
    for outputs in product(range(1, longest + 1), repeat=len(arrivals)):
        yield problem_of(memory, [1] * len(arrivals), outputs, Convention.CLOSED, arrivals)


def verify_decomposition(data: Data) -> str | None:
    """Evaluate both sides of the printed decomposition exactly."""
    pairs = [gap_and_sum(problem) for problem in streams(data)]
    gap, terms = (Fraction(sum(column), len(pairs)) for column in zip(*pairs, strict=True))
    left = gap / (data["per_round"] * data["rounds"])
    right = terms / data["rounds"]
    if left == right:
        return None
    return (
        f"convention A, M = {data['memory']}, s = 1, {data['per_round']} arrivals in each of T = "
        f"{data['rounds']} rounds, outputs uniform on 1..{data['longest']}: E[AEL − OPT/n] = "
        f"{left}, (1/T)·Σ CP = {right}"
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
    cases = [
        {"memory": m, "longest": k, "per_round": rate, "rounds": 2}
        for m, k in product(memories, longest)
        if k < m
    ]
    problems = list(small_problems(context, context.choose(60, 600, 5000)))

    def pathwise(problem: LatencyProblem) -> bool:
        gap, terms = gap_and_sum(problem)
        skipped = sum(Moment(problem, now).compensated for now in range(from_round))
        return gap == terms - skipped

    printed = refute(
        "E[AEL − OPT/n] = (1/T)·Σ_t CP_{t+1}",
        f"streams of {rate} arrivals a round, s = 1, small M, all sequences of outputs",
        cases,
        verify_decomposition,
        found="exhaustive search",
    )
    corrected = examine(
        "TEL − OPT = Σ_t CP_{t+1} on every path, until all have completed",
        "random runs of Algorithm 2 on 4 requests, conventions A, B, C, optima by enumeration",
        problems,
        pathwise,
    )
    return printed, corrected
