"""Small decode steps looked through completely: every load vector that some assignment reaches."""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product

#: Loads of the workers, in worker order [tokens].
Loads = tuple[int, ...]


def reachable_loads(base: Sequence[int], slots: Sequence[int], sizes: Sequence[int]) -> set[Loads]:
    """Return the loads of all assignments that fill as many slots as the requests allow.

    Parameters
    ----------
    base : sequence of int
        Shape (G,): load of each worker before admission [tokens].
    slots : sequence of int
        Shape (G,): free slots.
    sizes : sequence of int
        Shape (N,): prompt sizes of the waiting requests.
    """
    states = {(tuple(base), tuple(slots))}
    surplus = max(0, len(sizes) - sum(slots))
    for position, size in enumerate(sizes):
        # A request may wait only while the rest can still fill every slot.
        may_wait = surplus > 0
        left = len(sizes) - position - 1
        grown = set(states) if may_wait else set()
        for loads, free in states:
            for g in range(len(slots)):
                if free[g]:
                    grown.add((_with(loads, g, size), _with(free, g, -1)))
        states = {state for state in grown if may_wait is False or sum(state[1]) <= left}
    return {loads for loads, _ in states}


def groups_with_loads(
    base: Sequence[int], slots: Sequence[int], sizes: Sequence[int], loads: Loads
) -> list[list[int]] | None:
    """Return sizes per worker that give these loads and fill all slots, or None."""
    free = list(slots)
    groups: list[list[int]] = [[] for _ in slots]
    missing = [load - b for load, b in zip(loads, base, strict=True)]

    def place(position: int) -> bool:
        if not any(free):
            return not any(missing)
        if len(sizes) - position < sum(free):
            return False
        size = sizes[position]
        for g in range(len(slots)):
            if free[g] and missing[g] >= size:
                free[g], missing[g] = free[g] - 1, missing[g] - size
                groups[g].append(size)
                if place(position + 1):
                    return True
                groups[g].pop()
                free[g], missing[g] = free[g] + 1, missing[g] + size
        return place(position + 1)

    return groups if place(0) else None


def imbalance(loads: Sequence[int]) -> int:
    """``G·max − Σ`` of the loads (BF-IO, eq. 2) [tokens]."""
    return len(loads) * max(loads) - sum(loads)


def gap(loads: Sequence[int]) -> int:
    """``max − min`` of the loads [tokens]."""
    return max(loads) - min(loads)


def multisets(count: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield every multiset of ``count`` sizes in 1..largest, largest sizes first."""
    yield from combinations_with_replacement(range(largest, 0, -1), count)


def vectors(length: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield every vector of entries 0..largest."""
    yield from product(range(largest + 1), repeat=length)


def _with(values: tuple[int, ...], g: int, change: int) -> tuple[int, ...]:
    return (*values[:g], values[g] + change, *values[g + 1 :])
