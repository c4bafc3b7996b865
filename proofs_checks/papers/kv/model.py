"""One worker by the paper's definitions: profiles of memory, and Algorithms 1 and 2 slot by slot.

Written from the text, independently of `bfio.kvcache`, whose runs are compared with it. The three
conventions have a common form: a request holds ``first``, ``first + 1``, ... tokens in ``length``
consecutive slots. The first slot is the round of its start (A and B) or the next one (C).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations_with_replacement, product
from typing import TypeAlias

import numpy as np

from bfio.worst_cases.starts import StartSearch
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
    return _search(data, fixed, now, known, ties=True).schedules


def least_latency(
    data: Jobs,
    fixed: Mapping[int, int] | None = None,
    now: int = 0,
    known: Sequence[int] | None = None,
) -> int:
    """Return the least sum of starts; parameters as those of `optima`."""
    return _search(data, fixed, now, known).best


def least_starts(data: Jobs) -> tuple[int, ...]:
    """Return a schedule of least total latency."""
    return _search(data, None, 0, algorithm(data)).schedules[-1]


def _search(
    data: Jobs,
    fixed: Mapping[int, int] | None,
    now: int,
    known: Sequence[int] | None,
    *,
    ties: bool = False,
) -> StartSearch:
    starts = dict(fixed or {})
    kinds = list(zip(data.arrival, data.first, data.length, strict=True))
    left = [job for job in range(len(kinds)) if job not in starts]
    if known is None:
        # Running the requests one after another at the end is feasible.
        ends = [start + data.length[job] - 1 for job, start in starts.items()]
        begin = max([now, *(data.arrival[job] for job in left), *ends]) + 1
        lengths = sorted(data.length[job] for job in left)
        known = [*starts.values(), *accumulate(lengths[:-1], initial=begin)]
    return StartSearch(
        data.memory, kinds, sum(known), order=left, fixed=starts, now=now, ties=ties
    )


def prefix(starts: Sequence[int], until: int) -> dict[int, int]:
    """Return the starts before round ``until``."""
    return {job: start for job, start in enumerate(starts) if start < until}
