"""One worker by the paper's definitions: profiles of memory, and Algorithms 1 and 2 slot by slot.

Written from the text, independently of `bfio.kvcache`, whose runs are compared with it. The three
conventions have a common form: a request holds ``first``, ``first + 1``, ... tokens in ``length``
consecutive slots. The first slot is the round of its start (A and B) or the next one (C).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from typing import TypeAlias

import numpy as np

from formulations.hindsight_latency import Convention, LatencyProblem
from proofs_checks.evidence import Data

CONVENTIONS = tuple(Convention)
#: Tokens in the coming slot, and slots still occupied, including the coming one.
Load: TypeAlias = tuple[int, int]
#: Whether requests may start, given memory, running loads and new loads (the candidate last).
Test: TypeAlias = Callable[[int, Sequence[Load], Sequence[Load]], bool]


@dataclass(frozen=True)
class Jobs:
    """Memory profiles of requests.

    Parameters
    ----------
    memory : int
        ``M`` [tokens].
    arrival : tuple of int
        Rounds.
    first : tuple of int
        Tokens in the first slot.
    length : tuple of int
        Slots occupied.
    """

    memory: int
    arrival: tuple[int, ...]
    first: tuple[int, ...]
    length: tuple[int, ...]

    def load(self, job: int, age: int = 0) -> Load:
        """Return the load of a job that has been in the cache for ``age`` slots."""
        return self.first[job] + age, self.length[job] - age


def jobs(problem: LatencyProblem) -> Jobs:
    """Return the memory profiles of a problem's requests."""
    f = problem.convention.first_age
    outputs = problem.output.tolist()
    return Jobs(
        problem.memory,
        tuple(problem.arrival.tolist()),
        tuple(s + f for s in problem.prompt.tolist()),
        tuple(problem.convention.last_age(o) - f + 1 for o in outputs),
    )


def problem_of(
    memory: int,
    prompts: Sequence[int],
    outputs: Sequence[int],
    convention: Convention = Convention.CLOSED,
    arrivals: Sequence[int] | None = None,
) -> LatencyProblem:
    """Return a problem from plain sequences; by default all requests arrive at 0."""
    zeros = [0] * len(outputs)
    columns = (zeros if arrivals is None else arrivals, prompts, outputs)
    arrival, prompt, output = (np.array(column, dtype=np.int64) for column in columns)
    return LatencyProblem(memory, arrival, prompt, output, convention)


def as_data(problem: LatencyProblem, **more: object) -> Data:
    """Return a problem as plain data; `from_data` reads it."""
    return {
        "memory": problem.memory,
        "requests": np.stack([problem.arrival, problem.prompt, problem.output], 1).tolist(),
        "convention": problem.convention.value,
    } | more


def from_data(data: Data) -> LatencyProblem:
    """Read ``memory``, ``requests`` as [arrival, prompt, output] each, and ``convention``."""
    if not data["requests"]:
        raise ValueError("no request")
    arrivals, prompts, outputs = zip(*data["requests"], strict=True)
    return problem_of(data["memory"], prompts, outputs, Convention(data["convention"]), arrivals)


def used(loads: Iterable[Load], delay: int) -> int:
    """Return the tokens in the cache ``delay`` slots after the coming one."""
    return sum(tokens + delay for tokens, slots in loads if slots > delay)


def equation_1(memory: int, running: Sequence[Load], new: Sequence[Load]) -> bool:
    """Return whether the memory suffices until all new requests have left (equation (1))."""
    together = [*running, *new]
    return all(used(together, d) <= memory for d in range(max(n for _, n in new)))


def now_only(memory: int, running: Sequence[Load], new: Sequence[Load]) -> bool:
    """Return whether the memory suffices in the coming slot, a test without look-ahead."""
    return used([*running, *new], 0) <= memory


def selected(
    memory: int,
    running: Sequence[Load],
    waiting: Sequence[Load],
    *,
    test: Test = equation_1,
    scan_on: bool = False,
) -> list[int]:
    """Return the positions that Algorithms 1 and 2 start, trying ``waiting`` in order."""
    new: list[Load] = []
    starters: list[int] = []
    for position, candidate in enumerate(waiting):
        if test(memory, running, [*new, candidate]):
            new.append(candidate)
            starters.append(position)
        elif not scan_on:
            break
    return starters


def shortest_first(data: Jobs, job: int) -> tuple[int, int, int]:
    """Return the sort key of Algorithms 1 and 2: output, then arrival, then number."""
    return data.length[job], data.arrival[job], job


def algorithm(
    data: Jobs,
    *,
    key: Callable[[Jobs, int], tuple[int, ...]] = shortest_first,
    test: Test = equation_1,
) -> list[int]:
    """Return the starts of Algorithm 2, which is Algorithm 1 if all arrive at 0.

    Parameters
    ----------
    data : Jobs
        Requests.
    key : callable
        Order in which waiting requests are tried.
    test : callable
        Equation (1).
    """
    starts: dict[int, int] = {}
    waiting = sorted(range(len(data.length)), key=lambda job: key(data, job))
    for now in range(10_000):
        if not waiting:
            return [starts[job] for job in range(len(data.length))]
        here = [job for job in waiting if data.arrival[job] <= now]
        running = running_loads(data, starts, now)
        loads = [data.load(job) for job in here]
        for position in selected(data.memory, running, loads, test=test):
            starts[here[position]] = now
        waiting = [job for job in waiting if job not in starts]
    raise ValueError("too many rounds")


def running_loads(data: Jobs, starts: dict[int, int], now: int) -> list[Load]:
    """Return the loads of requests that started before ``now`` and are still in the cache."""
    return [
        data.load(job, now - start)
        for job, start in starts.items()
        if start < now < start + data.length[job]
    ]


def present(data: Jobs, starts: Sequence[int], slot: int) -> list[int]:
    """Return the tokens of the requests in the cache in a slot."""
    return [
        first + slot - start
        for start, first, length in zip(starts, data.first, data.length, strict=True)
        if start <= slot < start + length
    ]


def peak(data: Jobs, starts: Sequence[int]) -> int:
    """Return the most tokens in the cache at any slot."""
    tokens: dict[int, int] = {}
    for job, start in enumerate(starts):
        for age in range(data.length[job]):
            tokens[start + age] = tokens.get(start + age, 0) + data.first[job] + age
    return max(tokens.values())


def all_at_once(
    memories: Iterable[int], prompts: Iterable[int], num: int
) -> Iterator[LatencyProblem]:
    """Yield all problems with a common prompt, arrivals at 0, and no oversized request."""
    for memory, prompt, convention in product(memories, prompts, CONVENTIONS):
        longest = memory - prompt + (convention is Convention.PRINTED)
        for outputs in combinations_with_replacement(range(1, longest + 1), num):
            yield problem_of(memory, [prompt] * num, outputs, convention)


def random_problem(
    rng: np.random.Generator,
    *,
    least: int = 1,
    most: int = 6,
    memory: int = 12,
    prompt: int = 3,
    rounds: int = 4,
    mixed: bool = False,
    convention: Convention | None = None,
) -> LatencyProblem:
    """Draw a problem: ``least`` to ``most`` requests that arrive in rounds 0..``rounds``.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    least : int
        Fewest requests.
    most, memory, prompt, rounds : int
        Largest values.
    mixed : bool
        Whether each request has its own prompt.
    convention : Convention, optional
        Drawn if not given.
    """
    num = int(rng.integers(least, most + 1))
    drawn = convention or CONVENTIONS[int(rng.integers(3))]
    capacity = int(rng.integers(prompt + 2, memory + 1))
    prompts = rng.integers(1, prompt + 1, num if mixed else 1)
    prompts = np.broadcast_to(prompts, num)
    longest = capacity - prompts + (drawn is Convention.PRINTED)
    outputs = rng.integers(1, longest + 1)
    arrivals = np.sort(rng.integers(0, rounds + 1, num))
    return problem_of(capacity, prompts.tolist(), outputs.tolist(), drawn, arrivals.tolist())


def optima(
    data: Jobs,
    fixed: Mapping[int, int] | None = None,
    now: int = 0,
    known: Sequence[int] | None = None,
) -> list[tuple[int, ...]]:
    """Return all schedules of least total latency that keep the given starts.

    Parameters
    ----------
    data : Jobs
        A few requests.
    fixed : mapping, optional
        Starts of the requests that have started before ``now``.
    now : int
        Earliest start of the others.
    known : sequence of int, optional
        A feasible schedule with the same fixed starts; it only speeds up the search.
    """
    return _Search(data, fixed, now, known, ties=True).schedules


def least_latency(
    data: Jobs,
    fixed: Mapping[int, int] | None = None,
    now: int = 0,
    known: Sequence[int] | None = None,
) -> int:
    """Return the least sum of starts; parameters as those of `optima`."""
    return _Search(data, fixed, now, known, ties=False).best


def least_starts(data: Jobs) -> tuple[int, ...]:
    """Return a schedule of least total latency."""
    return _Search(data, None, 0, algorithm(data), ties=False).schedules[-1]


class _Search:
    """Depth-first search over the starts of the other requests: all optima (``ties``), or one.

    For one, of two equal requests the first starts no later.
    """

    def __init__(
        self,
        data: Jobs,
        fixed: Mapping[int, int] | None,
        now: int,
        known: Sequence[int] | None,
        *,
        ties: bool,
    ) -> None:
        starts = dict(fixed or {})
        self.data, self.starts, self.ties = data, starts, ties
        left = [job for job in range(len(data.length)) if job not in starts]
        earliest = [max(now, data.arrival[job]) for job in left]
        # Running the requests one after another at the end is feasible: an initial upper bound.
        ends = [start + data.length[job] - 1 for job, start in starts.items()]
        begin = max([now, *earliest, *ends]) + 1
        self.best = sum(starts.values())
        for job in sorted(left, key=lambda job: data.length[job]):
            self.best += begin
            begin += data.length[job]
        self.schedules: list[tuple[int, ...]] = []
        # The cache over time is one integer with a field per slot. A field has the slot's tokens
        # plus an offset, so that its highest bit is set iff they exceed the memory. A field is
        # wide enough for all requests at once.
        self.kinds = list(zip(data.arrival, data.first, data.length, strict=True))
        kinds = list(zip(data.first, data.length, strict=True))
        self.width = (data.memory + sum(f + n for f, n in kinds)).bit_length() + 1
        slots = self.best + max(data.length, default=0) + 1
        self.used = self._everywhere((1 << self.width - 1) - 1 - data.memory, slots)
        self.full = [self._everywhere(1 << self.width - 1, n) for _, n in kinds]
        self.shape = [sum((f + age) << age * self.width for age in range(n)) for f, n in kinds]
        for job, start in starts.items():
            self.used += self.shape[job] << start * self.width
        if known is not None:
            self.best = min(self.best, sum(known))
        self._extend(sum(starts.values()), left, earliest)

    def _extend(self, total: int, left: Sequence[int], earliest: Sequence[int]) -> None:
        """Try every start of the first remaining request.

        Parameters
        ----------
        total : int
            Sum of the starts so far.
        left, earliest : sequence of int
            Remaining requests, and lower bounds on their starts from the placed requests.
        """
        if not left:
            if total < self.best:
                self.best, self.schedules = total, []
            self.schedules.append(tuple(self.starts[job] for job in range(len(self.data.length))))
            return
        # Placing more requests only takes memory, so these starts are lower bounds.
        starts = [self._first_fit(job, start) for job, start in zip(left, earliest, strict=True)]
        job, others = left[0], left[1:]
        start, rest = starts[0], sum(starts[1:])
        kinds = self.kinds
        equal = [not self.ties and kinds[other] == kinds[job] for other in others]
        while total + start + rest < self.best + (self.ties or not self.schedules):
            if self._fits(job, start):
                before = self.used
                self.used += self.shape[job] << start * self.width
                self.starts[job] = start
                later = [
                    max(first, start) if same else first
                    for first, same in zip(starts[1:], equal, strict=True)
                ]
                self._extend(total + start, others, later)
                del self.starts[job]
                self.used = before
            start += 1

    def _first_fit(self, job: int, start: int) -> int:
        while not self._fits(job, start):
            start += 1
        return start

    def _fits(self, job: int, start: int) -> bool:
        return not ((self.used >> start * self.width) + self.shape[job]) & self.full[job]

    def _everywhere(self, value: int, slots: int) -> int:
        return value * (((1 << self.width * slots) - 1) // ((1 << self.width) - 1))


def prefix(starts: Sequence[int], until: int) -> dict[int, int]:
    """Return the starts before round ``until``."""
    return {job: start for job, start in enumerate(starts) if start < until}
