"""Identical requests as one kind, and the starts that can be optimal."""

from dataclasses import dataclass

from formulations.hindsight_latency.problem import LatencyProblem
from formulations.request_table import alike


@dataclass(frozen=True)
class Kind:
    """Requests with the same arrival, prompt and output.

    Parameters
    ----------
    arrival, prompt, output : int
        Common data.
    members : tuple of int
        Requests, in order.
    last_start : int
        Latest start in any optimum, see `kinds`.
    """

    arrival: int
    prompt: int
    output: int
    members: tuple[int, ...]
    last_start: int

    @property
    def starts(self) -> range:
        """The starts that can be optimal."""
        return range(self.arrival, self.last_start + 1)


def occupied_rounds(problem: LatencyProblem) -> list[int]:
    """Return how many rounds each request occupies."""
    convention = problem.convention
    return [convention.last_age(o) - convention.first_age + 1 for o in problem.output.tolist()]


def kinds(problem: LatencyProblem, *, aggregate: bool = True) -> tuple[Kind, ...]:
    """Group the requests, each with a horizon that contains every optimum.

    In an optimum request i starts at ``max_j a_j + Σ_{j≠i} d_j`` at the latest, where d_j is the
    number of rounds j occupies. Suppose it starts later. The others occupy at most ``Σ_{j≠i} d_j``
    rounds, so of the rounds after the last arrival and before i's first there is one, g, that
    nobody occupies. No request spans g. Start every request whose first round comes after g one
    round earlier: its start stays at or after the last arrival, the memory after g merely
    moves, and no round before g changes. The schedule stays feasible and i's latency falls: no
    optimum.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    aggregate : bool
        Whether identical requests form one kind; otherwise each is its own.
    """
    last_arrival = max(problem.arrival.tolist(), default=0)
    durations = occupied_rounds(problem)
    total = sum(durations)
    groups = alike(problem.arrival, problem.prompt, problem.output, aggregate=aggregate)
    return tuple(
        Kind(arrival, prompt, output, tuple(members), last_arrival + total - durations[members[0]])
        for (arrival, prompt, output, _), members in groups.items()
    )
