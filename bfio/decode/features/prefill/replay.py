"""What the prefill tier must have done, from when requests left the pool alone.

Written for itself, event by event, for the replay of a run: nothing here uses the engine.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from bfio.decode.features.prefill.options import PrefillTier


@dataclass
class PrefillReplay:
    """The tier up to some time.

    Parameters
    ----------
    tier : PrefillTier
        The tier.
    prompts : list of int
        Prompt of each request [tokens].
    arrivals : list of (float, int)
        When requests arrive [s], in order of time.
    """

    tier: PrefillTier
    prompts: list[int]
    arrivals: deque[tuple[float, int]]
    now_s: float = 0.0
    queue: list[int] = field(default_factory=list)
    #: When prefill and transfer of a request end, and when its cache expires [s].
    prefill_ends: dict[int, float] = field(default_factory=dict)
    transfer_ends: dict[int, float] = field(default_factory=dict)
    cache_ends: dict[int, float] = field(default_factory=dict)
    #: Since when prefill workers hold requests, first come first [s].
    blocked: dict[int, float] = field(default_factory=dict)
    pool: set[int] = field(default_factory=set)
    ready: dict[int, tuple[float, int]] = field(default_factory=dict)
    held_s: dict[int, float] = field(default_factory=dict)
    expiries: list[tuple[int, int, int]] = field(default_factory=list)

    def go_on(self, until_s: float, step: int) -> None:
        """Let everything happen up to a time; what is ready then is seen at ``step``."""
        while self.next_s() <= until_s:
            ends = (self.prefill_ends, self.transfer_ends, self.cache_ends)
            coming = [(time, who, k) for k, of in enumerate(ends) for who, time in of.items()]
            soonest = min(coming, default=(math.inf, 0, 0))
            self.now_s, who, kind = soonest
            if self.arrivals and self.arrivals[0][0] < soonest[0]:
                self.now_s, who = self.arrivals.popleft()
                self.queue.append(who)
            else:
                self._end(who, kind, step)
        self.now_s = until_s

    def next_s(self) -> float:
        """Hand over whom it can, and return when something happens next [s]; at most `inf`."""
        self._hand_over()
        ends = (self.prefill_ends, self.transfer_ends, self.cache_ends)
        times = [time for of in ends for time in of.values()]
        return min(times + [time for time, _ in list(self.arrivals)[:1]], default=math.inf)

    def _end(self, who: int, kind: int, step: int) -> None:
        del (self.prefill_ends, self.transfer_ends, self.cache_ends)[kind][who]
        if kind == 0:
            self.blocked[who] = self.now_s
        elif kind == 1:
            self.pool.add(who)
            self.ready[who] = (self.now_s, step)
            self.cache_ends[who] = self.now_s + self.tier.ttl_s
        elif who in self.pool:
            self.pool.remove(who)
            self.expiries.append((who, self.ready.pop(who)[1], step))
            self.queue.append(who)

    def _hand_over(self) -> None:
        places = self.tier.places
        while self.blocked and (
            places is None or len(self.pool) + len(self.transfer_ends) < places
        ):
            who = next(iter(self.blocked))
            self._count_held(who)
            self.transfer_ends[who] = self.now_s + self.tier.transfer_time_s * self.prompts[who]
        while self.queue and len(self.prefill_ends) + len(self.blocked) < self.tier.workers:
            who = self.queue.pop(0)
            lasts = self.tier.overhead_s + self.tier.token_time_s * self.prompts[who]
            self.prefill_ends[who] = self.now_s + lasts

    def _count_held(self, who: int) -> None:
        held = self.now_s - self.blocked.pop(who)
        self.held_s[who] = self.held_s.get(who, 0.0) + held

    def leave(self, who: int) -> None:
        """Let a request leave the pool for a worker."""
        self.pool.discard(who)
        self.cache_ends.pop(who, None)

    def come_back(self, who: int) -> None:
        """Let a request wait in the pool again that ran before."""
        self.pool.add(who)

    def cancel(self, who: int) -> None:
        """Let a request go, wherever it is."""
        self.leave(who)
        self.prefill_ends.pop(who, None)
        self.transfer_ends.pop(who, None)
        if who in self.blocked:
            self._count_held(who)
        if who in self.queue:
            self.queue.remove(who)
