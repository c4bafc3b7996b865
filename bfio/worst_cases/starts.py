"""Search for the starts of minimum total latency of a few requests with one KV cache.

A request is given by its rounds and tokens alone: it arrives, and from its start it holds
``first``, ``first + 1``, ... tokens in ``length`` consecutive slots.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

#: Arrival, tokens in the first slot, and number of slots of a request.
Kind: TypeAlias = tuple[int, int, int]


class StartSearch:
    """Depth-first search over the starts of requests: all optima (``ties``), or the first one.

    For one, of two equal requests the first in ``order`` starts no later.

    Parameters
    ----------
    memory : int
        Tokens that the cache holds in a slot.
    kinds : sequence of Kind
        Requests.
    most : int
        Upper limit on the sum of all starts.
    order : sequence of int
        Requests whose starts are searched, in the order in which they are placed.
    fixed : mapping
        Starts of the other requests.
    now : int
        Earliest start of those searched.
    ties : bool
        Whether all optima are wanted.

    Attributes
    ----------
    best : int
        Least sum of starts; ``most`` if no schedule is within it.
    schedules : list of tuple of int
        Starts of the requests in each optimum found; empty if no schedule is within ``most``.
    """

    def __init__(
        self,
        memory: int,
        kinds: Sequence[Kind],
        most: int,
        *,
        order: Sequence[int],
        fixed: Mapping[int, int],
        now: int = 0,
        ties: bool = False,
    ) -> None:
        self.best = most
        self.schedules: list[tuple[int, ...]] = []
        self._kinds, self._starts, self._ties = kinds, dict(fixed), ties
        earliest = [max(now, kinds[i][0]) for i in order]
        total = sum(fixed.values())
        spare = most - total - sum(earliest)
        if spare < 0:
            return
        # The cache over time is one integer with a field per slot. A field has the slot's tokens
        # plus an offset, so that its highest bit is set iff they exceed the memory. A field is
        # wide enough for all requests at once.
        self._width = (memory + sum(f + n for _, f, n in kinds)).bit_length() + 1
        last = max([*earliest, *fixed.values()], default=0) + spare
        slots = last + max((n for *_, n in kinds), default=0) + 1
        self._used = self._everywhere((1 << self._width - 1) - 1 - memory, slots)
        self._full = [self._everywhere(1 << self._width - 1, n) for *_, n in kinds]
        self._shape = [
            sum((f + age) << age * self._width for age in range(n)) for _, f, n in kinds
        ]
        for i, start in fixed.items():
            self._used += self._shape[i] << start * self._width
        self._extend(total, order, earliest)

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
            self.schedules.append(tuple(self._starts[i] for i in range(len(self._kinds))))
            return
        # Placing more requests only takes memory, so these starts are lower bounds.
        starts = [self._first_fit(i, start) for i, start in zip(left, earliest, strict=True)]
        i, others = left[0], left[1:]
        start, rest = starts[0], sum(starts[1:])
        kinds = self._kinds
        equal = [not self._ties and kinds[other] == kinds[i] for other in others]
        while total + start + rest < self.best + (self._ties or not self.schedules):
            if self._fits(i, start):
                before = self._used
                self._used += self._shape[i] << start * self._width
                self._starts[i] = start
                later = [
                    max(first, start) if same else first
                    for first, same in zip(starts[1:], equal, strict=True)
                ]
                self._extend(total + start, others, later)
                del self._starts[i]
                self._used = before
            start += 1

    def _first_fit(self, i: int, start: int) -> int:
        while not self._fits(i, start):
            start += 1
        return start

    def _fits(self, i: int, start: int) -> bool:
        return not ((self._used >> start * self._width) + self._shape[i]) & self._full[i]

    def _everywhere(self, value: int, slots: int) -> int:
        return value * (((1 << self._width * slots) - 1) // ((1 << self._width) - 1))
