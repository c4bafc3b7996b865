"""The answer to a hindsight latency problem."""

from dataclasses import dataclass

from formulations.results import ProgramResult

#: Start round of each request.
Starts = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LatencyResult(ProgramResult[Starts]):
    """The answer of a hindsight latency program; the objective is the total latency [rounds].

    Parameters
    ----------
    starts : tuple of int, optional
        Start round of each request.
    """

    solution_fields = ("starts",)

    starts: Starts | None = None
