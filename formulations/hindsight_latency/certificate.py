"""Re-derive a priced bound from the problem and the prices alone, in plain Python.

Shares no code with the compiled bound: convention, cells and dearest sets are worked out anew.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from formulations.hindsight_latency.bound import lower_bound
from formulations.hindsight_latency.problem import LatencyProblem

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
        Round, then (tokens held, rounds left), to price >= 0, in convention B; missing is 0.
        Rounds count occupied rounds from the start, so convention C is read one round earlier.
    """

    scale: int
    prices: Mapping[int, Mapping[Cell, int]]


def certified_bound(problem: LatencyProblem, certificate: PriceCertificate | None) -> int:
    """Return the lower bound on the total latency that the prices prove.

    Without prices it is the bound by areas.

    Raises
    ------
    ValueError
        If the scale is not positive or a price is negative.
    """
    if certificate is None:
        return lower_bound(problem)
    prices, scale = certificate.prices, certificate.scale
    if scale < 1 or any(p < 0 for row in prices.values() for p in row.values()):
        raise ValueError("prices must be at least 0 and the scale at least 1")
    paths = _paths(problem)
    paid = sum(
        _cheapest_start(arrival, path, certificate)
        for arrival, path in zip(problem.arrival.tolist(), paths, strict=True)
    )
    requests_at = Counter(cell for path in paths for cell in path)
    given_back = sum(_dearest_set(row, requests_at, problem.memory) for row in prices.values())
    constant: int = sum(problem.output.tolist()) - sum(problem.arrival.tolist())
    return -((given_back - paid) // scale) + constant


def _paths(problem: LatencyProblem) -> list[list[Cell]]:
    """Return the cells each request is, age by age."""
    convention = problem.convention
    first = convention.first_age
    return [
        [(prompt + age, last - age) for age in range(first, last + 1)]
        for prompt, last in zip(
            problem.prompt.tolist(), map(convention.last_age, problem.output.tolist()), strict=True
        )
    ]


def _cheapest_start(arrival: int, path: list[Cell], certificate: PriceCertificate) -> int:
    # After the last priced round a later start only costs.
    end = max(certificate.prices, default=-1) + 1
    return min(
        certificate.scale * start
        + sum(certificate.prices.get(start + j, {}).get(cell, 0) for j, cell in enumerate(path))
        for start in range(arrival, max(arrival, end) + 1)
    )


def _dearest_set(row: Mapping[Cell, int], requests_at: Mapping[Cell, int], memory: int) -> int:
    """Greatest price of a set of cells that runs to its ends within the memory.

    Each cell is there at most as often as there are requests that can be it.
    """
    best = {(0, 0): 0}
    for (tokens, left), price in sorted(row.items(), key=lambda item: -item[0][1]):
        frontier = best if price else {}
        fresh = dict(best)
        for _ in range(requests_at.get((tokens, left), 0)):
            grown: dict[tuple[int, int], int] = {}
            for (held, count), value in frontier.items():
                fits = held + tokens + (count + 1) * left <= memory
                if fits and fresh.get((held + tokens, count + 1), -1) < value + price:
                    grown[held + tokens, count + 1] = value + price
            fresh.update(grown)
            frontier = grown
        best = fresh
    return max(best.values())
