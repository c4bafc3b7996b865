"""The least total latency of a few requests, if it is within a limit."""

from collections.abc import Sequence

from formulations.hindsight_latency import LatencyProblem, total_latency


def least_within(problem: LatencyProblem, most: int) -> tuple[int, ...] | None:
    """Return starts of least total latency; None if no schedule has at most ``most``.

    Requests are placed one after the other, the longest first, at every start that the limit
    leaves; those alike start in order. The delays of all requests add up to little if the limit
    is close to the sum of outputs, and then there are few vectors to try.

    Parameters
    ----------
    problem : LatencyProblem
        A few requests.
    most : int
        Largest total latency of interest [rounds].
    """
    search = _Search(problem, most - total_latency(problem, problem.arrival.tolist()))
    search.extend(0, 0)
    return search.best


class _Search:
    """Depth first over delays of requests, cut where they add up to more than the limit."""

    def __init__(self, problem: LatencyProblem, most: int) -> None:
        self.best: tuple[int, ...] | None = None
        self._most = most
        self._memory = problem.memory
        rows = list(
            zip(
                problem.arrival.tolist(),
                problem.prompt.tolist(),
                problem.output.tolist(),
                strict=True,
            )
        )
        self._order = sorted(range(len(rows)), key=lambda i: (-rows[i][2], rows[i]))
        self._arrivals = [rows[i][0] for i in self._order]
        self._profiles = [_profile(problem, rows[i]) for i in self._order]
        self._alike = [
            k > 0 and rows[self._order[k]] == rows[self._order[k - 1]] for k in range(len(rows))
        ]
        self._first = problem.convention.first_age
        last = max(self._arrivals, default=0) + max(most, 0)
        self._used = [0] * (last + max((len(p) for p in self._profiles), default=0) + 2)
        self._starts = [0] * len(rows)

    def extend(self, place: int, delayed: int) -> None:
        """Try every start of the request at ``place``; the delays so far add up to ``delayed``."""
        if delayed > self._most:
            return
        if place == len(self._order):
            self._most = delayed - 1
            found = [0] * len(self._order)
            for k, i in enumerate(self._order):
                found[i] = self._starts[k]
            self.best = tuple(found)
            return
        arrival, profile = self._arrivals[place], self._profiles[place]
        start = self._starts[place - 1] if self._alike[place] else arrival
        while delayed + start - arrival <= self._most:
            if self._fits(start, profile):
                self._place(start, profile, 1)
                self._starts[place] = start
                self.extend(place + 1, delayed + start - arrival)
                self._place(start, profile, -1)
            start += 1

    def _fits(self, start: int, profile: Sequence[int]) -> bool:
        first = start + self._first
        return all(
            self._used[first + k] + tokens <= self._memory for k, tokens in enumerate(profile)
        )

    def _place(self, start: int, profile: Sequence[int], sign: int) -> None:
        first = start + self._first
        for k, tokens in enumerate(profile):
            self._used[first + k] += sign * tokens


def _profile(problem: LatencyProblem, row: tuple[int, int, int]) -> list[int]:
    """Return the tokens that a request holds, round by round from its first one."""
    _, prompt, output = row
    convention = problem.convention
    return [prompt + a for a in range(convention.first_age, convention.last_age(output) + 1)]
