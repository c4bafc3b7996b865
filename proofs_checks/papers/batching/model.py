"""One engine by the paper's definitions (section 2), slot by slot, with exact expectations.

Written from the text, independently of `bfio`. A state is the number of slots that the running
batch still takes, and the requests in order of arrival with their prompt and decode tokens left.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TypeAlias

import numpy as np

from formulations.batching import BatchTime
from proofs_checks.evidence import Data

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
    """``X(n)`` of (2.4): ``R(n)`` and the requests."""

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
        """``λ``."""
        return sum((count * chance for count, chance in self.counts), Fraction(0))

    @property
    def tokens(self) -> Fraction:
        """``m_p + m_d``."""
        return self.mean(lambda size: Fraction(sum(size)))

    @property
    def full_rate(self) -> Fraction:
        """``b/t_b``."""
        return self.time.rate(self.budget)

    @property
    def load(self) -> Fraction:
        """``ρ``."""
        return self.rate * self.tokens / self.full_rate

    def mean(self, value: Callable[[Request], Fraction]) -> Fraction:
        """Return the mean of a function of the sizes of a request."""
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
    """Give each request in turn all of its eligible tokens, until the budget is spent."""
    batch, room = [(0, 0)] * len(queue), budget
    for i in order:
        p, _ = queue[i]
        taken = min(room, p or 1)
        batch[i] = (taken, 0) if p else (0, taken)
        room -= taken
    return batch


def _of(queue: Queue, *, decoding: bool) -> list[int]:
    return [i for i, (p, _) in enumerate(queue) if (p == 0) == decoding]


def sarathi(queue: Queue, budget: int) -> Batch:
    """Decode tokens first, then chunks of prompts (section 3)."""
    return fill(queue, budget, _of(queue, decoding=True) + _of(queue, decoding=False))


def orca(queue: Queue, budget: int) -> Batch:
    """Prompts first, then decode tokens in the same batch (section 3)."""
    return fill(queue, budget, _of(queue, decoding=False) + _of(queue, decoding=True))


def shortest_first(queue: Queue, budget: int) -> Batch:
    """Fewest tokens left first, in either phase."""
    return fill(queue, budget, sorted(range(len(queue)), key=lambda i: sum(queue[i])))


def vllm(queue: Queue, budget: int) -> Batch:
    """Only prompts while there are any, else only decode tokens (section 3)."""
    prompts = _of(queue, decoding=False)
    return fill(queue, budget, prompts or range(len(queue)))


def faster_transformer(queue: Queue, budget: int) -> Batch:
    """Only decode tokens while there are any, else only prompts (section 3)."""
    decoding = _of(queue, decoding=True)
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
    """Read what `as_data` writes.

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
