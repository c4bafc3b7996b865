"""Theorem 1: Lyapunov functions and their exact drift (a); loads that no policy serves (b)."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from formulations.batching import BatchTime
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome, dismiss_if, verifier
from proofs_checks.papers.batching.model import (
    ONE_SLOT,
    WORK_CONSERVING,
    Batch,
    Engine,
    Policy,
    Queue,
    State,
    Worth,
    as_data,
    eligible,
    from_data,
    random_engine,
    random_queue,
    sarathi,
    simple_engine,
    slowed,
    vllm,
)
from proofs_checks.search import examine

CLAIMS = Claims()


Instance = tuple[Engine, State, Policy]


def linear(engine: Engine, *, counts_running: bool = True) -> Worth:
    """Return ``f(X) = Σ (P_i + D_i) + R b/t_b`` of the sketch of the proof (section 2.3)."""
    rate = engine.full_rate if counts_running else Fraction(0)
    return lambda state: sum(map(sum, state.queue)) + state.remaining * rate


class Quadratic:
    """``f`` of appendix B, with a variable constant (4 in the paper) and a term in R for any t_b.

    Parameters
    ----------
    engine : Engine
        Engine with a load below 1.
    constant : int
        The constant in ``ε (1(p' > 0) + d')² / (constant L λ)``.
    """

    def __init__(self, engine: Engine, constant: int) -> None:
        self.scale = constant * engine.mean(lambda size: Fraction(size[1] ** 2)) * engine.rate
        slack = engine.full_rate - engine.rate * engine.tokens
        self.epsilon = min(slack, self.scale / constant)
        b = engine.budget
        self.bound = 2 * b * (self.scale * b / self.epsilon) ** 2 + b
        self.linear = linear(engine)

    def __call__(self, state: State) -> Fraction:
        """Return the Lyapunov function ``f`` at a state."""
        squares = sum(((p > 0) + d) ** 2 for p, d in state.queue)
        return self.linear(state) + self.epsilon * squares / self.scale


_HYPOTHESES = ("λ(m_p + m_d) < b/t_b", "every batch has min(b, eligible tokens)")


@CLAIMS.step(
    "batching.theorem1a-sketch",
    Mutation("vLLM, which is not work-conserving", policies=(vllm,)),
    Mutation("the running batch left out of f", running=False),
    hypotheses=(*_HYPOTHESES, "token counts are bounded"),
    kind=Kind.IDENTITY,
)
def _sketch_check(
    context: Context, *, policies: tuple[Policy, ...] = WORK_CONSERVING, running: bool = True
) -> Outcome:
    """Negative drift outside a finite set.

    Source: throughput paper, sketch of the proof of Theorem 1 (section 2.3)
    Statement: For bounded random variables f(X) = Σ(P_i + D_i) + R b/t_b has negative drift
        outside a finite set C.
    Formula: X ∉ C  ⇒  E[f(X(n+1)) | X(n) = X] − f(X) < 0
    Summary: The drift is λ(m_p + m_d) − b/t_b exactly while a batch runs and where a full one is
        loaded. C = {R = 0, fewer than b eligible tokens} is finite, as it has fewer than b
        requests of bounded size. Nothing is asked of b'/t_b' here.
    """
    rng = context.rng

    def instances() -> Iterator[Instance]:
        for k in range(context.choose(400, 3000, 40_000)):
            engine = slowed(random_engine(rng), Fraction(int(rng.integers(1, 100)), 100))
            queue = random_queue(rng, int(rng.integers(0, 9)))
            remaining = int(rng.integers(0, 4)) * int(rng.integers(0, 2))
            yield engine, State(remaining, queue), policies[k % len(policies)]

    def outside(engine: Engine, state: State, _: Policy) -> bool:
        return state.remaining > 0 or eligible(state.queue) >= engine.budget

    def falls(engine: Engine, state: State, policy: Policy) -> bool:
        drift = engine.drift(linear(engine, counts_running=running), state, policy)
        return drift == engine.rate * engine.tokens - engine.full_rate < 0

    made = "random engines with a load below 1, states and work-conserving policies"
    return examine("drift λ(m_p + m_d) − b/t_b outside C", made, instances(), falls, outside)


def far_states(context: Context, engine: Engine, worth: Quadratic) -> Iterator[State]:
    """Return states with ``f >= B``: long prompts, long outputs, and running batches."""
    rng, bound = context.rng, int(worth.bound) + 1
    queue = random_queue(rng, int(rng.integers(0, engine.budget)))
    yield State(0, ((bound, 1), *queue))
    yield State(0, (*queue, (0, bound)))
    yield State(int(rng.integers(1, 5)), (*queue, (int(rng.integers(0, 3)), bound)))
    longest = 1
    while worth(State(0, ((0, longest),))) < bound:
        longest *= 2
    yield State(0, ((0, longest),))
    yield State(0, ((1, longest), *queue[: engine.budget // 2]))


def _far_instances(
    context: Context,
    number: int,
    constant: int,
    policies: Sequence[Policy],
    time: BatchTime | None = None,
) -> Iterator[Instance]:
    """Yield random engines with a load below 1, states with ``f >= B``, and policies."""
    rng = context.rng
    for _ in range(number):
        engine = slowed(random_engine(rng, time), Fraction(int(rng.integers(1, 100)), 100))
        for state in far_states(context, engine, Quadratic(engine, constant)):
            yield from ((engine, state, policy) for policy in policies)


def _descends(constant: int, engine: Engine, state: State, policy: Policy) -> bool:
    worth = Quadratic(engine, constant)
    return engine.drift(worth, state, policy) <= -worth.epsilon / 2


@CLAIMS.result(
    "batching.theorem1a",
    Mutation("vLLM, which is not work-conserving", policies=(vllm,)),
    Mutation("the constant 2 in place of 8", constant=2),
    hypotheses=(*_HYPOTHESES, "E[v_d²] < ∞", "the chain is irreducible"),
)
def _theorem1a_check(
    context: Context, *, constant: int = 8, policies: tuple[Policy, ...] = WORK_CONSERVING
) -> Outcome:
    """Work-conserving policies are stable below capacity.

    Source: throughput paper, Theorem 1 (a) (section 2.3)
    Statement: If λ(m_p + m_d) < b/t_b, the chain is positive recurrent under any work-conserving
        (K_p, K_d)-FCFS algorithm.
    Formula: λ(m_p + m_d) < b/t_b  ⇒  {X_n} positive recurrent
    Summary: Foster's criterion, with the function of appendix B for any batch times, Σ(p + d +
        ε(1(p>0) + d)²/(8Lλ)) + R b/t_b, and ε = min(b/t_b − λ(m_p+m_d), Lλ): its exact drift is at
        most −ε/2 in every state tried with f >= B. Any policy that fills its batches will do,
        shortest first among them.
    Reading: Work-conserving as min(b, eligible tokens) in every batch: (2.6) alone says nothing of
        fewer than b tokens (batching.empties).
    """
    return examine(
        "drift at most −ε/2 where f >= B",
        "random engines with a load below 1, any batch times; states with f >= B",
        _far_instances(context, context.choose(25, 300, 6000), constant, policies),
        partial(_descends, constant),
        lambda engine, state, _: (
            Quadratic(engine, constant)(state) >= Quadratic(engine, constant).bound
        ),
    )


@verifier
def verify_b1(data: Data) -> str:
    """Confirm that (B.1) fails in a state with ``f >= B``: one slot per batch, Sarathi-Serve."""
    engine, state = from_data(data)
    dismiss_if(engine.time != ONE_SLOT or state.remaining > 0 or not 0 < engine.load < 1)
    worth = Quadratic(engine, 4)
    dismiss_if(worth(state) < worth.bound)
    drift = engine.drift(worth, state, sarathi)
    dismiss_if(drift <= -worth.epsilon / 2)
    return (
        f"load {engine.load}, ε = {worth.epsilon}, B = {worth.bound}: f = {worth(state)} >= B, "
        f"and f changes by {drift} on average, more than −ε/2 = {-worth.epsilon / 2}"
    )


@CLAIMS.step(
    "batching.appendixb",
    Mutation("the correction with 4Lλ again", constant=4),
    Mutation("decode lengths of 3 and more only", least=3),
    hypotheses=(*_HYPOTHESES, "t_b = 1", "E[d²] ≤ L"),
    defect=Defect.FORMULA,
    verify=verify_b1,
)
def _b1_check(context: Context, *, constant: int = 8, least: int = 1) -> Outcome:
    """Drift of the quadratic Lyapunov function.

    Source: throughput paper, appendix B, (B.1)
    Statement: With f(X) = Σ(p + d + ε(1(p>0) + d)²/(4Lλ)), ε = min(b − λ(p+d), Lλ) and B =
        2b(4Lλb/ε)² + b, the drift is at most −ε/2 wherever f(X) ≥ B.
    Formula: f(X) ≥ B  ⇒  E[f(X(n+1)) − f(X(n))] ≤ −ε/2
    Summary: Arrivals add λε E[(d+1)²]/(4Lλ), which is ε and not ε/2 for d = 1: a long prompt that
        fills the batch loses b tokens and no square.
    Reading: L = E[d²].
    Correction: With 8Lλ in place of 4Lλ in f and B: arrivals then add ε/2 at most
        (batching.appendixb-square), and the other steps hold as they are.
    """
    rng = context.rng

    def simple() -> Iterator[tuple[Engine, State]]:
        for _ in range(context.choose(12, 200, 2000)):
            load = Fraction(int(rng.integers(1, 10)), 10)
            size = (int(rng.integers(1, 3)), least + int(rng.integers(0, 2)))
            budget = int(rng.integers(1, 4))
            chance = load * budget / sum(size)
            if chance > 1:
                continue
            engine = simple_engine(budget, size, chance)
            yield engine, State(0, ((int(Quadratic(engine, 4).bound) + 1, 1),))

    printed = context.refute(
        "(B.1) with 4Lλ",
        "one size, at most one arrival a slot, one long prompt",
        simple(),
        as_data,
    )
    number = context.choose(40, 300, 6000)
    corrected = examine(
        "(B.1) with 8Lλ",
        "random engines, t = 1, states with f >= B",
        _far_instances(context, number, constant, WORK_CONSERVING, ONE_SLOT),
        partial(_descends, constant),
    )
    return printed, corrected


@verifier
def verify_square(lengths: list[int]) -> str:
    """Confirm that ``E[(d + 1)²] > 2 E[d²]`` for decode lengths, equally likely."""
    dismiss_if(not lengths or min(lengths) < 1)
    left, right = sum((d + 1) ** 2 for d in lengths), 2 * sum(d * d for d in lengths)
    dismiss_if(left <= right)
    n = len(lengths)
    return f"E[(d+1)²] = {Fraction(left, n)} > {Fraction(right, n)} = 2E[d²]"


@CLAIMS.step(
    "batching.appendixb-square",
    Mutation("d >= 3 only", least=3),
    Mutation("the correction with 3 in place of 4", factor=3),
    defect=Defect.FORMULA,
    verify=verify_square,
)
def _square_check(context: Context, *, least: int = 1, factor: int = 4) -> Outcome:
    """Second moments of arrivals.

    Source: throughput paper, appendix B, before (B.1)
    Statement: E[(d_l + 1)²] ≤ 2E[d_l²] ≤ 2L for the decode length of an arrival.
    Formula: E[(d + 1)²] ≤ 2E[d²]
    Assumes: d ≥ 1
    Summary: It needs E[d²] ≥ 2E[d] + 1, and fails for d = 1 (4 > 2) and d = 2 (9 > 8).
    Correction: E[(d + 1)²] ≤ 4E[d²], as d + 1 ≤ 2d for d ≥ 1; 4Lλ then becomes 8Lλ.
    """
    rng = context.rng
    most = context.choose(6, 12, 40)
    lengths = [
        [int(x) for x in rng.integers(least, least + most, size=int(rng.integers(1, 5)))]
        for _ in range(context.choose(60, 600, 20_000))
    ]
    lengths += [[least + k] for k in range(most)]
    domain = context.domain(f"lengths >= {least}, equally likely", lengths)
    printed = domain.refute("E[(d+1)²] <= 2E[d²]")
    corrected = domain.examine(
        "E[(d+1)²] <= 4E[d²]",
        lambda d: sum((x + 1) ** 2 for x in d) <= factor * sum(x * x for x in d),
    )
    return printed, corrected


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


@verifier
def verify_1b(data: Data) -> str:
    """Confirm an engine, overloaded by (2.8), with finitely many states under Sarathi-Serve."""
    engine, state = from_data(data)
    dismiss_if(state != State(0, ()) or engine.load <= 1 or engine.rate >= 1)
    count = reachable(engine)
    dismiss_if(count is None)
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


def _any_batch(queue: Queue, budget: int, rng: np.random.Generator) -> Batch:
    """Return a random batch that satisfies only (2.5a) to (2.5d)."""
    batch, room = [], budget
    for p, _ in queue:
        taken = int(rng.random() * (min(room, p or 1) + 1))
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
def _theorem1b_check(context: Context, *, assumed: bool = True, slow: bool = False) -> Outcome:
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
    printed = context.refute(
        "|X| grows beyond all bounds",
        "one size, a request in 9 of 10 slots, c = 1, Sarathi-Serve from an empty engine",
        _small_engines(context, slow=slow),
        lambda engine: as_data(engine, State(0, ())),
        applies=lambda engine: engine.load > 1,
    )

    def instances() -> Iterator[tuple[Engine, State]]:
        for _ in range(context.choose(100, 2000, 40_000)):
            engine = slowed(random_engine(rng), 1 + Fraction(int(rng.integers(1, 100)), 100))
            remaining = int(rng.integers(0, 3)) * int(rng.integers(0, 2))
            yield engine, State(remaining, random_queue(rng, int(rng.integers(0, 7))))

    def grows(engine: Engine, state: State) -> bool:
        drift = engine.drift(linear(engine), state, partial(_any_batch, rng=rng))
        return drift >= engine.rate * engine.tokens - engine.full_rate > 0

    corrected = examine(
        "drift of f at least λ(m_p+m_d) − b/t_b, whatever the batch",
        "random overloaded engines, states and feasible batches",
        instances(),
        grows,
        lambda engine, *_: not assumed or engine.time.rate_check(engine.budget).holds,
    )
    return printed, corrected


def _idles_below(queue: Queue, budget: int) -> Batch:
    """Return a full batch if possible (2.6), else an empty batch."""
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


@verifier
def verify_empties(queue: list[list[int]], budget: int) -> str:
    """Confirm a queue that a policy with property (2.6) never empties."""
    pairs = [(p, d) for p, d in queue]
    dismiss_if(budget < 1 or any(p < 0 or d < 1 for p, d in pairs))
    dismiss_if(_slots_to_empty(tuple(pairs), budget, strict=False) is not None)
    return f"b = {budget}, (p, d) = {pairs}: (2.6) asks nothing of the last batches"


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
    domain = context.domain("random queues and budgets, no arrivals", queues)
    printed = domain.refute("a policy with (2.6) empties the queue")
    corrected = domain.examine(
        "one with min(b, eligible tokens) in every batch does",
        lambda queue, budget: _slots_to_empty(queue, budget, strict=strict) is not None,
    )
    return printed, corrected
