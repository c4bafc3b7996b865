"""Theorem 1 (a): both Lyapunov functions, their exact drift, and the constant of appendix B."""

from collections.abc import Iterator
from fractions import Fraction

from formulations.batching import BatchTime
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.batching.model import (
    ONE_SLOT,
    WORK_CONSERVING,
    Engine,
    Policy,
    State,
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
from proofs_checks.search import Domain, examine, refute

CLAIMS = Claims()


Instance = tuple[Engine, State, Policy]


def linear(engine: Engine, *, counts_running: bool = True) -> "Linear":
    """Return ``f(X) = Σ (P_i + D_i) + R b/t_b`` of the sketch of the proof (section 2.3)."""
    return Linear(engine.full_rate if counts_running else Fraction(0))


class Linear:
    """Tokens not yet loaded, plus the running batch at the rate of full batches."""

    def __init__(self, rate: Fraction) -> None:
        self.rate = rate

    def __call__(self, state: State) -> Fraction:
        """Return ``f``."""
        return sum(map(sum, state.queue)) + state.remaining * self.rate


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
        self.linear = Linear(engine.full_rate)

    def __call__(self, state: State) -> Fraction:
        """Return ``f``."""
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

    def outside(instance: Instance) -> bool:
        engine, state, _ = instance
        return state.remaining > 0 or eligible(state.queue) >= engine.budget

    def falls(instance: Instance) -> bool:
        engine, state, policy = instance
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


def _engines(context: Context, number: int, time: BatchTime | None = None) -> Iterator[Engine]:
    rng = context.rng
    for _ in range(number):
        yield slowed(random_engine(rng, time), Fraction(int(rng.integers(1, 100)), 100))


def _descends(instance: Instance, constant: int) -> bool:
    engine, state, policy = instance
    worth = Quadratic(engine, constant)
    return engine.drift(worth, state, policy) <= -worth.epsilon / 2


@CLAIMS.result(
    "batching.theorem1a",
    Mutation("vLLM, which is not work-conserving", policies=(vllm,)),
    Mutation("the constant 2 in place of 8", constant=2),
    hypotheses=(*_HYPOTHESES, "E[v_d²] < ∞", "the chain is irreducible"),
)
def _theorem_check(
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
    engines = _engines(context, context.choose(25, 300, 6000))
    instances = (
        (engine, state, policy)
        for engine in engines
        for state in far_states(context, engine, Quadratic(engine, constant))
        for policy in policies
    )
    return examine(
        "drift at most −ε/2 where f >= B",
        "random engines with a load below 1, any batch times; states with f >= B",
        instances,
        lambda instance: _descends(instance, constant),
        lambda i: Quadratic(i[0], constant)(i[1]) >= Quadratic(i[0], constant).bound,
    )


def verify_b1(data: Data) -> str | None:
    """Confirm that (B.1) fails in a state with ``f >= B``: one slot per batch, Sarathi-Serve."""
    engine, state = from_data(data)
    if engine.time != ONE_SLOT or state.remaining or not 0 < engine.load < 1:
        return None
    worth = Quadratic(engine, 4)
    if worth(state) < worth.bound:
        return None
    drift = engine.drift(worth, state, sarathi)
    if drift <= -worth.epsilon / 2:
        return None
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

    printed = refute(
        "(B.1) with 4Lλ",
        "one size, at most one arrival a slot, one long prompt",
        simple(),
        verify_b1,
        lambda pair: as_data(*pair),
    )
    engines = _engines(context, context.choose(40, 300, 6000), ONE_SLOT)
    instances = (
        (engine, state, policy)
        for engine in engines
        for state in far_states(context, engine, Quadratic(engine, constant))
        for policy in WORK_CONSERVING
    )
    corrected = examine(
        "(B.1) with 8Lλ",
        "random engines, t = 1, states with f >= B",
        instances,
        lambda instance: _descends(instance, constant),
    )
    return printed, corrected


def verify_square(data: Data) -> str | None:
    """Confirm that ``E[(d + 1)²] > 2 E[d²]`` for decode lengths, equally likely."""
    lengths = data["lengths"]
    if not lengths or min(lengths) < 1:
        return None
    left, right = sum((d + 1) ** 2 for d in lengths), 2 * sum(d * d for d in lengths)
    if left <= right:
        return None
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
    domain = Domain(f"lengths >= {least}, equally likely", lengths)
    printed = domain.refute("E[(d+1)²] <= 2E[d²]", verify_square, lambda d: {"lengths": d})
    corrected = domain.examine(
        "E[(d+1)²] <= 4E[d²]",
        lambda d: sum((x + 1) ** 2 for x in d) <= factor * sum(x * x for x in d),
    )
    return printed, corrected
