"""Theorem 1 (b): loads that no policy can serve, and a hypothesis that the paper omits."""

from collections.abc import Iterator
from fractions import Fraction

from formulations.batching import BatchTime
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.batching.lyapunov import linear
from proofs_checks.papers.batching.model import (
    Batch,
    Engine,
    Queue,
    State,
    as_data,
    from_data,
    random_engine,
    random_queue,
    sarathi,
    simple_engine,
    slowed,
)
from proofs_checks.search import Domain, examine, refute

CLAIMS = Claims()


#: Most states of a Markov chain that are enumerated.
_MOST_STATES = 120


def reachable(engine: Engine) -> int | None:
    """Return the number of states that Sarathi-Serve reaches from empty; None if too many."""
    seen = {State(0, ())}
    new = list(seen)
    while new:
        state = new.pop()
        batch = [] if state.remaining else sarathi(state.queue, engine.budget)
        for arrived, chance in engine.arrivals():
            after = engine.step(state, batch, arrived)
            if chance and after not in seen:
                seen.add(after)
                new.append(after)
        if len(seen) > _MOST_STATES:
            return None
    return len(seen)


def verify_1b(data: Data) -> str | None:
    """Confirm an engine, overloaded by (2.8), with finitely many states under Sarathi-Serve."""
    engine, state = from_data(data)
    if state != State(0, ()) or engine.load <= 1 or engine.rate >= 1:
        return None
    count = reachable(engine)
    if count is None:
        return None
    check = engine.time.rate_check(engine.budget)
    return (
        f"λ(m_p+m_d) = {engine.rate * engine.tokens} > {engine.full_rate} = b/t_b, yet "
        f"Sarathi-Serve reaches {count} states in all, so |X| stays bounded: batches of "
        f"{check.best_tokens} tokens process {check.best_rate} a slot"
    )


def _small_engines(context: Context, *, slow: bool) -> Iterator[Engine]:
    rng = context.rng
    for _ in range(context.choose(25, 300, 3000)):
        free, each = int(rng.integers(4, 10)), int(rng.integers(1, 3))
        time = BatchTime(Fraction(each * free if slow else 1), Fraction(each), free)
        size = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        yield simple_engine(free + int(rng.integers(1, 12)), size, Fraction(9, 10), time)


def _any_batch(queue: Queue, budget: int, draws: Iterator[float]) -> Batch:
    """Return a random batch that satisfies only (2.5a) to (2.5d)."""
    batch, room = [], budget
    for p, _ in queue:
        taken = int(next(draws) * (min(room, p or 1) + 1))
        batch.append((taken, 0) if p else (0, taken))
        room -= taken
    return batch


@CLAIMS.result(
    "batching.theorem1b",
    Mutation("the correction without its hypothesis", assumed=False),
    Mutation("engines with c = a·b0 in the search", slow=True),
    defect=Defect.HYPOTHESIS,
    verify=verify_1b,
)
def _theorem_check(context: Context, *, assumed: bool = True, slow: bool = False) -> Outcome:
    """No policy is stable above capacity.

    Source: throughput paper, Theorem 1 (b) (section 2.3)
    Statement: If λ(m_p + m_d) > b/t_b, the number of unprocessed tokens grows to infinity with
        probability 1; no scheduling algorithm can stabilise the system.
    Formula: λ(m_p + m_d) > b/t_b  ⇒  P{lim |X(n)| = ∞} = 1
    Assumes: the batch time is (2.3), c + a·max(0, b' − b0)
    Summary: If c < a·b0 < a·b, batches of b0 tokens process more per slot than full ones, and an
        engine that is rarely full carries more than b/t_b.
    Correction: With b'/t_b' ≤ b/t_b for all b' ≤ b, which for (2.3) is c ≥ a·b0 or b ≤ b0: Σ(P +
        D) + R b/t_b then rises by λ(m_p+m_d) − b/t_b or more in every state, whatever feasible
        batch is loaded.
    """
    rng = context.rng
    printed = refute(
        "|X| grows beyond all bounds",
        "one size, a request in 9 of 10 slots, c = 1, Sarathi-Serve from an empty engine",
        _small_engines(context, slow=slow),
        verify_1b,
        lambda engine: as_data(engine, State(0, ())),
        applies=lambda engine: engine.load > 1,
    )

    def draws() -> Iterator[float]:
        while True:
            yield float(rng.random())

    def instances() -> Iterator[tuple[Engine, State]]:
        for _ in range(context.choose(100, 2000, 40_000)):
            engine = slowed(random_engine(rng), 1 + Fraction(int(rng.integers(1, 100)), 100))
            remaining = int(rng.integers(0, 3)) * int(rng.integers(0, 2))
            yield engine, State(remaining, random_queue(rng, int(rng.integers(0, 7))))

    def grows(instance: tuple[Engine, State]) -> bool:
        engine, state = instance
        drift = engine.drift(
            linear(engine), state, lambda queue, budget: _any_batch(queue, budget, draws())
        )
        return drift >= engine.rate * engine.tokens - engine.full_rate > 0

    corrected = examine(
        "drift of f at least λ(m_p+m_d) − b/t_b, whatever the batch",
        "random overloaded engines, states and feasible batches",
        instances(),
        grows,
        lambda pair: not assumed or pair[0].time.rate_check(pair[0].budget).holds,
    )
    return printed, corrected


def _idles_below(queue: Queue, budget: int) -> Batch:
    """Fill the batch if it can be full, by (2.6), and idle otherwise."""
    full = sarathi(queue, budget)
    tokens = sum(x + y for x, y in full)
    return full if tokens == budget else [(0, 0)] * len(queue)


def _slots_to_empty(queue: Queue, budget: int, *, strict: bool) -> int | None:
    """Return the number of batches until the queue is empty, without arrivals; None if never."""
    engine = simple_engine(budget, (1, 1))
    state, count = State(0, queue), 0
    while state.queue:
        batch = (sarathi if strict else _idles_below)(state.queue, budget)
        if not any(x + y for x, y in batch):
            return None
        state, count = engine.step(state, batch), count + 1
    return count


def verify_empties(data: Data) -> str | None:
    """Confirm a queue that a policy with property (2.6) never empties."""
    queue, budget = tuple((p, d) for p, d in data["queue"]), data["budget"]
    if budget < 1 or any(p < 0 or d < 1 for p, d in queue):
        return None
    if _slots_to_empty(queue, budget, strict=False) is not None:
        return None
    return f"b = {budget}, (p, d) = {list(queue)}: (2.6) asks nothing of the last batches"


@CLAIMS.remark(
    "batching.empties",
    Mutation("a budget of 1 only, where (2.6) says all", most_budget=1),
    Mutation("the correction with (2.6) again", strict=False),
    defect=Defect.HYPOTHESIS,
    verify=verify_empties,
)
def _empties_check(context: Context, *, most_budget: int = 8, strict: bool = True) -> Outcome:
    """Work conservation empties the queue.

    Source: throughput paper, section 2.3, before Theorem 1
    Statement: A work-conserving policy empties the queue eventually if no requests come in, so
        that P{a_n = 0} > 0 makes the chain irreducible.
    Formula: (2.6), no arrivals  ⇒  Q_n = ∅ for some n
    Assumes: work-conserving by (2.6)
    Summary: (2.6) speaks only of states with b eligible tokens or more. A policy that idles below
        keeps its last requests for ever, and never returns to the empty state.
    Correction: With b' = min(b, Σ(p_i + 1(p_i = 0))) in every batch, as appendix B uses it (every
        request is served where fewer than b tokens are eligible).
    """
    rng = context.rng
    queues = [
        (random_queue(rng, int(rng.integers(1, 6))), int(rng.integers(1, most_budget + 1)))
        for _ in range(context.choose(100, 2000, 40_000))
    ]
    domain = Domain("random queues and budgets, no arrivals", queues)
    printed = domain.refute(
        "a policy with (2.6) empties the queue",
        verify_empties,
        lambda pair: {"queue": [list(r) for r in pair[0]], "budget": pair[1]},
    )
    corrected = domain.examine(
        "one with min(b, eligible tokens) in every batch does",
        lambda pair: _slots_to_empty(pair[0], pair[1], strict=strict) is not None,
    )
    return printed, corrected
