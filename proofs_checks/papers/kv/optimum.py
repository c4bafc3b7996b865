"""The hindsight optimum from any state, by enumeration: least total latency, and who reaches it.

`formulations.hindsight_latency` starts from an empty worker; the paper's proofs also ask for the
optimum from a state that Algorithm 2 has reached, and for all optima.
"""

from collections.abc import Mapping, Sequence

from proofs_checks.papers.kv.model import Jobs


def optima(
    data: Jobs, fixed: Mapping[int, int] | None = None, now: int = 0
) -> list[tuple[int, ...]]:
    """Return all schedules of least total latency that keep what has started.

    Parameters
    ----------
    data : Jobs
        A few requests.
    fixed : mapping, optional
        Starts before ``now`` of the requests that have started.
    now : int
        Earliest start of the others.
    """
    search = _Search(data, dict(fixed or {}), now)
    search.extend(0, sum(search.starts.values()))
    return search.found


def least_latency(data: Jobs, fixed: Mapping[int, int] | None = None, now: int = 0) -> int:
    """Return the least sum of starts."""
    return sum(optima(data, fixed, now)[0])


class _Search:
    """Depth first over the starts of the requests that are left."""

    def __init__(self, data: Jobs, starts: dict[int, int], now: int) -> None:
        self.data, self.starts = data, starts
        self.left = [job for job in range(len(data.length)) if job not in starts]
        self.earliest = [max(now, data.arrival[job]) for job in self.left]
        self.tokens: dict[int, int] = {}
        for job, start in starts.items():
            self._place(job, start, 1)
        # One after the other once everything has left: a schedule, so a limit on the search.
        begin = max([now, *self.earliest, *self.tokens.keys()]) + 1
        self.best = sum(starts.values())
        for job in sorted(self.left, key=lambda job: data.length[job]):
            self.best += begin
            begin += data.length[job]
        self.found: list[tuple[int, ...]] = []

    def extend(self, position: int, total: int) -> None:
        """Try every start of the request at ``position`` among those left."""
        if position == len(self.left):
            if total < self.best:
                self.best, self.found = total, []
            self.found.append(tuple(self.starts[job] for job in range(len(self.data.length))))
            return
        job, rest = self.left[position], sum(self.earliest[position + 1 :])
        start = self.earliest[position]
        while total + start + rest <= self.best:
            if self._fits(job, start):
                self._place(job, start, 1)
                self.starts[job] = start
                self.extend(position + 1, total + start)
                del self.starts[job]
                self._place(job, start, -1)
            start += 1

    def _fits(self, job: int, start: int) -> bool:
        return all(
            self.tokens.get(start + age, 0) + self.data.first[job] + age <= self.data.memory
            for age in range(self.data.length[job])
        )

    def _place(self, job: int, start: int, sign: int) -> None:
        for age in range(self.data.length[job]):
            slot = start + age
            self.tokens[slot] = self.tokens.get(slot, 0) + sign * (self.data.first[job] + age)


def prefix(starts: Sequence[int], until: int) -> dict[int, int]:
    """Return the starts before round ``until``."""
    return {job: start for job, start in enumerate(starts) if start < until}
