"""Where two policies that do not mix saturate: vanilla vLLM and FasterTransformer."""

from collections.abc import Iterator
from fractions import Fraction

from formulations.batching import BatchTime
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.papers.batching.lyapunov import ONE_SLOT
from proofs_checks.papers.batching.model import (
    Engine,
    Policy,
    State,
    faster_transformer,
    orca,
    sarathi,
    vllm,
)
from proofs_checks.search import examine

CLAIMS = Claims()


@CLAIMS.own(
    "batching.vllm",
    Mutation("Sarathi-Serve in its place", policy=sarathi),
    Mutation("Orca in its place", policy=orca),
    kind=Kind.IDENTITY,
)
def _vllm_check(context: Context, *, policy: Policy = vllm) -> Outcome:
    """Vanilla vLLM can be unstable below capacity.

    Source: throughput paper, section 3 (prefill-prioritised, no mixing); the formula is ours
    Statement: Short prompts that keep coming make batches without decode tokens, and decode tokens
        pile up: vLLM is not maximally stable.
    Formula: λ m_d > P(a = 0)·b  ⇒  decode tokens grow, also where λ(m_p + m_d) < b
    Assumes: t = 1; all prompts of a slot fit into one batch; at least b requests decode
    Summary: A slot after an arrival has a batch of prompts only. The drift is exact, and positive
        in all small cases where the formula says so. With λ = 0.6 and v = (1, 12), b = 10, a third
        of a request is served per slot.
    """
    most = context.choose(6, 10, 14)
    grid = [
        (Fraction(tenths, 10), v_p, v_d, b)
        for b in range(2, most)
        for v_p in range(1, b + 1)
        for v_d in range(1, 2 * b)
        for tenths in range(1, 10)
    ]

    def overwhelmed(case: tuple[Fraction, int, int, int]) -> bool:
        rate, v_p, v_d, b = case
        return rate * (v_p + v_d) < b and rate * v_d > (1 - rate) * b

    def grows(case: tuple[Fraction, int, int, int]) -> bool:
        rate, v_p, v_d, b = case
        sizes = (((v_p, v_d), Fraction(1)),)
        engine = Engine(b, ONE_SLOT, ((0, 1 - rate), (1, rate)), sizes)

        def decode(state: State) -> Fraction:
            return Fraction(sum(d for _, d in state.queue))

        waiting = ((0, 3),) * (2 * b)
        # After any slot there is a prompt with chance λ, and none else: both states in turn.
        none, one = (
            engine.drift(decode, State(0, queue), policy)
            for queue in (waiting, (*waiting, (v_p, v_d)))
        )
        drift = (1 - rate) * none + rate * one
        return drift == rate * v_d - (1 - rate) * b > 0

    seen = examine(
        "decode tokens grow by λ m_d − P(a = 0) b > 0 per slot where b requests decode",
        "t = 1, one size, at most one arrival a slot: all small cases below load 1",
        grid,
        grows,
        overwhelmed,
    )
    # The instance (A): 0.4·10 decode tokens a slot, 12 per request.
    return Findings(seen, numbers={"requests per slot at λ = 0.6, v = (1, 12), b = 10": "1/3"})


def saturation(
    policy: Policy, size: tuple[int, int], budget: int, time: BatchTime, cycles: int
) -> Fraction:
    """Return the requests per slot of an engine with more prompts than it can serve.

    Counted between two slots in which the engine has no request in decode and no prompt begun.
    """
    engine = Engine(budget, time, ((0, Fraction(1)),), ((size, Fraction(1)),))
    plenty = (size,) * (3 * budget)
    state, slots, done, found = State(0, plenty), 0, 0, 0
    while found < cycles:
        batch = policy(state.queue, budget)
        before = len(state.queue)
        state = engine.step(state, batch)
        slots += 1 + state.remaining
        done += before - len(state.queue)
        fresh = (size,) * (3 * budget - len(state.queue))
        state = State(0, state.queue + fresh)
        found += state.queue == plenty
        if slots > 4000:
            break  # Mixed batches need not come back to such a slot.
    return Fraction(done, slots)


@CLAIMS.own(
    "batching.faster-transformer",
    Mutation("Sarathi-Serve in its place", policy=sarathi),
    kind=Kind.IDENTITY,
)
def _faster_transformer_check(
    context: Context, *, policy: Policy = faster_transformer, printed: bool = True
) -> Outcome:
    """Where FasterTransformer saturates.

    Source: throughput paper, section 3 (decode-prioritised, no mixing); the formula is ours
    Statement: FasterTransformer blocks prompts while requests decode, in batches that are mostly
        empty, and can be unstable below capacity.
    Formula: λ* = (b/v_p) / (t_b + v_d t_(b/v_p))
    Assumes: one size, v_p divides b; there are always prompts enough
    Summary: A cycle has one batch of b/v_p prompts and v_d batches of so many decode tokens. With
        v = (10, 10) and b = 10 that is 1/11 of a request per slot, and capacity is 1/2.
    """
    rng = context.rng

    def cases() -> Iterator[tuple[tuple[int, int], int, BatchTime]]:
        for _ in range(context.choose(30, 200, 2000)):
            v_p, several = int(rng.integers(1, 6)), int(rng.integers(1, 5))
            time = BatchTime(
                Fraction(int(rng.integers(1, 6))), Fraction(int(rng.integers(0, 2))), 3
            )
            yield (v_p, int(rng.integers(1, 12))), v_p * several, time
        yield (10, 10), 10, ONE_SLOT

    def saturates(case: tuple[tuple[int, int], int, BatchTime]) -> bool:
        (v_p, v_d), b, time = case
        admitted = b // v_p
        cycle = time.slots(b) + v_d * time.slots(admitted)
        return saturation(policy, (v_p, v_d), b, time, 3) == Fraction(admitted, cycle)

    return examine(
        "requests per slot (b/v_p)/(t_b + v_d t_(b/v_p))",
        "random sizes with v_p a divisor of b, batch times; more prompts than are served",
        cases(),
        saturates,
    )
