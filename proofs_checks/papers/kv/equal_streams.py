"""Streams of equal requests: Algorithm 2 against a steady start, counted by age.

With equal requests a schedule is how many start in each round: long streams are exact and cheap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.evidence import Data
from proofs_checks.papers.kv.model import CONVENTIONS, jobs, problem_of


@dataclass(frozen=True)
class EqualRequests:
    """One kind of request and the memory it runs in.

    Parameters
    ----------
    memory, first, length : int
        ``M``, tokens in the first slot, slots; see `proofs_checks.papers.kv.model`.
    """

    memory: int
    first: int
    length: int

    @staticmethod
    def of(memory: int, prompt: int, output: int, convention: Convention) -> "EqualRequests":
        """Return the kind of a request, which must fit alone."""
        data = jobs(problem_of(memory, [prompt], [output], convention))
        return EqualRequests(memory, data.first[0], data.length[0])

    @property
    def area(self) -> int:
        """Tokens times slots that a request fills."""
        return sum(self.first + age for age in range(self.length))

    @property
    def steady(self) -> int:
        """Requests that can start in every round for ever: ``⌊M / area⌋``."""
        return self.memory // self.area


def kinds_of(data: Data) -> dict[Convention, EqualRequests]:
    """Read the kind of request of a counterexample, under each convention."""
    memory, prompt, output = (data[key] for key in ("memory", "prompt", "output"))
    if prompt + output > memory:
        raise ValueError("a request that never fits")
    return {c: EqualRequests.of(memory, prompt, output, c) for c in CONVENTIONS}


def greedy(kind: EqualRequests, recent: Sequence[int]) -> int:
    """Return how many Algorithm 2 starts of many; ``recent[k]`` started k + 1 rounds ago."""
    rooms = []
    for delay in range(kind.length):
        held = sum(
            count * (kind.first + age + delay)
            for age, count in enumerate(recent, start=1)
            if age + delay < kind.length
        )
        rooms.append((kind.memory - held) // (kind.first + delay))
    return min(rooms)


def started(kind: EqualRequests, arrivals: Sequence[int], *, most: int | None = None) -> list[int]:
    """Return how many start in each round until all have.

    Parameters
    ----------
    kind : EqualRequests
        Kind of the requests.
    arrivals : sequence of int
        How many arrive in each round.
    most : int, optional
        Start at most so many per round, in place of Algorithm 2.
    """
    counts: list[int] = []
    waiting = 0
    while waiting or len(counts) < len(arrivals):
        waiting += arrivals[len(counts)] if len(counts) < len(arrivals) else 0
        recent = counts[: -kind.length : -1] if kind.length > 1 else []
        room = greedy(kind, recent) if most is None else most
        counts.append(min(waiting, room))
        waiting -= counts[-1]
    return counts


def mean_wait(arrivals: Sequence[int], counts: Sequence[int]) -> Fraction:
    """Return the mean of start less arrival, first come first started."""
    waits = sum(now * count for now, count in enumerate(counts))
    waits -= sum(now * count for now, count in enumerate(arrivals))
    return Fraction(waits, sum(arrivals))


def saturated_rate(kind: EqualRequests) -> Fraction:
    """Return the starts per round of Algorithm 2 in the long run if requests never run out.

    What starts follows from the last ``length − 1`` rounds, so the run is periodic in the end.
    """
    seen: dict[tuple[int, ...], tuple[int, int]] = {}
    recent: tuple[int, ...] = (0,) * (kind.length - 1)
    now = total = 0
    while recent not in seen:
        seen[recent] = now, total
        count = greedy(kind, recent)
        recent = (count, *recent)[: kind.length - 1]
        now, total = now + 1, total + count
    begin, before = seen[recent]
    return Fraction(total - before, now - begin)


def as_starts(counts: Sequence[int]) -> list[int]:
    """Return the round of each request from how many there are in each round."""
    return [now for now, count in enumerate(counts) for _ in range(count)]


def stream(
    memory: int, prompt: int, output: int, convention: Convention, arrivals: Sequence[int]
) -> LatencyProblem:
    """Return the problem of a stream."""
    rounds = as_starts(arrivals)
    return problem_of(memory, [prompt] * len(rounds), [output] * len(rounds), convention, rounds)
