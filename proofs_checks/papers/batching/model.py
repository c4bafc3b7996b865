"""One engine by the paper's definitions (section 2), slot by slot, and the policies of section 3.

Written from the text, independently of `bfio`. A state is the number of slots that the running
batch still takes, and the requests in order of arrival with their prompt and decode tokens left.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from typing import TypeAlias

import numpy as np

from formulations.batching import BatchTime
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome, dismiss_if, verifier
from proofs_checks.search import as_arguments, examine

#: Prompt and decode tokens left, (p, d).
Request: TypeAlias = tuple[int, int]
Queue: TypeAlias = tuple[Request, ...]
#: Prompt and decode tokens of each request in the batch.
Batch: TypeAlias = list[Request]
Policy: TypeAlias = Callable[[Queue, int], Batch]
Worth: TypeAlias = Callable[["State"], Fraction]


#: Every batch takes one slot.
ONE_SLOT = BatchTime(Fraction(1))


@dataclass(frozen=True)
class State:
    """``X(n)`` of (2.4): slots ``R(n)`` left to the running batch, and requests by arrival."""

    remaining: int
    queue: Queue


@dataclass(frozen=True)
class Engine:
    """Budget, batch times, and the law of one slot's arrivals.

    Parameters
    ----------
    budget : int
        ``b``.
    time : BatchTime
        Slots of a batch.
    counts : tuple of (int, Fraction)
        Numbers of arrivals in a slot, with their probabilities.
    sizes : tuple of (Request, Fraction)
        ``(v_p, v_d)`` of a request, with its probability.
    """

    budget: int
    time: BatchTime
    counts: tuple[tuple[int, Fraction], ...]
    sizes: tuple[tuple[Request, Fraction], ...]

    @property
    def rate(self) -> Fraction:
        """``λ``, mean arrivals per slot."""
        return sum((count * chance for count, chance in self.counts), Fraction(0))

    @property
    def tokens(self) -> Fraction:
        """``m_p + m_d``, mean tokens of a request."""
        return self.mean(lambda size: Fraction(sum(size)))

    @property
    def full_rate(self) -> Fraction:
        """``b/t_b``, tokens per slot of full batches."""
        return self.time.rate(self.budget)

    @property
    def load(self) -> Fraction:
        """``ρ = λ(m_p + m_d)/(b/t_b)``, the load."""
        return self.rate * self.tokens / self.full_rate

    def mean(self, value: Callable[[Request], Fraction]) -> Fraction:
        """Return ``E[value(size)]``, where the size of a request is random."""
        return sum((chance * value(size) for size, chance in self.sizes), Fraction(0))

    def arrivals(self) -> Iterator[tuple[Queue, Fraction]]:
        """Return the possible arrivals of a slot, with their probabilities."""
        for count, chance in self.counts:
            for drawn in product(self.sizes, repeat=count):
                total = chance
                for _, share in drawn:
                    total *= share
                yield tuple(size for size, _ in drawn), total

    def step(self, state: State, batch: Batch, arrived: Queue = ()) -> State:
        """Return ``X(n+1)``: a batch is loaded if none runs, then requests arrive."""
        if state.remaining > 0:
            return State(state.remaining - 1, state.queue + arrived)
        pairs = zip(state.queue, batch, strict=True)
        left = ((p - x, d - y) for (p, d), (x, y) in pairs)
        tokens = sum(x + y for x, y in batch)
        queue = tuple(request for request in left if request[1] > 0)
        return State(self.time.slots(tokens) - 1, queue + arrived)

    def drift(self, worth: Worth, state: State, policy: Policy) -> Fraction:
        """Return ``E[worth(X(n+1)) | X(n)] − worth(X(n))``, over all possible arrivals."""
        batch = [] if state.remaining else policy(state.queue, self.budget)
        after = (
            chance * worth(self.step(state, batch, arrived)) for arrived, chance in self.arrivals()
        )
        return sum(after, Fraction(0)) - worth(state)


def eligible(queue: Queue) -> int:
    """Return ``Σ (p_i + 1(p_i = 0))``: tokens of a batch without a token budget."""
    return sum(p or 1 for p, _ in queue)


def fill(queue: Queue, budget: int, order: Sequence[int]) -> Batch:
    """Return the batch that gives requests, in ``order``, their eligible tokens within budget."""
    batch, room = [(0, 0)] * len(queue), budget
    for i in order:
        p, _ = queue[i]
        taken = min(room, p or 1)
        batch[i] = (taken, 0) if p else (0, taken)
        room -= taken
    return batch


def places(queue: Queue, *, decoding: bool) -> list[int]:
    """Return the positions of the requests in decode, or of those in prefill."""
    return [i for i, (p, _) in enumerate(queue) if (p == 0) == decoding]


def sarathi(queue: Queue, budget: int) -> Batch:
    """Return the batch of Sarathi-Serve: decode tokens, then chunks of prompts (section 3)."""
    return fill(queue, budget, places(queue, decoding=True) + places(queue, decoding=False))


def orca(queue: Queue, budget: int) -> Batch:
    """Return the batch of Orca: prompts, then decode tokens in the same batch (section 3)."""
    return fill(queue, budget, places(queue, decoding=False) + places(queue, decoding=True))


def shortest_first(queue: Queue, budget: int) -> Batch:
    """Return the batch that serves requests with fewest tokens left first, in either phase."""
    return fill(queue, budget, sorted(range(len(queue)), key=lambda i: sum(queue[i])))


def vllm(queue: Queue, budget: int) -> Batch:
    """Return the batch of vLLM: only prompts if there are any, else decode tokens (section 3)."""
    prompts = places(queue, decoding=False)
    return fill(queue, budget, prompts or range(len(queue)))


def faster_transformer(queue: Queue, budget: int) -> Batch:
    """Return FasterTransformer's batch: only decode tokens, or prompts if there are none."""
    decoding = places(queue, decoding=True)
    return fill(queue, budget, decoding or range(len(queue)))


#: The policies that fill every batch as far as possible.
WORK_CONSERVING: tuple[Policy, ...] = (sarathi, orca, shortest_first)


def random_time(rng: np.random.Generator) -> BatchTime:
    """Return a batch time in whole slots: (2.3) with random small constants."""
    c, a, b0 = int(rng.integers(1, 7)), int(rng.integers(0, 3)), int(rng.integers(0, 6))
    return BatchTime(Fraction(c), Fraction(a), b0)


def random_engine(rng: np.random.Generator, time: BatchTime | None = None) -> Engine:
    """Return a random engine with up to two arrivals per slot, of up to three sizes."""
    weights = [int(x) for x in rng.integers(1, 20, size=3)]
    kinds = [int(x) for x in rng.integers(1, 5, size=int(rng.integers(1, 4)))]
    sizes = [(int(rng.integers(1, 7)), int(rng.integers(1, 7))) for _ in kinds]
    return Engine(
        int(rng.integers(1, 13)),
        random_time(rng) if time is None else time,
        tuple((k, Fraction(w, sum(weights))) for k, w in enumerate(weights)),
        tuple((size, Fraction(w, sum(kinds))) for size, w in zip(sizes, kinds, strict=True)),
    )


def simple_engine(
    budget: int, size: Request, rate: Fraction = Fraction(0), time: BatchTime = ONE_SLOT
) -> Engine:
    """Return an engine with requests of one size, at most one per slot."""
    return Engine(budget, time, ((0, 1 - rate), (1, rate)), ((size, Fraction(1)),))


def slowed(engine: Engine, load: Fraction) -> Engine:
    """Return the engine with its arrival rate rescaled to the given load, if possible.

    A slot has either no arrival or the fewest for which the probability is at most 1.
    """
    rate = load * engine.full_rate / engine.tokens
    count = max(1, -(-rate.numerator // rate.denominator))
    chance = rate / count
    counts = ((0, 1 - chance), (count, chance))
    return Engine(engine.budget, engine.time, counts, engine.sizes)


def random_queue(rng: np.random.Generator, requests: int) -> Queue:
    """Return random requests in both phases."""
    return tuple((int(rng.integers(0, 6)), int(rng.integers(1, 6))) for _ in range(requests))


def as_data(engine: Engine, state: State) -> Data:
    """Return an engine with at most one arrival a slot, and a state, as integers."""
    chances = dict(engine.counts)
    chance = chances.get(1, Fraction(0))
    return {
        "budget": engine.budget,
        "time": [int(engine.time.overhead), int(engine.time.per_token), engine.time.free_tokens],
        "chance": [chance.numerator, chance.denominator],
        "sizes": [[*size, share.numerator, share.denominator] for size, share in engine.sizes],
        "remaining": state.remaining,
        "queue": [list(request) for request in state.queue],
    }


def from_data(data: Data) -> tuple[Engine, State]:
    """Return the engine and the state that `as_data` wrote.

    Raises
    ------
    ValueError
        If the data are not an engine with a state.
    """
    c, a, b0 = data["time"]
    chance = Fraction(*data["chance"])
    sizes = tuple(((p, d), Fraction(n, m)) for p, d, n, m in data["sizes"])
    whole = sum((share for _, share in sizes), Fraction(0))
    queue = tuple((p, d) for p, d in data["queue"])
    fine = (
        data["budget"] >= 1 and c >= 1 and a >= 0 and b0 >= 0 and 0 <= chance <= 1 and whole == 1
        and all(p >= 1 and d >= 1 and share > 0 for (p, d), share in sizes)
        and data["remaining"] >= 0 and all(p >= 0 and d >= 1 for p, d in queue)
    )  # fmt: skip
    if not fine:
        raise ValueError("no engine with a state")
    time = BatchTime(Fraction(c), Fraction(a), b0)
    engine = Engine(data["budget"], time, ((0, 1 - chance), (1, chance)), sizes)
    return engine, State(data["remaining"], queue)


CLAIMS = Claims()


def small_states(most_budget: int, most_requests: int) -> Iterator[tuple[Queue, int]]:
    """Return all pairs of a small queue and a small budget."""
    requests = [(p, d) for p in range(4) for d in (1, 2)]
    for budget in range(1, most_budget + 1):
        for n in range(1, most_requests + 1):
            yield from ((queue, budget) for queue in product(requests, repeat=n))


def _is_full(policy: Policy, queue: Queue, budget: int) -> bool:
    batch = policy(queue, budget)
    feasible = all(
        x <= p and y <= 1 and (p == 0 or y == 0)
        for (p, _), (x, y) in zip(queue, batch, strict=True)
    )
    return feasible and sum(x + y for x, y in batch) == min(budget, eligible(queue))


def whole_prompts(queue: Queue, budget: int) -> Batch:
    """Return a batch of whole prompts (no chunks), then decode tokens."""
    batch, room = [(0, 0)] * len(queue), budget
    for i, (p, _) in sorted(enumerate(queue), key=lambda pair: pair[1][0] == 0):
        if (p or 1) <= room:
            batch[i] = (p, 0) if p else (0, 1)
            room -= p or 1
    return batch


@CLAIMS.remark(
    "batching.work-conserving",
    Mutation("vLLM in place of Orca", mixing=(sarathi, vllm)),
    Mutation("Orca in place of vLLM", apart=(orca, faster_transformer)),
    Mutation("prompts not cut into chunks", mixing=(sarathi, whole_prompts)),
)
def _conserving_check(
    context: Context,
    *,
    mixing: tuple[Policy, ...] = (sarathi, orca),
    apart: tuple[Policy, ...] = (vllm, faster_transformer),
) -> Outcome:
    """Orca and Sarathi-Serve are work-conserving, two others are not.

    Source: throughput paper, sections 2.3 and 3
    Statement: Mixing prompt and decode tokens, Orca and Sarathi-Serve are work-conserving;
        FasterTransformer and vanilla vLLM, which do not mix, are not.
    Formula: Σ_i(p_i + 1(p_i = 0)) ≥ b  ⇒  Σ_i(δ_i^d + δ_i^p) = b
    Assumes: prompts may be cut into chunks
    Summary: True in every small state; where one request decodes and another has a prompt, the two
        policies without mixing leave room.
    Reading: Orca as section 3 idealises it, with chunks and decode tokens in the same batch. Of
        the two that mix more is checked than (2.6) asks: each batch has min(b, Σ_i(p_i + 1(p_i =
        0))) tokens, also where that is less than b.
    """
    budget, requests = context.choose((4, 2), (6, 3), (8, 4))
    states = list(small_states(budget, requests))
    made = (
        f"all queues of up to {requests} requests with p <= 3 and d <= 2, all budgets up to "
        f"{budget}"
    )
    full = [
        examine(
            f"every batch of {policy.__name__} is full or has all there is",
            made,
            states,
            partial(_is_full, policy),
        )
        for policy in mixing
    ]
    wasted = [
        examine(
            f"{policy.__name__} leaves room in some state with b eligible tokens",
            "all those states at once",
            [states],
            lambda all_of, policy=policy: any(
                eligible(queue) >= budget and not _is_full(policy, queue, budget)
                for queue, budget in all_of
            ),
        )
        for policy in apart
    ]
    return (*full, *wasted)


def _limited(queue: Queue, budget: int, oldest: int) -> Batch:
    """Sarathi-Serve limited to decode tokens of the oldest requests, and one prompt at a time.

    The order is that of arrival.
    """
    decoding = places(queue, decoding=True)[:oldest]
    return fill(queue, budget, decoding + places(queue, decoding=False))


def _decode_tokens(state: State) -> Fraction:
    return Fraction(sum(d for _, d in state.queue))


@verifier
def verify_oldest(budget: int, oldest: int, prefill: int, decode: int, chance: list[int]) -> str:
    """Confirm that decode tokens grow below capacity when only K_d requests may decode."""
    b, k, v_p, v_d = budget, oldest, prefill, decode
    rate = Fraction(*chance)
    dismiss_if(min(b, k, v_p, v_d) < 1 or not 0 < rate <= 1 or rate * (v_p + v_d) >= b)
    engine = simple_engine(b, (v_p, v_d), rate)
    state = State(0, ((0, 2),) * (b + k) + ((v_p, v_d),))
    drift = engine.drift(_decode_tokens, state, lambda q, most: _limited(q, most, k))
    dismiss_if(drift <= 0)
    return (
        f"load {rate * (v_p + v_d) / b}, K_d = {k}: decode tokens grow by {drift} a slot; at most "
        f"{Fraction(k, v_d)} requests a slot are served, {rate} arrive"
    )


@CLAIMS.remark(
    "batching.oldest",
    Mutation("K_d of 10 and more, the largest budget", least=10),
    Mutation("the correction with any K_d", enough=False),
    defect=Defect.HYPOTHESIS,
    verify=verify_oldest,
)
def _oldest_check(context: Context, *, least: int = 1, enough: bool = True) -> Outcome:
    """The exact values of K_p and K_d.

    Source: throughput paper, section 2.3, (K_p, K_d)-FCFS algorithms
    Statement: With any K_p, K_d ≥ 1, whose exact values are not important, the results hold for
        work-conserving (K_p, K_d)-FCFS algorithms.
    Formula: λ(m_p + m_d) < b/t_b  ⇒  stable, for any K_p, K_d ≥ 1
    Assumes: as many tokens are loaded as K_p and K_d allow
    Summary: With K_d < b no more than K_d decode tokens are processed per batch, so that at most
        K_d/v_d requests leave per slot: 2/9 with K_d = 2 and v_d = 9, though the load is 1/2. No
        such policy satisfies (2.6).
    Reading: A policy that is work-conserving within what K_p and K_d allow: with (2.6) as it
        stands the statement is about no policy at all for K_d < b. Who answers that (2.6) is
        assumed says that K_d is b at least: then the exact value matters that far.
    Correction: With K_d ≥ b, and K_p ≥ b unless prompts have a least length: (2.6) can then be met
        in every state.
    """
    rng = context.rng

    def cases() -> Iterator[tuple[int, int, int, int, tuple[int, int]]]:
        for _ in range(context.choose(100, 1000, 20_000)):
            b, tenths = int(rng.integers(1, 9)), int(rng.integers(1, 11))
            oldest = max(least, int(rng.integers(1, b + 1)))
            yield b, oldest, int(rng.integers(1, 4)), int(rng.integers(1, 12)), (tenths, 10)
        yield 10, max(least, 2), 1, 9, (1, 2)

    def below(b: int, oldest: int, v_p: int, v_d: int, chance: tuple[int, int]) -> bool:
        return Fraction(*chance) * (v_p + v_d) < b

    made = "t = 1, one size, at most one arrival a slot, loads below 1"
    to_data = as_arguments(verify_oldest)
    printed = context.refute("any K_d serves what arrives", made, cases(), applies=below)
    corrected = examine(
        "K_d >= b does",
        made,
        cases(),
        lambda b, k, *rest: verify_oldest(to_data((b, b if enough else k, *rest))) is None,
        below,
    )
    return printed, corrected


# Saturation of two policies that do not mix phases: vanilla vLLM and FasterTransformer.


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

    def grows(rate: Fraction, v_p: int, v_d: int, b: int) -> bool:
        engine = simple_engine(b, (v_p, v_d), rate)

        waiting = ((0, 3),) * (2 * b)
        # After any slot there is a prompt with probability λ; enumerate both cases.
        none, one = (
            engine.drift(_decode_tokens, State(0, queue), policy)
            for queue in (waiting, (*waiting, (v_p, v_d)))
        )
        drift = (1 - rate) * none + rate * one
        return drift == rate * v_d - (1 - rate) * b > 0

    seen = examine(
        "decode tokens grow by λ m_d − P(a = 0) b > 0 per slot where b requests decode",
        "t = 1, one size, at most one arrival a slot: all small cases below load 1",
        grid,
        grows,
        lambda rate, v_p, v_d, b: rate * (v_p + v_d) < b and rate * v_d > (1 - rate) * b,
    )
    # The instance (A): 0.4·10 decode tokens a slot, 12 per request.
    return Findings(seen, numbers={"requests per slot at λ = 0.6, v = (1, 12), b = 10": "1/3"})


def saturation(policy: Policy, size: tuple[int, int], budget: int, time: BatchTime) -> Fraction:
    """Return the requests per slot of an engine that never runs out of prompts.

    Counted over three regeneration cycles: periods between slots in which no request is in decode
    and no prompt has started.
    """
    engine = simple_engine(budget, size, time=time)
    plenty = (size,) * (3 * budget)
    state, slots, done, found = State(0, plenty), 0, 0, 0
    while found < 3:
        batch = policy(state.queue, budget)
        before = len(state.queue)
        state = engine.step(state, batch)
        slots += 1 + state.remaining
        done += before - len(state.queue)
        fresh = (size,) * (3 * budget - len(state.queue))
        state = State(0, state.queue + fresh)
        found += state.queue == plenty
        if slots > 4000:
            break  # Policies with mixed batches may never return to a regeneration slot.
    return Fraction(done, slots)


@CLAIMS.own(
    "batching.faster-transformer",
    Mutation("Sarathi-Serve in its place", policy=sarathi),
    kind=Kind.IDENTITY,
)
def _faster_transformer_check(context: Context, *, policy: Policy = faster_transformer) -> Outcome:
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
        return saturation(policy, (v_p, v_d), b, time) == Fraction(admitted, cycle)

    return examine(
        "requests per slot (b/v_p)/(t_b + v_d t_(b/v_p))",
        "random sizes with v_p a divisor of b, batch times; more prompts than are served",
        cases(),
        saturates,
    )
