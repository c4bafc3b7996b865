"""Engines in parallel: Proposition 1, and its proof step for join-lowest-request."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias

from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Estimate, Findings, Outcome
from proofs_checks.papers.batching.lyapunov import linear
from proofs_checks.papers.batching.model import (
    Engine,
    State,
    random_engine,
    random_queue,
    sarathi,
    simple_engine,
    slowed,
)
from proofs_checks.search import examine, refute
from proofs_checks.statistics import mean_estimate

CLAIMS = Claims()


States: TypeAlias = Sequence[State]
#: Probability of each engine to get the next request.
Balancer: TypeAlias = Callable[[States], list[Fraction]]


def uniform(states: States) -> list[Fraction]:
    """Choose an engine uniformly at random."""
    return [Fraction(1, len(states))] * len(states)


def _to(chosen: int, states: States) -> list[Fraction]:
    return [Fraction(int(k == chosen)) for k in range(len(states))]


def fewest_requests(states: States) -> list[Fraction]:
    """Choose the engine with the fewest requests; ties: the first."""
    return _to(min(range(len(states)), key=lambda k: len(states[k].queue)), states)


def fewest_tokens(states: States) -> list[Fraction]:
    """Choose the engine with the fewest tokens left; ties: the first."""
    return _to(min(range(len(states)), key=lambda k: sum(map(sum, states[k].queue))), states)


def always_first(states: States) -> list[Fraction]:
    """Always choose the first engine."""
    return _to(0, states)


NAMED: tuple[Balancer, ...] = (uniform, fewest_requests, fewest_tokens)


def drifts(engine: Engine, states: States, balancer: Balancer) -> list[Fraction]:
    """Return the drift of ``Σ(P + D) + R b/t_b`` of each engine, exactly.

    Requests of one slot are routed in turn; each decision sees the earlier ones.
    """
    worth = linear(engine)
    served = [
        engine.step(state, [] if state.remaining else sarathi(state.queue, engine.budget))
        for state in states
    ]
    gained = [worth(after) - worth(before) for after, before in zip(served, states, strict=True)]
    for arrived, chance in engine.arrivals():
        for k, tokens in enumerate(_routed(list(states), arrived, balancer)):
            gained[k] += chance * tokens
    return gained


def _routed(
    states: list[State], arrived: Sequence[tuple[int, int]], balancer: Balancer
) -> list[Fraction]:
    """Return the mean tokens that each engine receives when the requests are routed in turn."""
    if not arrived:
        return [Fraction(0)] * len(states)
    mean = [Fraction(0)] * len(states)
    for k, chance in enumerate(balancer(states)):
        if chance:
            joined = State(states[k].remaining, (*states[k].queue, arrived[0]))
            later = _routed([*states[:k], joined, *states[k + 1 :]], arrived[1:], balancer)
            for i, tokens in enumerate(later):
                mean[i] += chance * (tokens + (sum(arrived[0]) if i == k else 0))
    return mean


def verify_balancer(data: Data) -> str | None:
    """Confirm that one of K engines gets all requests and is overloaded."""
    engines, budget, tokens = data["engines"], data["budget"], data["tokens"]
    rate = Fraction(*data["chance"])
    if engines < 2 or budget < 1 or tokens < 2 or not 0 < rate <= 1:
        return None
    if not budget < rate * tokens < engines * budget:
        return None
    engine = simple_engine(budget, (1, tokens - 1), rate)
    drift = drifts(engine, [State(0, ())] * engines, always_first)[0]
    return (
        f"K = {engines}, b = {budget}, t = 1, {tokens} tokens a request, λ = {rate}: load "
        f"{rate * tokens / (engines * budget)}, and the tokens of the engine that gets all grow "
        f"by {rate * tokens - budget} a slot or more ({drift} while it is empty)"
    )


@CLAIMS.result(
    "batching.proposition1",
    Mutation("everything to the first engine", balancers=(always_first,)),
    Mutation("a load of more than 1", most_load=400),
    defect=Defect.HYPOTHESIS,
    verify=verify_balancer,
)
def _proposition_check(
    context: Context, *, balancers: tuple[Balancer, ...] = NAMED, most_load: int = 90
) -> Outcome:
    """Engines in parallel.

    Source: throughput paper, Proposition 1 (section 4.1)
    Statement: Fix a load balancing algorithm, and a work-conserving (K_p, K_d)-FCFS algorithm for
        all K engines. Under (4.1) the chain is positive recurrent.
    Formula: λ(m_p + m_d) < K b/t_b  ⇒  positive recurrent
    Assumes: identical engines; work-conserving as min(b, eligible tokens)
    Summary: A balancer that sends everything to one engine needs λ(m_p+m_d) < b/t_b. Of the three
        that the section names, a backlog at one engine drains.
    Correction: For the balancers of the section (at random, fewest requests, fewest tokens): the
        total workload falls while all engines are full, by K b/t_b − λ(m_p+m_d).
    """
    rng = context.rng

    def unfair() -> Iterator[Data]:
        for _ in range(context.choose(60, 600, 10_000)):
            yield {
                "engines": int(rng.integers(2, 6)),
                "budget": int(rng.integers(1, 10)),
                "tokens": int(rng.integers(2, 40)),
                "chance": [int(rng.integers(1, 11)), 10],
            }

    def below(data: Data) -> bool:
        work = Fraction(*data["chance"]) * data["tokens"]
        return bool(work < data["engines"] * data["budget"])

    printed = refute(
        "stable under any load balancing",
        "t = 1, one size; all requests to the first engine",
        unfair(),
        verify_balancer,
        applies=below,
    )

    def full() -> Iterator[tuple[Engine, list[State], Balancer]]:
        for k in range(context.choose(20, 200, 2000)):
            count = int(rng.integers(2, 4))
            load = Fraction(count * int(rng.integers(5, most_load)), 100)
            engine = slowed(random_engine(rng), load)
            states = [State(0, random_queue(rng, engine.budget)) for _ in range(count)]
            # All possible arrivals of a slot are enumerated, so there are few requests.
            if engine.counts[-1][0] <= 3:
                yield engine, states, balancers[k % len(balancers)]

    def falls(case: tuple[Engine, list[State], Balancer]) -> bool:
        engine, states, balancer = case
        each = drifts(engine, states, balancer)
        expected = engine.rate * engine.tokens - len(states) * engine.full_rate
        alike = balancer is not uniform or len(set(each)) == 1
        return sum(each) == expected < 0 and alike

    corrected = examine(
        "Σ_k f^k falls by K b/t_b − λ(m_p+m_d), alike for all engines if at random",
        "random engines, states in which all have b tokens or more",
        full(),
        falls,
    )
    estimates = [_drained(context, balancer) for balancer in balancers]
    return Findings(printed, corrected, estimates=estimates)


def _drained(context: Context, balancer: Balancer) -> Estimate:
    """Estimate the share left of a backlog at one engine of three, at a load of 0.8."""
    rng, size, budget, count = context.rng, (3, 3), 4, 3
    backlog, runs = context.choose(20, 60, 200), context.choose(4, 8, 16)
    engine = simple_engine(budget, size)
    left = []
    for _ in range(runs):
        states = [State(0, (size,) * backlog)] + [State(0, ())] * (count - 1)
        # Twice the time that the backlogged engine needs even if it keeps its share of arrivals.
        slots = 2 * int(backlog * sum(size) / (budget * Fraction(1, 5)))
        for _ in range(slots):
            states = [engine.step(s, sarathi(s.queue, budget)) for s in states]
            # Two Bernoulli arrivals per slot: λ = 8/5, of the 2 that the engines can serve.
            for _ in range(int((rng.random(2) < 0.8).sum())):
                shares = [float(share) for share in balancer(states)]
                k = int(rng.choice(count, p=shares))
                states[k] = State(0, (*states[k].queue, size))
        left.append(sum(len(state.queue) for state in states) / backlog)
    return mean_estimate(
        f"share of the backlog that is left, {balancer.__name__}", left, "upper end below 1",
        lambda low, high: high < 1,
    )  # fmt: skip


def _work(data: Data) -> list[int]:
    """Return the tokens left at each engine."""
    p, d = data["prefill"], data["decode"]
    return [(p + d) * z_p + d * z_d for z_p, z_d in data["engines"]]


def verify_fewest(data: Data) -> str | None:
    """Confirm that join-lowest-request sends all requests to the engine with the most work."""
    p, d, engines = data["prefill"], data["decode"], data["engines"]
    if min(p, d) < 1 or len(engines) < 2 or any(min(z) < 0 for z in engines):
        return None
    work = _work(data)
    counts = [z_p + z_d for z_p, z_d in engines]
    most = work.index(max(work))
    if work.count(max(work)) > 1 or any(
        n <= counts[most] for k, n in enumerate(counts) if k != most
    ):
        return None
    return (
        f"(m_p, m_d) = ({p}, {d}), (Z_p, Z_d) = {engines}: engine {most} alone has the most work, "
        f"{work[most]} of {work}, and the fewest requests, {counts[most]} of {counts}: A' = λ"
    )


@CLAIMS.step(
    "batching.proposition1-fewest",
    Mutation("the correction with fewest requests", by_tokens=False),
    Mutation("requests in decode only", decode_only=True),
    defect=Defect.FORMULA,
    verify=verify_fewest,
)
def _fewest_check(
    context: Context, *, by_tokens: bool = True, decode_only: bool = False
) -> Outcome:
    """Where join-lowest-request sends arrivals.

    Source: throughput paper, sketch of the proof of Proposition 1 (appendix C.5)
    Statement: Under join-lowest-request, the engine with the largest f^k, if it is the only one,
        gets no arrivals, so that max_k f^k falls at the rate b/t_b.
    Formula: f^l > max_{k≠l} f^k  ⇒  A^l' = 0
    Assumes: f^k = (m_p+m_d)Z_p^k + m_d Z_d^k (batching.c19)
    Summary: The engine with the most work may have the fewest requests: all of its requests in
        prefill, those of the others in decode.
    Correction: Under join-lowest-tokens it gets none. For fewest requests Σ_k f^k serves: while
        all engines are busy it falls at the rate K b/t_b − λ(m_p+m_d).
    """
    rng = context.rng

    def cases() -> Iterator[Data]:
        for _ in range(context.choose(200, 2000, 40_000)):
            counts = rng.integers(0, 6, size=(int(rng.integers(2, 5)), 2))
            yield {
                "prefill": int(rng.integers(1, 9)),
                "decode": int(rng.integers(1, 9)),
                "engines": [[0 if decode_only else int(z_p), int(z_d)] for z_p, z_d in counts],
            }

    def unique(data: Data) -> bool:
        return _work(data).count(max(_work(data))) == 1

    def avoids(data: Data) -> bool:
        index = _work(data) if by_tokens else [sum(z) for z in data["engines"]]
        return index.index(min(index)) != _work(data).index(max(_work(data)))

    made = "random engines, the one with the most work alone so"
    printed = refute(
        "under join-lowest-request it gets no arrivals",
        made,
        cases(),
        verify_fewest,
        applies=unique,
    )
    corrected = examine("under join-lowest-tokens it gets none", made, cases(), avoids, unique)
    return printed, corrected
