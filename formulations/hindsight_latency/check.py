"""The checker of schedules of the hindsight latency program, a brute-force oracle, and bounds.

All are independent of the solvers.

`certified_bound` derives a bound by prices from the problem and the prices alone. It shares no
code with the compiled bound (`bfio.hindsight`).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from formulations.arrays import IntArray
from formulations.errors import CapabilityError
from formulations.hindsight_latency.problem import LatencyProblem, kinds
from formulations.request_table import shortest_remaining_first


def violations(
    problem: LatencyProblem, starts: Sequence[int], objective: int | None = None
) -> dict[str, int]:
    """Return each violated constraint of a schedule and the amount.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    starts : sequence of int
        Start round ``p_i`` of each request, length n.
    objective : int, optional
        Claimed total latency, compared with the recomputed one.

    Returns
    -------
    dict of str to int
        Constraint name to positive amount; empty for a feasible schedule. ``memory[τ]`` gives the
        tokens in excess at round τ.
    """
    if len(starts) != problem.num_requests:
        return {"starts": abs(len(starts) - problem.num_requests)}
    strangers = {f"starts[{i}]": 1 for i, start in enumerate(starts) if type(start) is not int}
    if strangers:
        return strangers
    arrivals = problem.arrival.tolist()
    violated = {
        f"arrival[{i}]": arrival - start
        for i, (arrival, start) in enumerate(zip(arrivals, starts, strict=True))
        if start < arrival
    }
    if most_memory(problem, starts) > problem.memory:
        for round_, tokens in sorted(memory_used(problem, starts).items()):
            if tokens > problem.memory:
                violated[f"memory[{round_}]"] = tokens - problem.memory
    if objective is not None and (error := abs(objective - total_latency(problem, starts))):
        violated["objective"] = error
    return violated


def total_latency(problem: LatencyProblem, starts: Sequence[int]) -> int:
    """Return the total latency ``Σ (p_i + o_i - a_i)`` of a schedule [rounds]."""
    outputs, arrivals = problem.output.tolist(), problem.arrival.tolist()
    return sum(p + o - a for p, o, a in zip(starts, outputs, arrivals, strict=True))


def most_memory(problem: LatencyProblem, starts: Sequence[int]) -> int:
    """Return the most KV cache tokens of a schedule at any round.

    Between the last rounds of requests the cache only grows, so only these rounds are examined.
    """
    convention = problem.convention
    events = []
    prompts, outputs = problem.prompt.tolist(), problem.output.tolist()
    for start, prompt, output in zip(starts, prompts, outputs, strict=True):
        first, last = convention.first_age, convention.last_age(output)
        if first <= last:
            # At the same round, requests are added before the cache is examined.
            events += [
                (start + first, False, prompt - start),
                (start + last, True, prompt - start),
            ]
    most = held = present = 0
    for round_, ends, tokens in sorted(events):
        if ends:
            most = max(most, held + present * round_)
        sign = -1 if ends else 1
        held, present = held + sign * tokens, present + sign
    return most


def memory_used(problem: LatencyProblem, starts: Sequence[int]) -> dict[int, int]:
    """Return the KV cache tokens of a schedule at each round with a nonempty cache."""
    convention = problem.convention
    used: dict[int, int] = {}
    prompts, outputs = problem.prompt.tolist(), problem.output.tolist()
    for start, prompt, output in zip(starts, prompts, outputs, strict=True):
        for age in range(convention.first_age, convention.last_age(output) + 1):
            used[start + age] = used.get(start + age, 0) + prompt + age
    return used


#: Largest number of start vectors up to the last step.
MAX_VECTORS = 10**9


def brute_force(problem: LatencyProblem, most: int | None = None) -> tuple[int, list[int]]:
    """Return the least total latency and the lexicographically smallest starts that reach it.

    Partial vectors that exceed the memory, or cost at least as much as the best, are pruned.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    most : int, optional
        Largest number of start rounds to try, over all requests together.

    Raises
    ------
    CapabilityError
        If more than ``most`` starts are needed or, without ``most``, there are more than
        `MAX_VECTORS` vectors of starts.
    """
    last = {i: kind.last_start for kind in kinds(problem) for i in kind.members}
    arrivals = problem.arrival.tolist()
    size = math.prod(last[i] - arrival + 1 for i, arrival in enumerate(arrivals))
    remedy = 'use method="cp-sat"'
    if most is None and size > MAX_VECTORS:
        raise CapabilityError(
            "problem", f"more than {MAX_VECTORS} start vectors to enumerate", remedy
        )
    too_many = CapabilityError("problem", "too many schedules to enumerate", remedy)
    # Each request has a start.
    if most is not None and most < len(arrivals):
        raise too_many
    convention, memory, outputs = problem.convention, problem.memory, problem.output.tolist()
    grown = [
        [(age, prompt + age) for age in range(convention.first_age, convention.last_age(o) + 1)]
        for prompt, o in zip(problem.prompt.tolist(), outputs, strict=True)
    ]
    left = math.inf if most is None else most
    best: tuple[int, list[int]] | None = None
    starts: list[int] = []
    # Memory of the requests placed so far.
    used: defaultdict[int, int] = defaultdict(int)

    def extend(total: int) -> None:
        """Try every start of the next request, recursively."""
        nonlocal best, left
        i = len(starts)
        if i == len(outputs):
            if best is None or total < best[0]:
                best = total, list(starts)
            return
        rest = sum(arrivals[i + 1 :])
        for start in range(arrivals[i], last[i] + 1):
            if best is not None and total + start + rest >= best[0]:
                return
            left -= 1
            if left < 0:
                raise too_many
            held = [(start + age, tokens) for age, tokens in grown[i]]
            if any(used[round_] + tokens > memory for round_, tokens in held):
                continue
            for round_, tokens in held:
                used[round_] += tokens
            starts.append(start)
            extend(total + start)
            starts.pop()
            for round_, tokens in held:
                used[round_] -= tokens

    extend(0)
    constant = sum(outputs) - sum(arrivals)
    assert best is not None
    return best[0] + constant, best[1]


def lower_bound(problem: LatencyProblem) -> int:
    """Return an integer lower bound on the total latency of every feasible schedule.

    The bound adds up lower bounds on the k-th completion, k = 1, 2, ..., each the larger of two.
    First, no request ends before its arrival plus its output; the k-th smallest of these times is
    a bound. Second, a schedule processes areas (tokens times rounds), at most M per round, and
    each request's area after its arrival. The schedule is thus a preemptive schedule of one
    machine of speed M. On this machine, shortest remaining first has completed at every time at
    least as many jobs as any other schedule, so its k-th completion, rounded up to whole rounds,
    is a bound.
    """
    convention = problem.convention
    arrivals: list[int] = problem.arrival.tolist()
    outputs: list[int] = problem.output.tolist()
    last_ages = [convention.last_age(o) for o in outputs]
    alone = sorted(a + last for a, last in zip(arrivals, last_ages, strict=True))
    filled = _processed(problem, last_ages)
    last_rounds = sum(max(pair) for pair in zip(alone, filled, strict=True))
    return last_rounds - sum(last_ages) + sum(outputs) - sum(arrivals)


def _processed(problem: LatencyProblem, last_ages: list[int]) -> list[int]:
    """Return the completion rounds, ascending, of shortest remaining area first at M per round."""
    first = problem.convention.first_age
    areas = [
        (last - first + 1) * prompt + (last * (last + 1) - first * (first - 1)) // 2
        for prompt, last in zip(problem.prompt.tolist(), last_ages, strict=True)
    ]
    # A request occupies the rounds after its arrival + f - 1.
    released = [arrival + first - 1 for arrival in problem.arrival.tolist()]
    return shortest_remaining_first(released, areas, problem.memory)


#: Largest total price of the cells of a round, so that sums fit in 64 bits.
_MOST_PAID = 2**60
#: Price of a set that does not exist; it stays negative after additions.
_NONE = -(2**61)
#: Table entries that are processed at a time.
_PIECE = 4_000_000
#: Tokens held and rounds left.
Cell: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class PriceCertificate:
    """Integer prices that prove a bound.

    Parameters
    ----------
    scale : int
        Price of one waiting round.
    prices : mapping
        ``prices[round][(tokens held, rounds left)] >= 0`` in convention B; 0 if missing. The first
        occupied round is the start, so convention C is shifted by one round.
    per_token : mapping
        ``per_token[round] >= 0``: price of each token held at the round, added to that of the
        cell; 0 if missing.
    """

    scale: int
    prices: Mapping[int, Mapping[Cell, int]]
    per_token: Mapping[int, int] = field(default_factory=dict)


def certified_bound(problem: LatencyProblem, certificate: PriceCertificate | None) -> int:
    """Return the lower bound on the total latency that the prices prove.

    Without a certificate, the bound is `lower_bound`.

    Raises
    ------
    ValueError
        If the scale is not positive, a price is negative, or prices exceed 64-bit sums.
    """
    if certificate is None:
        return lower_bound(problem)
    prices, scale = certificate.prices, certificate.scale
    per_token = certificate.per_token.values()
    rows = (*(row.values() for row in prices.values()), per_token)
    if scale < 1 or any(price < 0 for row in rows for price in row):
        raise ValueError("prices must be at least 0 and the scale at least 1")
    paths = _paths(problem)
    tokens = _TokenPrices(problem, certificate)
    paid = sum(
        _cheapest_start(arrival, path, certificate, tokens)
        for arrival, path in zip(problem.arrival.tolist(), paths, strict=True)
    )
    requests_at = Counter(cell for path in paths for cell in path)
    given_back = _dearest_sets(prices, requests_at, problem.memory)
    # The tokens of a round are at most the memory.
    given_back += problem.memory * sum(per_token)
    constant: int = sum(problem.output.tolist()) - sum(problem.arrival.tolist())
    return -((given_back - paid) // scale) + constant


def _paths(problem: LatencyProblem) -> list[list[Cell]]:
    """Return each request's cells (tokens held, rounds left), in order of age."""
    convention = problem.convention
    first = convention.first_age
    return [
        [(prompt + age, last - age) for age in range(first, last + 1)]
        for prompt, last in zip(
            problem.prompt.tolist(), map(convention.last_age, problem.output.tolist()), strict=True
        )
    ]


class _TokenPrices:
    """Sums of the prices of tokens, from which those of a request follow for each start."""

    def __init__(self, problem: LatencyProblem, certificate: PriceCertificate) -> None:
        per_token = certificate.per_token
        # After the last priced round, a later start only increases the latency.
        self.end = max([*certificate.prices, *per_token, -1]) + 1
        self._first = min(per_token, default=self.end)
        prices = [per_token.get(now, 0) for now in range(self._first, self.end)]
        most = problem.memory + len(prices) + max(problem.arrival.tolist(), default=0)
        if certificate.scale * (self.end + most) + most * sum(prices) > _MOST_PAID:
            raise ValueError("prices must be small enough for 64-bit sums")
        # Before each round: the sum of prices, and of prices times rounds.
        self._sums = np.array([0, *accumulate(prices)])
        self._moments = np.array([0, *accumulate(now * p for now, p in enumerate(prices))])

    def paid(self, starts: IntArray, tokens: int, rounds: int) -> IntArray:
        """Return the payment of a request that holds ``tokens`` first and one more each round."""
        starts = starts - self._first
        begin, end = (np.clip(r, 0, len(self._sums) - 1) for r in (starts, starts + rounds))
        sums = self._sums[end] - self._sums[begin]
        total: IntArray = (tokens - starts) * sums + self._moments[end] - self._moments[begin]
        return total


def _cheapest_start(
    arrival: int, path: list[Cell], certificate: PriceCertificate, tokens: _TokenPrices
) -> int:
    starts = np.arange(arrival, max(arrival, tokens.end) + 1)
    cost = certificate.scale * starts + tokens.paid(starts, path[0][0], len(path))
    if not certificate.prices:
        return int(cost.min())
    costs: list[int] = cost.tolist()
    return min(
        fixed
        + sum(certificate.prices.get(start + j, {}).get(cell, 0) for j, cell in enumerate(path))
        for start, fixed in zip(starts.tolist(), costs, strict=True)
    )


def _dearest_sets(
    prices: Mapping[int, Mapping[Cell, int]], requests_at: Mapping[Cell, int], memory: int
) -> int:
    """Return the sum over rounds of the highest price of a set of cells that fits in memory.

    Each cell occurs at most as often as there are requests that can be in it. Cells are added by
    rounds left, largest first. When a cell ends, all cells added before it are still present, so
    the set fits if each cell fitted at its own end when it was added.
    """
    cells = sorted((left, tokens) for (tokens, left), copies in requests_at.items() if copies > 0)
    rows = list(prices.values())
    table = np.array([[row.get((s, left), 0) for left, s in cells] for row in rows], dtype=object)
    copies = [min(requests_at[tokens, left], memory // tokens) for left, tokens in cells]
    if len(rows) == 0 or len(cells) == 0:
        return 0
    if max((table * copies).sum(axis=1)) > _MOST_PAID:
        raise ValueError("prices must be small enough for 64-bit sums")
    most = memory // min(tokens for _, tokens in cells)
    piece = max(1, _PIECE // ((most + 1) * (memory + 1)))
    kinds = [(*cell, many) for cell, many in zip(cells, copies, strict=True)]
    return sum(
        int(_dearest(table[k : k + piece].astype(np.int64), kinds, most, memory).sum())
        for k in range(0, len(rows), piece)
    )


def _dearest(
    prices: IntArray, kinds: list[tuple[int, int, int]], most: int, memory: int
) -> IntArray:
    """Return the highest price of a set of cells in each round."""
    # best[round, count, held]: highest price of ``count`` cells that hold ``held`` tokens.
    best = np.full((len(prices), most + 1, memory + 1), _NONE, dtype=np.int64)
    best[:, 0, 0] = 0
    for k in reversed(range(len(kinds))):
        left, tokens, copies = kinds[k]
        worth = prices[:, k, None, None]
        if memory < tokens + left or not worth.any():
            continue
        # After adding this cell, ``count`` cells hold ``held`` tokens, and each grows by ``left``.
        highest = min(most, (memory - tokens) // left) if left else most
        held, counts = np.arange(tokens, memory - left + 1), np.arange(1, highest + 1)
        fits = held + counts[:, None] * left <= memory
        for _ in range(copies):
            before = best[:, :highest, : memory - left - tokens + 1]
            after = best[:, 1 : highest + 1, tokens : memory - left + 1]
            grown = np.where(fits, before + worth, _NONE)
            if (grown <= after).all():
                break
            np.maximum(after, grown, out=after)
    dearest: IntArray = best.max(axis=(1, 2))
    return dearest
