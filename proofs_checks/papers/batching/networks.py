"""Section 4: engines in parallel (Proposition 1), and networks of agents (section 4.3)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Estimate, Findings, Outcome, dismiss_if, verifier
from proofs_checks.papers.batching.model import (
    Engine,
    State,
    random_engine,
    random_queue,
    sarathi,
    simple_engine,
    slowed,
)
from proofs_checks.papers.batching.theorem1 import linear
from proofs_checks.search import examine
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


@verifier
def verify_balancer(engines: int, budget: int, tokens: int, chance: list[int]) -> str:
    """Confirm that one of K engines gets all requests and is overloaded."""
    rate = Fraction(*chance)
    dismiss_if(engines < 2 or budget < 1 or tokens < 2 or not 0 < rate <= 1)
    dismiss_if(not budget < rate * tokens < engines * budget)
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

    def unfair() -> Iterator[tuple[int, int, int, tuple[int, int]]]:
        for _ in range(context.choose(60, 600, 10_000)):
            engines, budget = int(rng.integers(2, 6)), int(rng.integers(1, 10))
            yield engines, budget, int(rng.integers(2, 40)), (int(rng.integers(1, 11)), 10)

    printed = context.refute(
        "stable under any load balancing",
        "t = 1, one size; all requests to the first engine",
        unfair(),
        applies=lambda count, budget, work, chance: Fraction(*chance) * work < count * budget,
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

    def falls(engine: Engine, states: list[State], balancer: Balancer) -> bool:
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


def _work(prefill: int, decode: int, engines: list[list[int]]) -> list[int]:
    """Return the tokens left at each engine."""
    return [(prefill + decode) * z_p + decode * z_d for z_p, z_d in engines]


@verifier
def verify_fewest(prefill: int, decode: int, engines: list[list[int]]) -> str:
    """Confirm that join-lowest-request sends all requests to the engine with the most work."""
    dismiss_if(min(prefill, decode) < 1 or len(engines) < 2 or any(min(z) < 0 for z in engines))
    work = _work(prefill, decode, engines)
    counts = [z_p + z_d for z_p, z_d in engines]
    most = work.index(max(work))
    dismiss_if(
        work.count(max(work)) > 1
        or any(n <= counts[most] for k, n in enumerate(counts) if k != most)
    )
    return (
        f"(m_p, m_d) = ({prefill}, {decode}), (Z_p, Z_d) = {engines}: engine {most} alone has the "
        f"most work, {work[most]} of {work}, and the fewest requests, {counts[most]} of {counts}: "
        "A' = λ"
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

    def cases() -> Iterator[tuple[int, int, list[list[int]]]]:
        for _ in range(context.choose(200, 2000, 40_000)):
            counts = rng.integers(0, 6, size=(int(rng.integers(2, 5)), 2))
            prefill, decode = int(rng.integers(1, 9)), int(rng.integers(1, 9))
            # Without requests in prefill for the mutation.
            counts[:, 0] *= not decode_only
            yield prefill, decode, counts.tolist()

    def unique(prefill: int, decode: int, engines: list[list[int]]) -> bool:
        return (work := _work(prefill, decode, engines)).count(max(work)) == 1

    def avoids(prefill: int, decode: int, engines: list[list[int]]) -> bool:
        work = _work(prefill, decode, engines)
        index = work if by_tokens else [sum(z) for z in engines]
        return index.index(min(index)) != work.index(max(work))

    made = "random engines, the one with the most work alone so"
    printed = context.refute(
        "under join-lowest-request it gets no arrivals", made, cases(), applies=unique
    )
    corrected = examine("under join-lowest-tokens it gets none", made, cases(), avoids, unique)
    return printed, corrected


#: Tokens of short and long tasks, (4.4) and (4.5), and the budget of both agents.
SHORT, LONG, BUDGET = 64, 544, 768
#: Numbers of tasks at the stages A@1, A@2, B@2, B@1: first and last stage of each type.
Levels = tuple[Fraction, Fraction, Fraction, Fraction]
_ZERO = Fraction(0)


@dataclass(frozen=True)
class RybkoStolyar:
    """Fluid model of two agents whose full batches take one slot.

    Parameters
    ----------
    rate : Fraction
        ``λ`` of either type.
    last_first : bool
        Whether agents give priority to the last stage of requests, else to the first stage.
    """

    rate: Fraction
    last_first: bool = True

    def slopes(self, levels: Levels) -> Levels:
        """Return the growth rate of the tasks of each stage."""
        fast, slow = Fraction(BUDGET, SHORT), Fraction(BUDGET, LONG)
        begun_a, ended_b = self._agent(levels[0], levels[3], levels[2], fast, slow)
        begun_b, ended_a = self._agent(levels[2], levels[1], levels[0], fast, slow)
        # Each agent's inflow is the other agent's output; two iterations reach the fixed point.
        for _ in range(2):
            begun_a, ended_b = self._agent(levels[0], levels[3], begun_b, fast, slow)
            begun_b, ended_a = self._agent(levels[2], levels[1], begun_a, fast, slow)
        return (self.rate - begun_a, begun_a - ended_a, self.rate - begun_b, begun_b - ended_b)

    def _agent(
        self, first: Fraction, last: Fraction, coming: Fraction, fast: Fraction, slow: Fraction
    ) -> tuple[Fraction, Fraction]:
        """Return the rates at which an agent completes first and last tasks.

        ``coming`` is the arrival rate of last tasks.
        """
        if self.last_first:
            ended = slow if last else min(slow, coming)
            free = 1 - ended / slow
            return (free * fast if first else min(free * fast, self.rate)), ended
        begun = fast if first else min(fast, self.rate)
        free = 1 - begun / fast
        return begun, (free * slow if last else min(free * slow, coming))


def peaks(network: RybkoStolyar, start: Levels, most: int) -> Iterator[Levels]:
    """Return the breakpoints of the path until all levels are 0 or a maximum number is reached."""
    levels = start
    yield levels
    for _ in range(most):
        slopes = network.slopes(levels)
        ends = [-x / slope for x, slope in zip(levels, slopes, strict=True) if slope < 0 and x > 0]
        if not any(levels) or not ends:
            return
        lasts = min(ends)
        moved = [x + slope * lasts for x, slope in zip(levels, slopes, strict=True)]
        levels = (moved[0], moved[1], moved[2], moved[3])
        yield levels


@CLAIMS.remark(
    "batching.rybko-stolyar",
    Mutation("the priorities exchanged", last_first=False),
    Mutation("a virtual station of tasks of 500 tokens", last=500),
    kind=Kind.IDENTITY,
)
def _rybko_check(context: Context, *, last_first: bool = True, last: int = LONG) -> Outcome:
    """A network that work conservation does not stabilise.

    Source: throughput paper, section 4.3, (4.4), (4.5) and Figure 8
    Statement: In the Rybko–Stolyar network with b = 768, t = 1 and the means (4.4), (4.5), serving
        the last stages first is unstable at ρ = 0.9; with the priorities reversed it is stable.
    Formula: ρ = 0.9: tokens → ∞ with one priority, positive recurrent with the other
    Assumes: ρ is the load of each agent; the fluid model
    Summary: A backlog x at A@1 alone becomes λ/(768/544 − λ)·x at B@2 alone, exactly: 4.135 times
        as much at a load of 0.9, and more than before iff 2·544·λ > 768, a load of 19/34 = 0.5588.
        With first stages first all drains at every load tried.
    Reading: "Total load 0.9" as that of each agent: as the sum of both, 0.45 each, the network is
        stable.
    """
    percents = context.choose(range(40, 97, 4), range(36, 98), range(31, 98))
    loads = [Fraction(percent, 100) for percent in percents]

    def rate_of(load: Fraction) -> Fraction:
        return load * BUDGET / (SHORT + LONG)

    def half_cycle(load: Fraction) -> bool:
        """From x tasks at A@1 alone to g·x tasks at B@2 alone."""
        rate = rate_of(load)
        growth = rate / (Fraction(BUDGET, last) - rate)
        start = (Fraction(1), _ZERO, _ZERO, _ZERO)
        path = list(peaks(RybkoStolyar(rate, last_first), start, 6))
        alone = [levels for levels in path[1:] if levels[0] == levels[1] == levels[3] == 0]
        return bool(alone) and alone[0][2] == growth and (growth > 1) == (load > Fraction(19, 34))

    def reversed_drains(load: Fraction) -> bool:
        start = (Fraction(1), Fraction(1), Fraction(2), Fraction(1))
        *_, end = peaks(RybkoStolyar(rate_of(load), not last_first), start, 200)
        return not any(end)

    domain = context.domain(
        f"loads {loads[0]} to {loads[-1]} of either agent, in fractions", loads
    )
    grown = domain.examine(
        "last stages first: a backlog comes back λ/(768/544 − λ) times as large",
        half_cycle
    )  # fmt: skip
    drained = domain.examine("first stages first: everything drains", reversed_drains)
    factor = rate_of(Fraction(9, 10)) / (Fraction(BUDGET, LONG) - rate_of(Fraction(9, 10)))
    numbers = {
        "growth at a load of 0.9": float(factor),
        "load with growth 1": float(Fraction(19, 34)),
    }
    return Findings(grown, drained, numbers=numbers)


def _left_of_fork(
    rng: np.random.Generator, load: Fraction, backlog: int, slots: int, *, joins: bool
) -> float:
    """Return the share of an initial backlog at agent 0 that is left in the network, in tokens.

    Agents have b = 8 and t = 1; sizes are geometric with mean 8 tokens at every agent.
    """
    means, budget = ((4, 4), (2, 6), (6, 2), (5, 3)), 8
    queues: list[list[list[int]]] = [[] for _ in means]
    half: set[int] = set()

    def add(agent: int, request: int) -> None:
        p, d = (int(rng.geometric(1 / m)) for m in means[agent])
        queues[agent].append([p, d, request])

    for request in range(backlog):
        add(0, request)
    born = backlog
    for _ in range(slots):
        done: list[tuple[int, int]] = []
        for agent, queue in enumerate(queues):
            batch = sarathi(tuple((p, d) for p, d, _ in queue), budget)
            for task, (x, y) in zip(queue, batch, strict=True):
                task[0], task[1] = task[0] - x, task[1] - y
            done += [(agent, task[2]) for task in queue if task[1] == 0]
            queues[agent] = [task for task in queue if task[1] > 0]
        for agent, request in done:
            if agent == 0:
                add(1, request)
                add(2, request)
            elif agent < 3 and joins and request not in half:
                half.add(request)
            elif agent < 3:
                half.discard(request)
                add(3, request)
        for _ in range(rng.poisson(float(load))):
            add(0, born)
            born += 1
    left = sum(p + d for queue in queues for p, d, _ in queue)
    return left / (backlog * sum(map(sum, means)))


@CLAIMS.result(
    "batching.conjecture1",
    Mutation("a load of 3/2", load=Fraction(3, 2)),
    Mutation("two tasks for agent 3 of every request", joins=False),
    kind=Kind.STATISTICAL,
)
def _fork_check(
    context: Context, *, load: Fraction = Fraction(4, 5), joins: bool = True
) -> Outcome:
    """Forks and joins.

    Source: throughput paper, Conjecture 1 (section 4.3), (4.3)
    Statement: If λ(m_p^j + m_d^j) < b^j/t_b^j for each of four agents, of which 0 forks into 1 and
        2, which join at 3, the chain is positive recurrent.
    Formula: (4.3)  ⇒  positive recurrent
    Assumes: work-conserving (K_p, K_d)-FCFS algorithms, here Sarathi-Serve
    Summary: Evidence, no proof: from a backlog at agent 0, at a load of 0.8 of every agent, less
        is left after twenty slots per request of the backlog. The paper says that it is easy
        without agent 3.
    """
    runs, backlog = context.choose(8, 12, 24), context.choose(24, 40, 150)
    # The backlog, 32 tokens per request, passes agents of 8 tokens per slot with a fifth spare.
    slots = 20 * backlog
    left = [_left_of_fork(context.rng, load, backlog, slots, joins=joins) for _ in range(runs)]
    estimate: Estimate = mean_estimate(
        f"share of the backlog's tokens left at load {load}", left, "upper end below 1",
        lambda low, high: high < 1,
    )  # fmt: skip
    return Findings(estimates=(estimate,))
