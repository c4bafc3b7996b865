"""Identical requests as one kind, and the starts that can be optimal."""

from formulations.hindsight_latency.problem import LatencyProblem
from formulations.request_table import RequestKind, alike


def occupied_rounds(problem: LatencyProblem) -> list[int]:
    """Return how many rounds each request occupies."""
    convention = problem.convention
    return [convention.last_age(o) - convention.first_age + 1 for o in problem.output.tolist()]


def kinds(problem: LatencyProblem, *, aggregate: bool = True) -> tuple[RequestKind, ...]:
    """Group requests of one arrival, prompt and output; their windows contain every optimum.

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
        RequestKind(
            prompt, output, tuple(members), arrival, last_arrival + total - durations[members[0]]
        )
        for (arrival, prompt, output, _), members in groups.items()
    )
