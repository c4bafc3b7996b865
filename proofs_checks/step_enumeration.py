"""Complete enumeration of small decode steps: every load vector that an assignment reaches."""

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
    # A state is one Python integer: per worker a field for its load above the least and one for
    # its free slots, then the total of free slots. Admitting a request adds one number to it.
    # Integers in arrays would overflow.
    base, slots, sizes = ([int(value) for value in given] for given in (base, slots, sizes))
    G, lowest = len(slots), min(base)
    width = (max(base) - lowest + sum(sizes) + sum(slots) + 1).bit_length()
    field, top = (1 << width) - 1, 2 * G * width
    states = {
        sum(
            (load - lowest << g * width) + (free << (G + g) * width)
            for g, (load, free) in enumerate(zip(base, slots, strict=True))
        )
        + (sum(slots) << top)
    }
    may_wait = len(sizes) > sum(slots)
    for position, size in enumerate(sizes):
        left = len(sizes) - position - 1
        grown = set(states) if may_wait else set()
        for g in range(G):
            place = (G + g) * width
            taken = field << place
            change = (size << g * width) - (1 << place) - (1 << top)
            grown |= {state + change for state in states if state & taken}
        # A request may stay in the queue only if the remaining ones can still fill every slot.
        states = {s for s in grown if s >> top <= left} if may_wait else grown
    return {tuple((s >> g * width & field) + lowest for g in range(G)) for s in states}


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
